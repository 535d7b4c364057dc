//! Connections: who is taken, and what is done with them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Http;
use super::connections::{Connection, Connections};
use super::limits::Limits;
use super::turns::answer_all;

/// After a connection could not be taken, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves everybody who comes, until the house closes; returns when all have left, or have had the time to.
pub(super) async fn serve(listener: TcpListener, http: &Arc<Http>) {
    let connections = Connections::new(http.limits.connections);
    let mut end_unused = pin!(connections.end_unused(http.limits.head));
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = http.house.closing().cancelled() => break,
            () = &mut end_unused => {}
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    if let Some(connection) = connections.open(tasks.len()) {
                        let http = Arc::clone(http);
                        tasks.spawn(async move { receive(stream, connection, &http).await });
                    }
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
    drop(listener);
    tokio::select! {
        () = http.house.closed().cancelled() => connections.tell_all(),
        () = end_unused => {}
    }
    let all_left = async {
        http.lobby.close().await;
        while tasks.join_next().await.is_some() {}
    };
    let _ = timeout(http.limits.last_words, all_left).await;
}

async fn receive(stream: TcpStream, connection: Arc<Connection>, http: &Arc<Http>) {
    if prepare(&stream, &http.limits).is_err() {
        return;
    }
    let Some(identity) = &http.identity else {
        return answer_all(stream, &connection, http).await;
    };
    // The buffers of a handshake are for those who have something to say.
    let speaks = tokio::select! {
        readable = stream.readable() => readable.is_ok(),
        () = connection.told() => false,
    };
    if !speaks {
        return;
    }
    // On the heap, so that connections without it don't have room for it as well.
    Box::pin(async {
        if let Ok(Ok(stream)) = timeout(http.limits.handshake, identity.secure(stream)).await {
            answer_all(stream, &connection, http).await;
        }
    })
    .await;
}

/// An answer is sent at once, and an end that nobody tells us of is noticed.
fn prepare(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // It is counted in seconds.
    let keep_alive = limits.keep_alive.max(Duration::from_secs(1));
    sockopt::set_tcp_keepidle(stream, keep_alive)?;
    sockopt::set_tcp_keepintvl(stream, keep_alive)?;
    let stalled = u32::try_from(limits.stalled.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, stalled)?;
    Ok(())
}
