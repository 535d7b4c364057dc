//! A fake proxy that forwards connections and records request heads.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// A proxy that forwards everything to one local port.
#[derive(Debug)]
pub struct FakeProxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    runtime: Option<Runtime>,
}

impl FakeProxy {
    /// Forwards to this port, for any requested host.
    pub fn to(port: u16) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let heads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&heads);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                // Errors are ignored: tests close connections on purpose.
                tokio::spawn(async move { drop(lead(stream, port, &noted).await) });
            }
        });
        Self { address, heads, runtime: Some(runtime) }
    }

    /// Value for `HTTP_PROXY`, with a user and a password.
    pub fn url(&self) -> String {
        format!("http://user:pass@{}", self.address)
    }

    /// Heads of the first requests of all connections.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("a list").clone()
    }
}

async fn lead(mut from: TcpStream, port: u16, noted: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(from.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    noted.lock().expect("a list").push(text.clone());
    let mut to = TcpStream::connect(("127.0.0.1", port)).await?;
    if text.starts_with("CONNECT ") {
        from.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    } else {
        to.write_all(&head).await?;
    }
    tokio::io::copy_bidirectional(&mut from, &mut to).await.map(drop)
}

impl Drop for FakeProxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
