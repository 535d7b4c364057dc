//! Connections: who is taken, and what is done with them.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Http;
use super::body::Held;
use super::connections::{Connection, Connections};
use super::limits::{HEAD, HEADERS, Limits};

/// After a connection could not be taken, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// For what was said last to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

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
    let _ = timeout(LAST_WORDS, all_left).await;
}

async fn receive(stream: TcpStream, connection: Arc<Connection>, http: &Arc<Http>) {
    if prepare(&stream, &http.limits).is_err() {
        return;
    }
    // Buffers are for those who have something to say.
    let speaks = tokio::select! {
        readable = stream.readable() => readable.is_ok(),
        () = connection.told() => false,
    };
    if !speaks {
        return;
    }
    let Some(identity) = &http.identity else {
        return answer_all(stream, &connection, http).await;
    };
    // On the heap, so that connections without it don't have room for it as well.
    Box::pin(async {
        if let Ok(Ok(stream)) = timeout(http.limits.handshake, identity.secure(stream)).await {
            answer_all(stream, &connection, http).await;
        }
    })
    .await;
}

/// Answers all requests of a connection.
pub(super) async fn answer_all(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: &Arc<Connection>,
    http: &Arc<Http>,
) {
    let answer = service_fn(|request| {
        let busy = connection.work();
        async move {
            let response = http.answer(request).await;
            Ok::<_, Infallible>(response.map(|body| Held::new(body, busy)))
        }
    });
    let served = http1::Builder::new()
        // A connection on which no head arrives is unused, and ends like all of those.
        .header_read_timeout(None)
        .max_headers(HEADERS)
        .max_buf_size(HEAD)
        // Answers are short: together with its head one is sent more quickly than as two parts.
        .writev(false)
        .serve_connection(TokioIo::new(stream), answer);
    let mut served = pin!(served);
    tokio::select! {
        _ = &mut served => {}
        () = connection.told() => {
            if http.house.closed().is_cancelled() {
                served.as_mut().graceful_shutdown();
                // Whoever does not read what was said last has had its time.
                let _ = timeout(LAST_WORDS, served).await;
            }
        }
    }
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
