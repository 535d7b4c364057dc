//! Connections to remote servers: direct or through a proxy, with or without TLS.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::{Address, InvalidAddress};
use super::surroundings::Surroundings;
use super::tls::{self, NoTrust};
use super::tunnel::{self, NoTunnel};

/// Idle time before the kernel sends TCP keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error("{host} can't be reached")]
    Connect { host: String, source: io::Error },
    #[error("no connection within {0:?}")]
    Late(Duration),
    #[error("the proxy's address must begin with http://")]
    ProxyScheme,
    #[error("the proxy {host} refused the connection")]
    Tunnel { host: String, source: NoTunnel },
    #[error(transparent)]
    Trust(#[from] NoTrust),
    #[error("the host name is not valid for TLS")]
    HostName,
    #[error("the TLS handshake failed")]
    Tls(#[source] io::Error),
}

/// Connector for the HTTP client.
#[derive(Clone, Debug)]
pub(super) struct Dialler {
    pub(super) surroundings: Arc<Surroundings>,
    /// Created on first use, because it reads certificate files.
    pub(super) tls: Arc<OnceCell<Arc<ClientConfig>>>,
    pub(super) limit: Duration,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection, plain or TLS.
pub(super) struct Line {
    io: TokioIo<Box<dyn Stream>>,
    /// Whether requests must name the full URL, because an HTTP proxy forwards them.
    is_proxied: bool,
}

impl tower_service::Service<Uri> for Dialler {
    type Response = Line;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Line, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialler = self.clone();
        Box::pin(async move {
            let line = tokio::time::timeout(dialler.limit, dialler.dial(&to)).await;
            line.unwrap_or(Err(DialError::Late(dialler.limit)))
        })
    }
}

impl Dialler {
    async fn dial(&self, to: &Uri) -> Result<Line, DialError> {
        let to = Address::parse(&to.to_string())?;
        let Some(proxy) = self.surroundings.proxy(to.uri()) else {
            let stream = connect(to.host(), to.port()).await?;
            return self.secure_if(stream, &to).await;
        };
        let uri = proxy.uri();
        if uri.scheme_str() != Some("http") {
            return Err(DialError::ProxyScheme);
        }
        let host = uri.host().unwrap_or_default();
        let mut stream = connect(host, uri.port_u16().unwrap_or(80)).await?;
        if !to.is_secure() {
            return Ok(Line { io: TokioIo::new(Box::new(stream)), is_proxied: true });
        }
        let failed = |source| DialError::Tunnel { host: host.to_owned(), source };
        tunnel::lead(&mut stream, &to, proxy.basic_auth()).await.map_err(failed)?;
        self.secure_if(stream, &to).await
    }

    async fn secure_if(&self, stream: TcpStream, to: &Address) -> Result<Line, DialError> {
        let stream: Box<dyn Stream> = if to.is_secure() {
            let host = to.host().trim_matches(['[', ']']).to_owned();
            let name = ServerName::try_from(host).map_err(|_| DialError::HostName)?;
            let connector = TlsConnector::from(self.tls().await?);
            Box::new(connector.connect(name, stream).await.map_err(DialError::Tls)?)
        } else {
            Box::new(stream)
        };
        Ok(Line { io: TokioIo::new(stream), is_proxied: false })
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, DialError> {
        let make = || async {
            let surroundings = Arc::clone(&self.surroundings);
            let made = tokio::task::spawn_blocking(move || tls::config(&surroundings)).await;
            let made = made.map_err(|_| DialError::Tls(io::ErrorKind::Interrupted.into()))?;
            Ok::<_, DialError>(Arc::new(made?))
        };
        self.tls.get_or_try_init(make).await.map(Arc::clone)
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let failed = |source| DialError::Connect { host: format!("{host}:{port}"), source };
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(failed)?;
    // Both options are optimizations; the connection works without them.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, KEEPALIVE));
    Ok(stream)
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl hyper::rt::Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
