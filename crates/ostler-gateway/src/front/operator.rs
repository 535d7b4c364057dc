//! Requests of operators on the unix socket.

use std::sync::Arc;

use ostler::InstanceId;
use ostler::keeper::InstanceView;
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;

use super::{hung_up, say};
use crate::admin::{InstanceLine, Offer, Overview, Reloaded, Reply, Request, SessionLine};
use crate::gateway::{ClientHello, Gateway, is_same};
use crate::variant;

/// Answers one request, then closes the connection.
pub(super) async fn answer(mut stream: UnixStream, request: Request, gateway: &Arc<Gateway>) {
    match request {
        Request::Events { follow } => tell_events(stream, follow, gateway).await,
        Request::Offers(client) => tell_offers(stream, client, gateway).await,
        request => {
            let answer = answer_to(request, gateway).await;
            say(&mut stream, &answer).await;
        }
    }
}

async fn answer_to(request: Request, gateway: &Arc<Gateway>) -> Reply {
    match request {
        Request::Overview => Reply::Overview(Overview::of(gateway)),
        Request::Sessions => Reply::Sessions(SessionLine::all(gateway)),
        Request::Stop(instances) => stop(&instances, gateway),
        Request::Restart(server) => restart(server, gateway).await,
        Request::Reload => reload(gateway),
        Request::Down => down(gateway).await,
        Request::Events { .. } | Request::Offers(_) => Reply::Failed("not a single reply".into()),
    }
}

fn reload(gateway: &Gateway) -> Reply {
    let before = gateway.taken_over();
    match gateway.reload() {
        Ok((changes, notices)) => Reply::Reloaded(Reloaded {
            before: before.filter(|_| is_same(&changes)),
            kept: changes.kept,
            changed: changes.changed,
            removed: changes.removed,
            added: changes.added,
            notices,
        }),
        Err(error) => Reply::Failed(error.to_string()),
    }
}

fn stop(instances: &[InstanceId], gateway: &Gateway) -> Reply {
    let keeper = gateway.router().keeper();
    let views = keeper.snapshot().instances.into_iter();
    let meant: Vec<(u64, InstanceId)> = views
        .filter_map(|view| Some((view.number, view.id?)))
        .filter(|(_, id)| instances.contains(id))
        .collect();
    // Not waited for: the caller checks by itself whether the instances have ended.
    drop(keeper.stop_if(|number, _| meant.iter().any(|(one, _)| *one == number)));
    Reply::Stopping(meant.into_iter().map(|(_, id)| id).collect())
}

async fn restart(server: String, gateway: &Gateway) -> Reply {
    if !gateway.server_sets().names().contains(&server) {
        return Reply::NotFound(server);
    }
    let keeper = gateway.router().keeper();
    let count = keeper.snapshot().instances.iter().filter(|view| is_of(view, &server)).count();
    let left = keeper.stop_if(|_, key| variant::name(&key.server) == server).settled().await;
    let ids = keeper.snapshot().servers.into_iter().map(|view| view.name);
    for id in ids.filter(|id| variant::name(id) == server) {
        keeper.forgive(&id);
    }
    Reply::Ended { count, left: InstanceLine::all(&left, gateway) }
}

fn is_of(view: &InstanceView, server: &str) -> bool {
    variant::name(&view.key.server) == server
}

async fn down(gateway: &Gateway) -> Reply {
    let count = gateway.router().keeper().snapshot().instances.len();
    gateway.close();
    gateway.closed().cancelled().await;
    Reply::Ended { count, left: InstanceLine::all(gateway.left(), gateway) }
}

async fn tell_offers(mut stream: UnixStream, client: ClientHello, gateway: &Gateway) {
    for offer in Offer::all_of(gateway, client) {
        if !say(&mut stream, &offer).await {
            return;
        }
    }
}

async fn tell_events(mut stream: UnixStream, follow: bool, gateway: &Gateway) {
    let (lately, mut news) = gateway.event_log().read();
    for event in lately {
        if !say(&mut stream, &*event).await {
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
            () = gateway.closed().cancelled() => return,
        };
        let is_told = match next {
            Ok(event) => say(&mut stream, &*event).await,
            Err(RecvError::Lagged(_)) => true,
            Err(RecvError::Closed) => false,
        };
        if !is_told {
            return;
        }
    }
}
