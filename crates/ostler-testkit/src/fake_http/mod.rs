//! A scripted HTTP server that records its requests.

mod get;
mod mcp;
mod proxy;
mod reply;
mod tls;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::broadcast;

pub use get::get;
pub use mcp::standard;
pub use proxy::FakeProxy;
pub use reply::{Part, Reply};
pub use tls::Certificate;
use tls::Secured;

use self::reply::Body;
use crate::wait::wait_until;

/// Bound on every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Heard {
    /// `POST`, `GET` or `DELETE`.
    pub method: String,
    /// Path with query.
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body as text.
    pub body: String,
}

impl Heard {
    /// The message that was sent, or null.
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether it is a message with this method.
    pub fn is_call(&self, method: &str) -> bool {
        self.method == "POST" && self.message()["method"] == method
    }

    /// The value of a header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

type Handler = Box<dyn Fn(&Heard) -> Reply + Send + Sync>;

/// The server. Drop ends it.
#[derive(Debug)]
pub struct FakeHttp {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    handler: Handler,
    heard: Mutex<Vec<Heard>>,
    open: AtomicUsize,
    opened: AtomicUsize,
    live: broadcast::Sender<String>,
}

impl FakeHttp {
    /// Starts an HTTP server with this handler.
    pub fn new(handler: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(None, handler)
    }

    /// Starts an HTTPS server.
    pub fn secured(
        certificate: &Certificate,
        handler: impl Fn(&Heard) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(certificate.acceptor()), handler)
    }

    fn start(
        tls: Option<Secured>,
        handler: impl Fn(&Heard) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            heard: Mutex::default(),
            open: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            live: broadcast::Sender::new(1000),
        });
        let scheme = if tls.is_some() { "https" } else { "http" };
        runtime.spawn(accept(listener, tls, Arc::clone(&shared)));
        Self { address, scheme, shared, runtime: Some(runtime) }
    }

    /// URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// URL of a path, with this host name.
    pub fn url_by_name(&self, name: &str, path: &str) -> String {
        format!("{}://{name}:{}{path}", self.scheme, self.address.port())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().expect("a list").clone()
    }

    /// Number of requests that match.
    pub fn count(&self, is_like: impl Fn(&Heard) -> bool) -> usize {
        self.heard().iter().filter(|heard| is_like(heard)).count()
    }

    /// Waits for a request that matches.
    pub fn wait_for(&self, what: &str, is_like: impl Fn(&Heard) -> bool) -> Heard {
        wait_until(what, PATIENCE, || self.heard().into_iter().find(&is_like))
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Number of connections so far.
    pub fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::SeqCst)
    }

    /// Sends data on all open streams.
    pub fn push(&self, text: &str) {
        // There is no listener before the first stream.
        let _ = self.shared.live.send(text.to_owned());
    }

    /// Number of open streams.
    pub fn listeners(&self) -> usize {
        self.shared.live.receiver_count()
    }

    /// Closes the listener and all connections.
    pub fn vanish(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
    }
}

impl Drop for FakeHttp {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, tls: Option<Secured>, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let count = Count::one_more(&shared);
            match tls {
                None => serve(stream, &shared).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &shared).await;
                    }
                }
            }
            drop(count);
        });
    }
}

struct Count(Arc<Shared>);

impl Count {
    fn one_more(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        shared.opened.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, shared: &Arc<Shared>) {
    let service = service_fn(|request| answer(request, Arc::clone(shared)));
    let serving = hyper::server::conn::http1::Builder::new();
    // Errors are ignored: tests close connections on purpose.
    let _ = serving.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text =
        |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into();
    let heard = Heard {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    shared.heard.lock().expect("a list").push(heard.clone());
    Ok((shared.handler)(&heard).response(&shared.live))
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("open", &self.open).finish_non_exhaustive()
    }
}
