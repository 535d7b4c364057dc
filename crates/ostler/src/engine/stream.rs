//! Connections to an engine: unix socket, TCP, TLS or ssh.

mod ssh;
mod tls;

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::containers::Endpoint;

pub(crate) use ssh::SSH_VARIABLES;
pub(crate) use tls::TlsError;

/// A bidirectional byte stream with half-close.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The kernel, or the docker command for ssh, could not connect.
    #[error("can't connect to the engine: {0}")]
    Io(io::Error),
    /// TLS could not be established.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Opens a connection. The caller applies a timeout.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Box<dyn Stream>, ConnectError> {
    match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(ConnectError::Io)?;
            Ok(Box::new(stream))
        }
        Endpoint::Tcp { host, port, tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.map_err(ConnectError::Io)?;
            stream.set_nodelay(true).map_err(ConnectError::Io)?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(files) => Ok(Box::new(tls::secure(stream, host, files).await?)),
            }
        }
        Endpoint::Ssh(address) => {
            Ok(Box::new(ssh::SshStream::open(address).map_err(ConnectError::Io)?))
        }
    }
}
