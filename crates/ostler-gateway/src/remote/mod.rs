//! Remote servers, reached over HTTP.
//!
//! The keeper treats a remote server like a local process: an instance reads and writes newline-delimited messages. A
//! `Conversation` implements one instance; it carries the messages over Streamable HTTP or over the older HTTP+SSE
//! transport, and corresponds to one MCP session at the server. Its `Link` holds the session state (session id,
//! protocol version, credentials); `Http` is its connection pool, and `oauth` obtains bearer tokens.
//!
//! A request that the server may have executed is never sent a second time. If its response stream breaks, the stream
//! is resumed by event id; otherwise the call fails.

mod address;
mod conversation;
mod dial;
mod events;
mod exchange;
mod failure;
mod http;
mod legacy_sse;
mod limits;
mod link;
pub mod oauth;
mod outlet;
mod stream;
mod surroundings;
mod tls;
mod tunnel;

use hyper::header::{AUTHORIZATION, HeaderMap};
use ostler::keeper::{Conversation as Spoken, Fingerprint, Remote, RemoteEnds};

pub use address::{Address, InvalidAddress};
pub use limits::RemoteLimits;
pub use surroundings::Surroundings;
pub(crate) use surroundings::VARIABLES;

use self::conversation::Conversation;
use self::http::Way;
use self::link::{Link, State};
use self::oauth::{ClientSettings, Keyring, Store};
use self::outlet::Outlet;

/// Transport of a remote server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Streamable HTTP, falling back to HTTP+SSE if the server rejects the handshake.
    Any,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, the transport before protocol version 2025-03-26.
    Sse,
}

/// A remote server with its connection settings and credentials.
#[derive(Debug)]
pub struct RemoteServer {
    name: String,
    address: Address,
    headers: HeaderMap,
    carrier: Carrier,
    client: ClientSettings,
    way: Way,
    store: Store,
    /// Source of bearer tokens; `None` if the configured headers contain `Authorization`.
    keyring: Option<Keyring>,
}

/// Settings of a remote server, with all templates filled in.
#[derive(Debug)]
pub struct RemoteSettings {
    /// The server's name in the configuration.
    pub name: String,
    /// URL of the MCP endpoint.
    pub address: Address,
    /// Headers sent with every request.
    pub headers: HeaderMap,
    /// Transport.
    pub carrier: Carrier,
    /// OAuth client settings for `ostler login`.
    pub client: ClientSettings,
    /// Proxies and root certificates.
    pub surroundings: Surroundings,
    /// Directory of stored logins.
    pub store: Store,
    /// Timeouts and size limits.
    pub limits: RemoteLimits,
}

impl RemoteServer {
    /// Creates the server without connecting to it.
    pub fn new(settings: RemoteSettings) -> Self {
        let RemoteSettings { name, address, headers, carrier, client, store, .. } = settings;
        let way = Way::new(settings.surroundings, settings.limits);
        let (resource, pinned) = (address.resource(), client.pinned());
        let keyring = || Keyring::new(store.clone(), &name, resource, pinned, way.clone());
        let keyring = (!headers.contains_key(AUTHORIZATION)).then(keyring);
        Self { name, address, headers, carrier, client, way, store, keyring }
    }

    /// Whether the configuration sets the `Authorization` header, so that logins are not used.
    fn has_credentials(&self) -> bool {
        self.keyring.is_none()
    }
}

impl Remote for RemoteServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> String {
        self.address.origin()
    }

    fn fingerprint(&self) -> Fingerprint {
        let uri = self.address.uri().to_string();
        let carrier = format!("{:?}", self.carrier);
        let mut text = String::new();
        // The length before each part keeps two different lists from producing the same text.
        let mut part = |said: &str| text.extend([&*said.len().to_string(), ":", said]);
        let issuer = self.client.pinned().unwrap_or_default();
        let own = [&*self.name, &*uri, &*carrier, issuer];
        own.into_iter().chain(self.way.said()).for_each(&mut part);
        for (name, value) in &self.headers {
            part(name.as_str());
            part(&String::from_utf8_lossy(value.as_bytes()));
        }
        Fingerprint::of_text(&text)
    }

    fn speak(&self, ends: RemoteEnds) -> Spoken {
        let RemoteEnds { input, output, complaints, leave } = ends;
        let link = Link {
            name: self.name.clone(),
            address: self.address.clone(),
            headers: self.headers.clone(),
            keyring: self.keyring.clone(),
            http: self.way.open(),
            out: Outlet::new(output, complaints),
            limits: self.way.limits,
            state: State::default(),
        };
        Box::pin(Conversation::new(link, self.carrier).run(input, leave))
    }
}
