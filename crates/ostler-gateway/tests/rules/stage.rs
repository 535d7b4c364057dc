//! A gateway with puppets behind it, and clients in front of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::{Caps, Server, Sharing};
use ostler::{GuardianProgram, Owner, Places, ServerSpec};
use ostler_gateway::{AvailableServer, Route, Router, SessionLimits, SessionSpec, Storage, Tools};
pub(crate) use ostler_testkit::LineClient as Client;
use ostler_testkit::{Puppet, Puppets, binary, wait_until};
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::runtime::Runtime;

/// A client with a short list timeout: its lists wait for about a second.
pub(crate) const IMPATIENT: &str = "openclaw-bundle-mcp";

const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway in this process.
pub(crate) struct Stage {
    pub(crate) router: Arc<Router>,
    pub(crate) puppets: BTreeMap<String, Puppets>,
    runtime: Runtime,
    state: tempfile::TempDir,
}

impl Stage {
    /// With one server, `puppet`, that is shared like this.
    pub(crate) fn new(sharing: Sharing) -> Self {
        Self::with(&["puppet"], |server| server.sharing = sharing)
    }

    /// With these servers, each changed like this.
    pub(crate) fn with(names: &[&str], change: impl Fn(&mut Server)) -> Self {
        Self::offering(names, change, &Tools::default())
    }

    pub(crate) fn offering(names: &[&str], change: impl Fn(&mut Server), tools: &Tools) -> Self {
        Self::limited(names, change, tools, Caps::default())
    }

    /// With one server, `puppet`, that is shared like this, and this time limit for `roots/list`.
    pub(crate) fn hurried(sharing: Sharing, roots: Duration) -> Self {
        let change = |server: &mut Server| server.sharing = sharing;
        let limits = SessionLimits { roots };
        Self::build(&["puppet"], change, &Tools::default(), Caps::default(), limits)
    }

    /// The same within these caps.
    pub(crate) fn limited(
        names: &[&str],
        change: impl Fn(&mut Server),
        tools: &Tools,
        caps: Caps,
    ) -> Self {
        Self::build(names, change, tools, caps, SessionLimits::default())
    }

    fn build(
        names: &[&str],
        change: impl Fn(&mut Server),
        tools: &Tools,
        caps: Caps,
        limits: SessionLimits,
    ) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let puppets = names.iter().map(|name| ((*name).to_owned(), Puppets::default())).collect();
        Self::open(state, puppets, change, tools, caps, limits)
    }

    /// A successor of this gateway, with its catalog.
    pub(crate) fn restart(self, change: impl Fn(&mut Server)) -> Self {
        let Self { router, puppets, runtime, state } = self;
        drop((router, runtime));
        let (caps, limits) = (Caps::default(), SessionLimits::default());
        Self::open(state, puppets, change, &Tools::default(), caps, limits)
    }

    fn open(
        state: tempfile::TempDir,
        puppets: BTreeMap<String, Puppets>,
        change: impl Fn(&mut Server),
        tools: &Tools,
        caps: Caps,
        limits: SessionLimits,
    ) -> Self {
        let available_server = |(name, puppets): (&String, &Puppets)| {
            let mut server = Server::new(spec(name, puppets));
            server.terms.guardian = GuardianProgram::At(binary("ostler"));
            server.terms.limits.grace = Duration::from_millis(300);
            server.limits.backoff.first = Duration::from_millis(1);
            change(&mut server);
            (name.clone(), AvailableServer::new(server, tools.clone()))
        };
        let available = puppets.iter().map(available_server).collect();
        let runtime = Runtime::new().expect("a runtime");
        let router = runtime.block_on(async {
            let places = Places::new([state.path().join("ledgers")]);
            let owner = Owner::new(places, "rules").expect("an owner");
            let storage = Storage { catalog: Some(state.path().join("catalog")), logs: None };
            Router::with_limits(owner, available, caps, storage, limits)
        });
        let tended = Arc::clone(&router);
        runtime.spawn(async move { tended.tend().await });
        Self { router, puppets, runtime, state }
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

    /// Asserts that no server was started since the last [`Self::puppet`].
    pub(crate) fn assert_nothing_started(&self) {
        assert!(self.puppets.values().all(Puppets::is_idle));
    }

    /// Waits until the catalog has this list.
    pub(crate) fn wait_listed(&self, method: &str) {
        let catalog = self.state.path().join("catalog");
        wait_until("the list is known", PATIENCE, || {
            let files = std::fs::read_dir(&catalog).into_iter().flatten().flatten();
            let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
            texts.any(|text| text.contains(&format!("\"{method}\"")))
        });
    }

    /// A client of the only server, whose agent has no name.
    pub(crate) fn client(&self) -> Client {
        let server = self.puppets.keys().next().expect("a server");
        self.connect(None, Route::One(server.as_str().into()))
    }

    /// A client of all servers.
    pub(crate) fn client_of_all(&self) -> Client {
        self.connect(None, Route::All)
    }

    pub(crate) fn connect(&self, agent: Option<&str>, route: Route) -> Client {
        self.admit(SessionSpec::new(agent.map(ToOwned::to_owned), route))
    }

    /// The whole catalog on disk, as text.
    pub(crate) fn catalog(&self) -> String {
        let files = std::fs::read_dir(self.state.path().join("catalog")).into_iter().flatten();
        let texts = files.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.collect()
    }

    pub(crate) fn admit(&self, spec: SessionSpec) -> Client {
        let (theirs, input) = std::io::pipe().expect("a pipe");
        let (output, ours) = std::io::pipe().expect("a pipe");
        let router = Arc::clone(&self.router);
        self.runtime.spawn(async move {
            let input = pipe::Receiver::from_owned_fd(theirs.into()).expect("a pipe");
            let output = pipe::Sender::from_owned_fd(ours.into()).expect("a pipe");
            router.serve(spec, input, output, std::future::pending()).await;
        });
        Client::new(input, output)
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
