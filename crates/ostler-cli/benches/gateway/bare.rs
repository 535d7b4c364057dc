//! Minimal HTTP server with a fixed response: the cost of HTTP alone.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::Result;

/// Number of threads, the same as the gateway's.
const THREADS: usize = 2;
const ANSWER: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}"#;

/// Starts the server, which ends with this process, and returns its address.
pub(crate) fn start() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let serving = move || {
        runtime.block_on(async {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(
                    http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(answer)),
                );
            }
        });
    };
    thread::Builder::new().name("bare".into()).spawn(serving)?;
    Ok(address)
}

async fn answer(
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    // Any server has to read the body.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::from(ANSWER));
    let session = hyper::header::HeaderValue::from_static("bare");
    response.headers_mut().insert("mcp-session-id", session);
    Ok(response)
}
