//! A line to an engine.

mod ssh;
mod tls;

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::containers::Endpoint;

pub(crate) use ssh::SURROUNDINGS;
pub(crate) use tls::NoTls;

/// Bytes both ways. Its end can be told apart from its loss.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why there is no line to an engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStream {
    /// Nobody listens, or nobody is there.
    #[error("{address} can't be reached: {error}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The line can't be secured.
    #[error(transparent)]
    Tls(#[from] NoTls),
}

/// Opens one. The caller sets the limit on its time.
pub(crate) async fn open(endpoint: &Endpoint) -> Result<Box<dyn Stream>, NoStream> {
    let unreachable = |error| NoStream::Unreachable { address: endpoint.to_string(), error };
    match endpoint {
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(unreachable)?;
            Ok(Box::new(stream))
        }
        Endpoint::Tcp { host, port, tls } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
            stream.set_nodelay(true).map_err(unreachable)?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(files) => Ok(Box::new(tls::secure(stream, host, files).await?)),
            }
        }
        Endpoint::Ssh(address) => Ok(Box::new(ssh::Dialled::open(address).map_err(unreachable)?)),
    }
}
