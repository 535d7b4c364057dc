//! What a keeper keeps, and within which bounds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::ambient::Ambient;
use super::backoff::BackoffLimits;
use super::key::Sharing;
use super::line::{Handshake, Listener, NoHandshake, RefuseRequests};
use crate::backend::{Remote, Target};
use crate::fingerprint::Fingerprint;
use crate::spec::ServerSpec;
use crate::terms::Terms;
use crate::ways::makes_container;

/// All servers, by name, and what they may use together.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The servers.
    pub servers: BTreeMap<String, Server>,
    /// What holds for all of them together.
    pub caps: Caps,
}

/// One server: what to run, for whom, and within which bounds.
#[derive(Clone)]
pub struct Server {
    /// What to run or reach.
    pub target: Target,
    /// On what terms its instances are held.
    pub terms: Terms,
    /// What else tells two runs apart, such as a token that it gets in a file.
    pub credentials: Vec<u8>,
    /// The variables that it has from the client that causes its start.
    pub ambient: Ambient,
    /// Who may use one instance.
    pub sharing: Sharing,
    /// How many instances one key may grow to when all are busy.
    pub max_instances: NonZeroUsize,
    /// How many calls one instance gets at a time; without it none is ever busy.
    pub max_concurrency: Option<NonZeroUsize>,
    /// How many instances there may be of it in all, whatever their keys. Servers with the same
    /// [`name`](Self::name) count together.
    pub cap: Option<NonZeroUsize>,
    /// How many containers an instance of it is: one, if its command is `docker run` or the like.
    pub containers: usize,
    /// Its times and sizes.
    pub limits: ServerLimits,
    /// Who reads and writes its pipes.
    pub speech: Speech,
    /// How an instance becomes ready.
    pub handshake: Arc<dyn Handshake>,
    /// Who hears what it says without being asked.
    pub listener: Arc<dyn Listener>,
}

/// Who reads and writes a server's pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speech {
    /// The keeper: leases carry messages of JSON-RPC, and many can use one instance.
    #[default]
    Messages,
    /// Whoever takes the [`Wire`](super::Wire) of an instance, with a client of its own. One at a time, so
    /// that it should not be shared, and the handshake is that client's.
    Bytes,
}

/// The times and sizes of one server. A change takes effect without a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How long an instance may be unused; `None` keeps it, also when others need its place.
    pub idle: Option<Duration>,
    /// From the start of the program until it is ready, however much it says meanwhile.
    pub start: Duration,
    /// For a call.
    pub call: Duration,
    /// For the calls in flight when it has to go.
    pub drain: Duration,
    /// For it to read any of what was written to it.
    pub write: Duration,
    /// From its exit until the keeper stops waiting for the rest of its output: a process that it left behind may
    /// hold its pipes open.
    pub last_output: Duration,
    /// The waits after failures.
    pub backoff: BackoffLimits,
    /// The longest line that it may say, in bytes.
    pub line: usize,
    /// How much may wait to be read by it, in bytes.
    pub backlog: usize,
    /// How much is kept of what it wrote to stderr, in bytes.
    pub stderr: usize,
}

/// How much there may be of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Instances, from their start until the proof of their end.
    pub instances: usize,
    /// Containers that are servers.
    pub containers: usize,
    /// Instances that are being started at a time.
    pub starting: usize,
    /// Callers that wait for a start.
    pub queue: usize,
    /// How long they wait.
    pub queue_timeout: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            instances: 64,
            containers: 20,
            starting: 8,
            queue: 256,
            queue_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            idle: Some(Duration::from_mins(10)),
            start: Duration::from_mins(1),
            call: Duration::from_mins(10),
            drain: Duration::from_secs(5),
            write: Duration::from_secs(30),
            last_output: Duration::from_millis(250),
            backoff: BackoffLimits::default(),
            line: 64 << 20,
            backlog: 16 << 20,
            stderr: 8 << 10,
        }
    }
}

impl Server {
    /// A server with the default of everything else: shared by the sessions of an agent, ready as soon
    /// as its program runs.
    pub fn new(spec: ServerSpec) -> Self {
        let containers = usize::from(makes_container(&spec));
        Self { containers, ..Self::of(Target::Run(spec)) }
    }

    /// A server that somebody else runs, with the default of everything else.
    pub fn remote(remote: Arc<dyn Remote>) -> Self {
        Self::of(Target::Reach(remote))
    }

    /// A server that this backend runs, with the default of everything else.
    pub fn on(backend: &str, spec: ServerSpec) -> Self {
        Self::of(Target::On { backend: backend.to_owned(), spec })
    }

    fn of(target: Target) -> Self {
        Self {
            target,
            terms: Terms::default(),
            credentials: Vec::new(),
            ambient: Ambient::default(),
            sharing: Sharing::default(),
            max_instances: NonZeroUsize::MIN.saturating_add(3),
            max_concurrency: None,
            cap: None,
            containers: 0,
            limits: ServerLimits::default(),
            speech: Speech::default(),
            handshake: Arc::new(NoHandshake),
            listener: Arc::new(RefuseRequests),
        }
    }

    /// A hash of what makes two runs of it interchangeable.
    pub fn fingerprint(&self) -> Fingerprint {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => {
                Fingerprint::of(&self.ambient.essence(spec), &self.credentials)
            }
            Target::Reach(remote) => remote.fingerprint(),
        }
    }

    /// The same server with these values of its ambient variables.
    pub(super) fn amid(&self, values: Vec<(OsString, OsString)>) -> Self {
        let mut server = self.clone();
        if let Some(spec) = server.spec_mut() {
            self.ambient.replace(spec, values);
        }
        server
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => &spec.name,
            Target::Reach(remote) => remote.name(),
        }
    }

    /// What is run, if anything is.
    pub fn spec(&self) -> Option<&ServerSpec> {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => Some(spec),
            Target::Reach(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn spec_mut(&mut self) -> Option<&mut ServerSpec> {
        match &mut self.target {
            Target::Run(spec) | Target::On { spec, .. } => Some(spec),
            Target::Reach(_) => None,
        }
    }

    /// Whether an instance of the one can stay when the configuration says the other.
    pub(super) fn runs_like(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint()
            && self.target.backend() == other.target.backend()
            && self.terms == other.terms
            && self.sharing == other.sharing
            && self.max_concurrency == other.max_concurrency
            && self.containers == other.containers
            && self.speech == other.speech
    }
}

impl fmt::Debug for Server {
    /// Credentials are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("target", &self.target)
            .field("terms", &self.terms)
            .field("sharing", &self.sharing)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
