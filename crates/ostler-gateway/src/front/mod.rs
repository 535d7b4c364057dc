//! The unix socket of a gateway.
//!
//! # Theory of operation
//!
//! The gateway greets, and says which variables it wants to know. Then one line of JSON says what a connection is
//! for: a session of a client, or a question of an operator. A client's stdin and stdout come with that line, and the
//! gateway uses them as they are: not a byte passes through the process that has sent them, which only holds the
//! connection, so that each sees the end of the other. Where that can't be done, the connection itself carries the
//! session.
//!
//! Whoever is not the gateway's own user is not answered.

mod dial;
mod handshakes;
mod hello;
pub mod http;
mod last;
mod line;
mod operator;
mod socket;
mod stdio;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ostler::{InstanceId, instances_around};
use rustix::process::getuid;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use dial::{DialError, GatewayConnection};
pub use hello::{Admission, Greeting, Hello, SessionEnd};
pub use last::{LastError, last_configuration, leave_configuration};
pub use line::LineError;
pub use socket::{BoundSocket, GatewaySocket, SocketError, remove_stale};
pub use stdio::is_usable;

pub use crate::file_lock::Lock;
pub use crate::gateway::ClientHello;
use crate::gateway::Gateway;
use crate::router::SessionSpec;
use handshakes::{Handshake, Handshakes};
pub(crate) use stdio::hung_up;
use stdio::{Input, Output, open_both};

/// For whoever connects to say what for.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// For whoever is told something short to take it.
const WORD_LIMIT: Duration = Duration::from_secs(5);
/// After a connection could not be taken, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Why a client is not served when only the reserve for operators is left.
const NO_DESCRIPTORS: &str = "the gateway has no file descriptors left for another client; \
                              raise its limit (`ulimit -n`) or end some clients or servers";
/// For what was said last to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves everybody who comes, until the house closes; returns when all have left, or have had the time to.
pub async fn serve(bound: &BoundSocket, gateway: &Arc<Gateway>) -> std::io::Result<()> {
    let listener = UnixListener::from_std(bound.listener.try_clone()?)?;
    let mut connections = JoinSet::new();
    let mut handshakes = Handshakes::new();
    let closing = gateway.closing();
    gateway.reserve().fill();
    loop {
        tokio::select! {
            biased;
            () = closing.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {
                gateway.reserve().fill();
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (gateway, only_for) = (Arc::clone(gateway), bound.socket().instance());
                    let handshake = handshakes.add();
                    connections.spawn(async move { receive(stream, handshake, &gateway, only_for).await });
                }
                Err(_) if gateway.reserve().spend() => {}
                Err(_) => {
                    handshakes.dismiss_oldest();
                    sleep(PAUSE).await;
                }
            }
        }
    }
    // Who comes now finds nobody, and starts the next one.
    bound.hide();
    drop(listener);
    gateway.closed().cancelled().await;
    let all_left = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(LAST_WORDS, all_left).await;
    Ok(())
}

async fn receive(
    stream: UnixStream,
    handshake: Handshake,
    gateway: &Arc<Gateway>,
    only_for: Option<InstanceId>,
) {
    let Ok(peer) = stream.peer_cred() else { return };
    if peer.uid() != getuid().as_raw() {
        return;
    }
    let mut stream = stream;
    let heard = tokio::select! {
        heard = greet(&mut stream, gateway) => heard,
        () = handshake.told() => return,
    };
    drop(handshake);
    let Some(heard) = heard else { return };
    match heard {
        Ok((Hello::Client(_), _)) if !gateway.reserve().fill() => {
            say(&mut stream, &Admission::Refused(NO_DESCRIPTORS.into())).await;
        }
        Ok((Hello::Client(_), _)) if is_stranger(peer.pid(), only_for) => {
            let id = only_for.map(|id| id.to_string()).unwrap_or_default();
            let reason = format!("this gateway serves only clients inside of instance {id}");
            say(&mut stream, &Admission::Refused(reason)).await;
        }
        Ok((Hello::Client(hello), descriptors)) => {
            admit(stream, hello, descriptors, peer.pid(), gateway).await;
        }
        Ok((Hello::Admin(request), _)) => operator::answer(stream, request, gateway).await,
        Err(error) => {
            say(&mut stream, &Admission::Refused(error.to_string())).await;
        }
    }
}

/// Greets a peer and reads its first line. None if it is gone or says nothing in time.
async fn greet(
    stream: &mut UnixStream,
    gateway: &Gateway,
) -> Option<Result<(Hello, Vec<OwnedFd>), LineError>> {
    let greeting = Greeting {
        ostler: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        variables: gateway.variables(),
    };
    if !say(stream, &greeting).await {
        return None;
    }
    timeout(HELLO_LIMIT, line::receive(stream)).await.ok()
}

/// Whether a client is no part of the only instance that is served. One in another PID namespace has no pid here.
fn is_stranger(pid: Option<i32>, only_for: Option<InstanceId>) -> bool {
    only_for.is_some_and(|id| !pid.is_some_and(|pid| instances_around(pid).contains(&id)))
}

async fn admit(
    mut stream: UnixStream,
    hello: ClientHello,
    descriptors: Vec<OwnedFd>,
    pid: Option<i32>,
    gateway: &Arc<Gateway>,
) {
    let spec = match gateway.admit(hello, pid) {
        Ok(spec) => spec,
        Err(refusal) => {
            say(&mut stream, &Admission::Refused(refusal.to_string())).await;
            return;
        }
    };
    let both = <[OwnedFd; 2]>::try_from(descriptors).ok();
    match both.and_then(|[stdin, stdout]| open_both(stdin, stdout)) {
        Some(stdio) => directly(stream, stdio, spec, gateway).await,
        None => bridged(stream, spec, gateway).await,
    }
}

/// A session on the client's own descriptors.
async fn directly(
    mut stream: UnixStream,
    (input, output): (Input, Output),
    spec: SessionSpec,
    gateway: &Gateway,
) {
    if !say(&mut stream, &Admission::Direct).await {
        return;
    }
    gateway.router().serve(spec, input, output, end_of(&stream, gateway)).await;
    let is_closing = gateway.closed().is_cancelled();
    say(&mut stream, if is_closing { &SessionEnd::Closing } else { &SessionEnd::Over }).await;
}

/// A session on the connection.
async fn bridged(mut stream: UnixStream, spec: SessionSpec, gateway: &Gateway) {
    let watched = stream.as_fd().try_clone_to_owned();
    if let (Ok(watched), true) = (watched, say(&mut stream, &Admission::Bridge).await) {
        let (input, output) = stream.into_split();
        gateway.router().serve(spec, input, output, end_of(&watched, gateway)).await;
    }
}

/// Waits until the other end is gone, or the gateway has ended all that it could be served with.
async fn end_of(connection: &impl AsFd, gateway: &Gateway) {
    tokio::select! {
        () = hung_up(connection) => {}
        () = gateway.closed().cancelled() => {}
    }
}

/// Says one line. Whether it was taken.
pub(crate) async fn say(stream: &mut UnixStream, message: &impl Serialize) -> bool {
    let Ok(mut line) = serde_json::to_vec(message) else { return false };
    line.push(b'\n');
    matches!(timeout(WORD_LIMIT, stream.write_all(&line)).await, Ok(Ok(())))
}
