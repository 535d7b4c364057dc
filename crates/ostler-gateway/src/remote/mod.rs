//! Servers that somebody else runs, reached by HTTP.
//!
//! To the keeper such a server is like any other: its instance is a conversation that reads lines and writes
//! lines, and carries them as the protocol's HTTP transports say. One instance is one session at the other end.
//! Nothing that changes anything is ever sent twice.

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

/// How messages travel to a remote server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// By whatever it answers to.
    Any,
    /// By HTTP, as a stream if need be.
    Http,
    /// By HTTP, with a stream of events beside it.
    Sse,
}

/// A server that somebody else runs.
#[derive(Debug)]
pub struct RemoteServer {
    name: String,
    address: Address,
    headers: HeaderMap,
    carrier: Carrier,
    client: ClientSettings,
    way: Way,
    store: Store,
    /// Where its key comes from, unless the configuration has it.
    keyring: Option<Keyring>,
}

/// What is known of a remote server.
#[derive(Debug)]
pub struct RemoteSettings {
    /// What people call it.
    pub name: String,
    /// Where it is reached.
    pub address: Address,
    /// Headers of every request.
    pub headers: HeaderMap,
    /// How its messages travel.
    pub carrier: Carrier,
    /// Who we are, when somebody logs in.
    pub client: ClientSettings,
    /// Proxies, and whom to trust.
    pub surroundings: Surroundings,
    /// Where logins are kept.
    pub store: Store,
    /// Its times and sizes.
    pub limits: RemoteLimits,
}

impl RemoteServer {
    /// One that is spoken with like this.
    pub fn new(settings: RemoteSettings) -> Self {
        let RemoteSettings { name, address, headers, carrier, client, store, .. } = settings;
        let way = Way::new(settings.surroundings, settings.limits);
        let (resource, pinned) = (address.resource(), client.pinned());
        let keyring = || Keyring::new(store.clone(), &name, resource, pinned, way.clone());
        let keyring = (!headers.contains_key(AUTHORIZATION)).then(keyring);
        Self { name, address, headers, carrier, client, way, store, keyring }
    }

    /// Whether its credentials are part of the configuration.
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
        // Each part with its length: so that no two different lists look alike.
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
