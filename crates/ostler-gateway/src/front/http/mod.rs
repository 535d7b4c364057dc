//! HTTP front of the gateway: MCP over Streamable HTTP, and over HTTP+SSE of 2024-11-05.
//!
//! # Theory of operation
//!
//! `listen` accepts connections and `RequestLoop` serves one of them. The guard checks the head of every request
//! first: its `Host`, `Origin` and bearer token. An `initialize` request opens an `McpSession`, and the client sends
//! that session's id with every later request. Messages that a client posts go to its router session, as those of a
//! stdio client do. Messages for the client go through its `Outbound`, which has one event stream for each POST with
//! open requests and one for each GET. The response to a POST is plain JSON if the first message is the last one, and
//! an event stream otherwise.
//!
//! A lost connection cancels no request: the client may reconnect and resume its streams. A client without a
//! connection for the detach timeout loses its router session and the leases of that, but keeps its session id until
//! that expires.

mod connections;
mod event_stream;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod guard;
mod head;
mod headers;
mod legacy_sse;
mod limits;
mod listen;
mod mcp_session;
mod outbound;
mod path;
mod post;
mod refusal;
mod request_loop;
mod requests;
mod response;
mod sessions;
mod sse;
mod wire;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

pub use limits::Limits;

use crate::gateway::Gateway;
pub use crate::gateway::{Credential, TlsIdentity, TlsIdentityError};
pub use crate::token::{Token, TokenError, VARIABLE as TOKEN_VARIABLE};
use guard::Guard;
use limits::PENDING;
use sessions::Sessions;

/// Configuration of the HTTP front.
#[derive(Debug)]
pub struct Settings {
    /// Tokens that the gateway accepts, beside those of its configuration.
    pub credentials: Vec<Credential>,
    /// Host names that clients may use for this machine, beside `localhost` and IP addresses.
    pub names: Vec<String>,
    /// Certificate and key for TLS; plain HTTP without them.
    pub identity: Option<Arc<TlsIdentity>>,
    /// Limits on numbers, sizes and times.
    pub limits: Limits,
}

/// State that all connections share.
#[derive(Debug)]
struct Http {
    gateway: Arc<Gateway>,
    guard: Guard,
    sessions: Arc<Sessions>,
    identity: Option<Arc<TlsIdentity>>,
    limits: Limits,
}

/// Serves HTTP clients until the gateway shuts down; returns when all connections have ended, or after
/// `Limits::last_words`.
pub async fn serve(
    listener: TcpListener,
    settings: Settings,
    gateway: &Arc<Gateway>,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, PENDING)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let http = Http::new(settings, gateway);
    listen::serve(listener, &http).await;
    Ok(())
}

impl Http {
    fn new(settings: Settings, gateway: &Arc<Gateway>) -> Arc<Self> {
        let Settings { credentials, names, identity, limits } = settings;
        if let Some(identity) = &identity {
            gateway.keep(identity);
        }
        Arc::new(Self {
            gateway: Arc::clone(gateway),
            guard: Guard::new(credentials, names),
            sessions: Arc::default(),
            identity,
            limits,
        })
    }
}
