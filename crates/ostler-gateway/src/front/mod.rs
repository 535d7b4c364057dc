//! The gateway's unix socket, for clients and operators of the same user.
//!
//! # Theory of operation
//!
//! The gateway sends a greeting that lists the environment variables it wants to know. The peer answers with one line
//! of JSON, a `Hello`: it opens a client session, or it carries an operator's request.
//!
//! A client passes its stdin and stdout as file descriptors along with that line (`SCM_RIGHTS`), and the gateway
//! reads and writes them directly. The client process then only holds the connection open, so that each side notices
//! when the other exits. If the gateway can't use the descriptors, the connection itself carries the session
//! (`Admission::Bridge`).
//!
//! The gateway closes connections of other users without a greeting.

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

/// Deadline for the first line of a new connection.
const HELLO_LIMIT: Duration = Duration::from_secs(5);
/// Deadline for a peer to accept one short line.
const WORD_LIMIT: Duration = Duration::from_secs(5);
/// Pause after `accept` failed for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Reason given to a client when only the descriptors reserved for operators are left.
const NO_DESCRIPTORS: &str = "the gateway has no file descriptors left for another client; \
                              raise its limit (`ulimit -n`) or end some clients or servers";
/// Deadline at shutdown for open connections to finish, after the gateway has closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Accepts connections until the gateway shuts down; returns when all of them have ended, or after `LAST_WORDS`.
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
    // A client that starts now finds no socket, and starts the next gateway.
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

/// Greets a peer and reads its first line. `None` if the peer disconnects or misses a deadline.
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

/// Whether a client is outside of the only instance that this gateway serves. The gateway has no pid for a client in
/// another PID namespace, and counts it as outside.
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

/// Runs a session on the client's own file descriptors; the connection reports its end.
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

/// Runs a session on the connection itself.
async fn bridged(mut stream: UnixStream, spec: SessionSpec, gateway: &Gateway) {
    let watched = stream.as_fd().try_clone_to_owned();
    if let (Ok(watched), true) = (watched, say(&mut stream, &Admission::Bridge).await) {
        let (input, output) = stream.into_split();
        gateway.router().serve(spec, input, output, end_of(&watched, gateway)).await;
    }
}

/// Waits until the peer closes the connection, or the gateway has closed.
async fn end_of(connection: &impl AsFd, gateway: &Gateway) {
    tokio::select! {
        () = hung_up(connection) => {}
        () = gateway.closed().cancelled() => {}
    }
}

/// Sends a message as one line of JSON. False if the peer did not accept it in time.
pub(crate) async fn say(stream: &mut UnixStream, message: &impl Serialize) -> bool {
    let Ok(mut line) = serde_json::to_vec(message) else { return false };
    line.push(b'\n');
    matches!(timeout(WORD_LIMIT, stream.write_all(&line)).await, Ok(Ok(())))
}
