//! The gateway's door for clients on HTTP.
//!
//! # Theory of operation
//!
//! A request is looked at by the guard before anything else of it is: what it calls this machine, whose page it comes
//! from, and its token. A client's handshake begins a stay, whose id the client sends along from then on. What it posts
//! goes to its session of the gateway as if it came from a pipe; what it is told goes into its mail, which knows
//! the streams that it reads: one for each request that is not answered yet, and those on which it only listens. The
//! answer to a request is plain JSON if nothing has to be said before it, and a stream of events otherwise.
//!
//! That a connection is cut cancels nothing: a client may come back and take up its streams. Only when it has been away
//! for a while, with no connection and no request, all that it has is let go, and its id stays.

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

/// Who is let in.
#[derive(Debug)]
pub struct Settings {
    /// With these tokens.
    pub credentials: Vec<Credential>,
    /// The names that clients may use for this machine, beside `localhost` and addresses.
    pub names: Vec<String>,
    /// What secures their connections, if they are.
    pub identity: Option<Arc<TlsIdentity>>,
    /// How much they may ask for, and how long that may take.
    pub limits: Limits,
}

/// What all connections have in common.
#[derive(Debug)]
struct Http {
    gateway: Arc<Gateway>,
    guard: Guard,
    sessions: Arc<Sessions>,
    identity: Option<Arc<TlsIdentity>>,
    limits: Limits,
}

/// Serves everybody who comes, until the house closes; returns when all have left, or have had the time to.
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
