//! Runs a gateway from its start to the last server.
//!
//! Order: create the owner and the gateway, watch the configuration, announce, sweep, serve. The end begins with a signal, `ostler down` or the
//! idle timeout: the gateway stops accepting clients, drains, stops all servers, and reports what is left.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::InstanceView;
use ostler::logs::Logs;
use ostler::{Owner, Places};
use ostler_gateway::admin::{Failure, LoggedEvent};
use ostler_gateway::config::Asker;
use ostler_gateway::front::{self, BoundSocket, GatewaySocket};
use ostler_gateway::{Gateway, ServerSource, Storage, variant};
use rustix::fs::{Mode, OFlags, open};
use rustix::stdio::dup2_stdout;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::activation;
use super::http::Http;
use super::watch;
use crate::out::{print_line, say};
use crate::requests::Requests;
use crate::{render, sweep};

/// Name of this owner in ledgers.
pub(crate) const OWNER: &str = "ostler serve";
/// Number of idle checks per idle timeout.
const LOOKS: u32 = 10;
/// Bound on servers whose last failure is remembered, to shorten repeats.
const MOST_FAILURES: usize = 1000;
/// Line on stdout that tells the starter that the gateway is ready.
const READY: &str = "ready";

pub(super) struct Plan {
    pub(super) source: ServerSource,
    pub(super) configuration: Option<PathBuf>,
    pub(super) http: Option<Http>,
    pub(super) idle_exit: Option<Duration>,
    pub(super) is_detached: bool,
}

/// Serves until a signal, a request or the idle timeout. Returns the number of instances that are left.
pub(super) async fn live(plan: Plan, bound: BoundSocket, requests: Requests) -> io::Result<usize> {
    let owner = Owner::new(Places::of_user(), OWNER)?;
    let gateway = Gateway::new(owner, plan.source, plan.configuration, storage());
    let mut asked = UnixStream::from_std(requests.into_stream())?;
    let _watcher = watch::begin(&gateway);
    if let Some(http) = &plan.http {
        http.announce();
        gateway.warnings().iter().for_each(say);
    }
    announce(&gateway, &bound, plan.is_detached)?;
    activation::notify(activation::READY);
    sweep::begin();
    let mut tasks = JoinSet::new();
    let tended = Arc::clone(&gateway);
    let failures = gateway.tell_failures(failure_teller());
    tasks.spawn(async move { tended.tend().await });
    tasks.spawn(failures);
    let served = Arc::clone(&gateway);
    let serving = tokio::spawn(async move {
        let here = front::serve(&bound, &served);
        let everywhere = async {
            let Some(Http { listener, settings, .. }) = plan.http else { return Ok(()) };
            front::http::serve(listener, settings, &served).await
        };
        tokio::try_join!(here, everywhere)
    });
    tokio::select! {
        () = next(&mut asked) => {}
        () = gateway.closing().cancelled() => {}
        () = idle(&gateway, plan.idle_exit) => {}
    }
    activation::notify(activation::STOPPING);
    let left = gateway.shut_down(next(&mut asked)).await;
    serving.await.map_err(io::Error::other)??;
    tell_left(left);
    Ok(left.len())
}

/// Prints failures of instances. A repeated failure is printed in one line, to keep the log short.
fn failure_teller() -> impl FnMut(&LoggedEvent) {
    let mut last: BTreeMap<String, Failure> = BTreeMap::new();
    move |event| {
        let LoggedEvent { failure: Some(failure), server, number, .. } = event else { return };
        let server = server.clone().unwrap_or_else(|| "-".into());
        let number = number.map(|number| format!(" #{number}")).unwrap_or_default();
        if last.get(&server) == Some(failure) {
            return say(format_args!("{server}{number}: failed as before: {}", failure.summary()));
        }
        say(format_args!("{server}{number}: failed: {}", render::failure(failure).join("\n")));
        if last.len() >= MOST_FAILURES {
            last.clear();
        }
        last.insert(server, failure.clone());
    }
}

/// Directories of the gateway. Without logs it says why.
fn storage() -> Storage {
    let logs = Logs::create(&Places::of_user());
    if let Err(error) = &logs {
        say(format_args!("warning: cannot keep logs of servers: {error}"));
    }
    Storage { catalog: catalog(), logs: logs.ok() }
}

/// Directory of the catalog, beside the ledgers; none if no directory can be used.
pub(crate) fn catalog() -> Option<PathBuf> {
    Places::of_user().private().ok().map(|best| best.join("catalog"))
}

fn announce(gateway: &Gateway, bound: &BoundSocket, is_detached: bool) -> io::Result<()> {
    let what = gateway
        .configuration()
        .map_or("no configuration".into(), |path| path.display().to_string());
    let socket = bound.socket();
    say(format_args!("serves {what} at {}", socket.path().display()));
    if let Some(instance) = socket.instance() {
        say(format_args!("serves only clients inside instance {instance}, and ends with it"));
    } else if let Some(way) = way_to(socket, gateway.configuration()) {
        say(format_args!("clients reach it with `ostler connect {way}`"));
    }
    if is_detached {
        print_line(READY);
        let nothing = open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        dup2_stdout(nothing)?;
    }
    Ok(())
}

/// Options that `ostler connect` needs to reach this gateway, if it does not find it by itself.
fn way_to(socket: &GatewaySocket, configuration: Option<&Path>) -> Option<String> {
    let is_usual = |path| GatewaySocket::usual(path).is_ok_and(|usual| usual == *socket);
    let found = crate::gateways::configuration(None, Asker::Client).ok().flatten();
    match configuration {
        _ if is_usual(found.as_deref()) => None,
        Some(path) if socket.is_usual_for(path) => Some(format!("--config {}", path.display())),
        _ => Some(format!("--socket {}", socket.path().display())),
    }
}

/// Waits for the next termination signal.
async fn next(asked: &mut UnixStream) {
    let _ = asked.read_u8().await;
}

/// Waits until there was no client and no server for `limit`.
async fn idle(gateway: &Gateway, limit: Option<Duration>) {
    let Some(limit) = limit else { return std::future::pending().await };
    let mut quiet = 0;
    while quiet < LOOKS {
        sleep(limit / LOOKS).await;
        quiet = if gateway.is_idle() { quiet + 1 } else { 0 };
    }
}

fn tell_left(left: &[InstanceView]) {
    for view in left {
        let id = view.id.map_or("not started".into(), |id| id.to_string());
        let name = variant::name(&view.key.server);
        say(format_args!("{name}: not all of it is gone ({id}); its guardian continues"));
    }
}
