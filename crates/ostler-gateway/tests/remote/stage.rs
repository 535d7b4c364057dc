//! A gateway with one remote server behind it, and clients in front of it.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderMap;
use ostler::keeper::{Caps, Server, Sharing};
use ostler::{Owner, Places};
use ostler_gateway::config::{Carrier, Environment};
use ostler_gateway::remote::oauth::{ClientSettings, Store};
use ostler_gateway::remote::{Address, RemoteLimits, RemoteServer, RemoteSettings, Surroundings};
use ostler_gateway::{AvailableServer, Route, Router, SessionSpec, Storage, Tools};
use ostler_testkit::{FakeHttp, LineClient, wait_until};
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tokio::runtime::Runtime;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway in this process.
pub(crate) struct Stage {
    pub(crate) router: Arc<Router>,
    pub(crate) runtime: Runtime,
    _state: tempfile::TempDir,
}

/// Settings of a server at this URL, with short time limits.
pub(crate) fn settings(url: &str, store: &std::path::Path) -> RemoteSettings {
    RemoteSettings {
        name: "far".to_owned(),
        address: Address::parse(url).unwrap(),
        headers: HeaderMap::new(),
        carrier: Carrier::Any,
        client: ClientSettings::default(),
        surroundings: Surroundings::new(&Environment::default()),
        store: Store::new(store),
        limits: RemoteLimits {
            retry: Duration::from_millis(5),
            linger: Duration::from_millis(200),
            ..RemoteLimits::default()
        },
    }
}

impl Stage {
    /// A gateway with this server.
    pub(crate) fn new(fake: &FakeHttp) -> Self {
        Self::with(&fake.url("/mcp"), |_| {})
    }

    /// A gateway with a server at this URL, with changed settings.
    pub(crate) fn with(url: &str, change: impl FnOnce(&mut RemoteSettings)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut settings = settings(url, &state.path().join("logins"));
        change(&mut settings);
        let mut server = Server::remote(Arc::new(RemoteServer::new(settings)));
        server.sharing = Sharing::Session;
        server.limits.backoff.first = Duration::from_millis(1);
        let available = [("far".to_owned(), AvailableServer::new(server, Tools::default()))].into();
        let runtime = Runtime::new().unwrap();
        let router = runtime.block_on(async {
            let owner = Owner::new(Places::new([state.path().join("ledgers")]), "remote").unwrap();
            Router::new(owner, available, Caps::default(), Storage::default())
        });
        let tended = Arc::clone(&router);
        runtime.spawn(async move { tended.tend().await });
        Self { router, runtime, _state: state }
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> LineClient {
        let (theirs, input) = std::io::pipe().unwrap();
        let (output, ours) = std::io::pipe().unwrap();
        let router = Arc::clone(&self.router);
        let spec = SessionSpec::new(None, Route::One("far".into()));
        self.runtime.spawn(async move {
            let input = pipe::Receiver::from_owned_fd(theirs.into()).unwrap();
            let output = pipe::Sender::from_owned_fd(ours.into()).unwrap();
            router.serve(spec, input, output, std::future::pending()).await;
        });
        LineClient::new(input, output)
    }

    /// A client after its handshake.
    pub(crate) fn context(&self) -> LineClient {
        let mut client = self.client();
        client.enter();
        client
    }

    /// Waits until no instance is left.
    pub(crate) fn wait_empty(&self) {
        let is_empty = || self.router.keeper().snapshot().instances.is_empty();
        wait_until("no instance is left", PATIENCE, is_empty);
        assert!(self.router.keeper().books().balance());
    }
}

/// Calls a tool, and returns the response. Skips other messages.
pub(crate) fn call(client: &mut LineClient, id: u64) -> Value {
    client.request(&json!(id), "tools/call", &json!({ "name": "echo", "arguments": { "n": id } }));
    answer(client, id)
}

/// The response with this id.
pub(crate) fn answer(client: &LineClient, id: u64) -> Value {
    loop {
        let message = client.message();
        if message["id"] == id {
            return message;
        }
    }
}

/// Number of times that this call was sent.
pub(crate) fn sent(fake: &FakeHttp, id: u64) -> usize {
    fake.count(|heard| {
        heard.is_call("tools/call") && heard.message()["params"]["arguments"]["n"] == id
    })
}
