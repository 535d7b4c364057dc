//! Proxy tunnel: the CONNECT request that precedes TLS through an HTTP proxy.

use std::io;

use hyper::header::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::address::Address;

/// Longest response head that is read from a proxy, in bytes.
const LONGEST: usize = 8 << 10;

/// Why the proxy opened no tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTunnel {
    /// The connection to the proxy failed.
    #[error(transparent)]
    Broken(#[from] io::Error),
    /// The proxy answered with this status.
    #[error("it answered {0}")]
    Refused(u16),
    /// The response is not HTTP, or its head is too long.
    #[error("it does not speak HTTP")]
    Garbage,
}

/// Asks the proxy to open a tunnel to `to`.
pub(super) async fn lead(
    proxy: &mut (impl AsyncRead + AsyncWrite + Unpin),
    to: &Address,
    credentials: Option<&HeaderValue>,
) -> Result<(), NoTunnel> {
    let there = format!("{}:{}", to.host(), to.port());
    let mut head = format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n").into_bytes();
    if let Some(credentials) = credentials {
        head.extend_from_slice(b"Proxy-Authorization: ");
        head.extend_from_slice(credentials.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    proxy.write_all(&head).await?;
    match status(&read_head(proxy).await?) {
        Some(200..=299) => Ok(()),
        Some(other) => Err(NoTunnel::Refused(other)),
        None => Err(NoTunnel::Garbage),
    }
}

/// Reads exactly the response head: the bytes after it belong to the TLS connection.
async fn read_head(proxy: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, NoTunnel> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST {
            return Err(NoTunnel::Garbage);
        }
        head.push(proxy.read_u8().await?);
    }
    Ok(head)
}

fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.strip_prefix("HTTP/1.")?.split(' ').skip(1);
    words.next()?.parse().ok()
}
