//! Doing what an operator asks.

use std::sync::Arc;

use ostler::InstanceId;
use ostler::keeper::InstanceView;
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;

use super::{hung_up, say};
use crate::admin::{Answer, InstanceLine, Overview, Reloaded, Request, SessionLine};
use crate::house::{House, is_same};
use crate::variant;

/// Answers one request; the connection ends with it.
pub(super) async fn answer(mut stream: UnixStream, request: Request, house: &Arc<House>) {
    if let Request::Events { follow } = request {
        return tell_events(stream, follow, house).await;
    }
    let answer = answer_to(request, house).await;
    say(&mut stream, &answer).await;
}

async fn answer_to(request: Request, house: &Arc<House>) -> Answer {
    match request {
        Request::Overview => Answer::Overview(Overview::of(house)),
        Request::Sessions => Answer::Sessions(SessionLine::all(house)),
        Request::Stop(instances) => stop(&instances, house),
        Request::Restart(server) => restart(server, house).await,
        Request::Reload => reload(house),
        Request::Down => down(house).await,
        Request::Events { .. } => Answer::Failed("events are no answer".into()),
    }
}

fn reload(house: &House) -> Answer {
    let before = house.taken_over();
    match house.reload() {
        Ok((changes, notices)) => Answer::Reloaded(Reloaded {
            before: before.filter(|_| is_same(&changes)),
            kept: changes.kept,
            changed: changes.changed,
            removed: changes.removed,
            added: changes.added,
            notices,
        }),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn stop(instances: &[InstanceId], house: &House) -> Answer {
    let keeper = house.gateway().keeper();
    let views = keeper.snapshot().instances.into_iter();
    let meant: Vec<(u64, InstanceId)> = views
        .filter_map(|view| Some((view.number, view.id?)))
        .filter(|(_, id)| instances.contains(id))
        .collect();
    // Who asks looks for itself whether they are gone.
    drop(keeper.stop_if(|number, _| meant.iter().any(|(one, _)| *one == number)));
    Answer::Stopping(meant.into_iter().map(|(_, id)| id).collect())
}

async fn restart(server: String, house: &House) -> Answer {
    if !house.roster().names().contains(&server) {
        return Answer::NotFound(server);
    }
    let keeper = house.gateway().keeper();
    let count = keeper.snapshot().instances.iter().filter(|view| is_of(view, &server)).count();
    let left = keeper.stop_if(|_, key| variant::name(&key.server) == server).settled().await;
    let ids = keeper.snapshot().servers.into_iter().map(|view| view.name);
    for id in ids.filter(|id| variant::name(id) == server) {
        keeper.forgive(&id);
    }
    Answer::Ended { count, left: InstanceLine::all(&left, house) }
}

fn is_of(view: &InstanceView, server: &str) -> bool {
    variant::name(&view.key.server) == server
}

async fn down(house: &House) -> Answer {
    let count = house.gateway().keeper().snapshot().instances.len();
    house.close();
    house.closed().cancelled().await;
    Answer::Ended { count, left: InstanceLine::all(house.left(), house) }
}

async fn tell_events(mut stream: UnixStream, follow: bool, house: &House) {
    let (lately, mut news) = house.chronicle().read();
    for happening in lately {
        if !say(&mut stream, &*happening).await {
            return;
        }
    }
    if !follow {
        return;
    }
    loop {
        let next = tokio::select! {
            next = news.recv() => next,
            () = hung_up(&stream) => return,
            () = house.closed().cancelled() => return,
        };
        let is_told = match next {
            Ok(happening) => say(&mut stream, &*happening).await,
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => false,
        };
        if !is_told {
            return;
        }
    }
}
