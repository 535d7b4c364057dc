//! A gateway on HTTP with puppets behind it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::{Server, Sharing};
use ostler::{GuardianProgram, Owner, Places, ServerSpec};
use ostler_gateway::front::http::{self, Credential, Limits, Settings};
use ostler_gateway::{AvailableServer, Gateway, ServerSource, Storage, Tools};
use ostler_testkit::web::{Reply, Web, hello};
use ostler_testkit::{Puppet, Puppets, binary};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const TOKEN: &str = "token-of-the-test";

/// A gateway in this process.
pub(crate) struct Stage {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) puppets: BTreeMap<String, Puppets>,
    address: SocketAddr,
    _runtime: Runtime,
    _state: tempfile::TempDir,
}

impl Stage {
    /// With one server, `puppet`, that is shared like this.
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self::with(&["puppet"], sharing, |_| {})
    }

    /// With these servers, and other settings.
    pub(crate) fn with(names: &[&str], sharing: Sharing, change: impl Fn(&mut Settings)) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let puppets: BTreeMap<String, Puppets> =
            names.iter().map(|name| ((*name).to_owned(), Puppets::default())).collect();
        let available_server = |(name, puppets): (&String, &Puppets)| {
            let mut server = Server::new(spec(name, puppets));
            server.sharing = sharing;
            server.terms.guardian = GuardianProgram::At(binary("ostler"));
            server.terms.limits.grace = Duration::from_millis(300);
            (name.clone(), AvailableServer::new(server, Tools::default()))
        };
        let source = ServerSource::Fixed(puppets.iter().map(available_server).collect());
        let runtime = Runtime::new().expect("a runtime");
        let _inside = runtime.enter();
        let places = Places::new([state.path().join("ledgers")]);
        let owner = Owner::new(places, "http").expect("an owner");
        let storage = Storage { catalog: Some(state.path().join("catalog")), logs: None };
        let gateway = Gateway::new(owner, source, None, storage);
        let mut settings = Settings {
            credentials: vec![Credential::new("main", TOKEN.into())],
            names: Vec::new(),
            identity: None,
            limits: Limits { detach: PATIENCE, ..Limits::default() },
        };
        change(&mut settings);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (tended, served) = (Arc::clone(&gateway), Arc::clone(&gateway));
        runtime.spawn(async move { tended.tend().await });
        runtime.spawn(async move { http::serve(listener, settings, &served).await });
        Self { gateway, puppets, address, _runtime: runtime, _state: state }
    }

    /// A client of the server `puppet`.
    pub(crate) fn web(&self) -> Web {
        self.web_at("/mcp/puppet")
    }

    pub(crate) fn web_at(&self, path: &str) -> Web {
        Web::new(self.address, path, TOKEN)
    }

    /// The next instance of the only server, after its handshake.
    pub(crate) fn server(&self, capabilities: &Value) -> Puppet {
        let mut puppet = self.puppet();
        puppet.greet(capabilities);
        puppet
    }

    /// The next instance of the only server.
    pub(crate) fn puppet(&self) -> Puppet {
        self.puppets.values().next().expect("a server").next()
    }

    /// A client in a session of this version with its server.
    pub(crate) fn both_in(&self, version: &str, capabilities: &Value) -> (Web, Puppet) {
        let web = self.web();
        let stream = web.begin("POST", &hello(version, capabilities));
        let server = self.server(&json!({}));
        let inside = web.welcome(Reply::read(stream).expect("an answer"));
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(inside.send("POST", ready).status, 202);
        (inside, server)
    }

    pub(crate) fn both(&self) -> (Web, Puppet) {
        self.both_in("2025-11-25", &json!({}))
    }
}

fn spec(name: &str, puppets: &Puppets) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        program: binary("ostler-puppet").into(),
        args: vec![puppets.socket().into()],
        env: Vec::new(),
        cwd: None,
    }
}
