//! Accepts TCP connections, sets up TLS, and closes all of them at shutdown.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;

use super::Http;
use super::connections::{Connection, Connections};
use super::limits::Limits;
use super::request_loop;
use crate::gateway::TlsIdentity;

/// Pause after a connection could not be accepted for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the gateway shuts down; returns when all have ended, or after `Limits::last_words`.
pub(super) async fn serve(listener: TcpListener, http: &Arc<Http>) {
    let connections = Connections::new(http.limits.connections);
    http.gateway.router().quotas().allow_connections(connections.most());
    let mut end_unused = pin!(connections.end_unused(http.limits.head));
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = http.gateway.closing().cancelled() => break,
            () = &mut end_unused => {}
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // The last file descriptors are reserved for operators, and not for HTTP clients.
                    if !http.gateway.reserve().fill() {
                        drop(stream);
                        sleep(PAUSE).await;
                        continue;
                    }
                    if !connections.has_room(tasks.len()) {
                        // Connections that were told to close have not closed yet.
                        let _ = timeout(PAUSE, tasks.join_next()).await;
                    }
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
        () = http.gateway.closed().cancelled() => connections.tell_all(),
        () = end_unused => {}
    }
    let all_left = async {
        http.sessions.close().await;
        while tasks.join_next().await.is_some() {}
    };
    let _ = timeout(http.limits.last_words, all_left).await;
}

async fn receive(stream: TcpStream, connection: Arc<Connection>, http: &Arc<Http>) {
    if prepare(&stream, &http.limits).is_err() {
        return;
    }
    let Some(identity) = &http.identity else {
        return request_loop::serve(stream, &connection, http).await;
    };
    let secured = tokio::select! {
        secured = timeout(http.limits.handshake, secure(stream, identity)) => secured,
        () = connection.told() => return,
    };
    if let Ok(Ok(stream)) = secured {
        // Boxed, so that the future of a connection without TLS has no space for this one.
        Box::pin(request_loop::serve(stream, &connection, http)).await;
    }
}

/// Performs the TLS handshake, after the first byte has arrived: a silent client costs no handshake buffers.
async fn secure(stream: TcpStream, identity: &TlsIdentity) -> io::Result<TlsStream<TcpStream>> {
    if stream.peek(&mut [0]).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Box::pin(identity.secure(stream)).await
}

/// Disables Nagle's algorithm, and enables TCP keep-alive and a timeout for unacknowledged data.
fn prepare(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    // The socket options have a resolution of seconds.
    let keep_alive = limits.keep_alive.max(Duration::from_secs(1));
    sockopt::set_tcp_keepidle(stream, keep_alive)?;
    sockopt::set_tcp_keepintvl(stream, keep_alive)?;
    let stalled = u32::try_from(limits.stalled.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, stalled)?;
    Ok(())
}
