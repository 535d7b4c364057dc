//! Configuration of a keeper: its servers, their limits, and caps for all of them together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::ambient::Ambient;
use super::backoff::BackoffLimits;
use super::cause::TargetView;
use super::key::Sharing;
use super::line::{Handshake, Listener, NoHandshake, RefuseRequests, StderrSinks};
use crate::backend::{Remote, Target};
use crate::fingerprint::Fingerprint;
use crate::spec::ServerSpec;
use crate::terms::Terms;
use crate::ways::makes_container;

/// All servers by name, and the caps for all of them together.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The servers.
    pub servers: BTreeMap<String, Server>,
    /// Caps for all servers together.
    pub caps: Caps,
}

/// One server: its target, sharing policy and limits.
#[derive(Clone)]
pub struct Server {
    /// The command to run, or the remote server to reach.
    pub target: Target,
    /// Containment, time limits and resources of its instances.
    pub terms: Terms,
    /// Further input of the fingerprint, such as a token that the server reads from a file.
    pub credentials: Vec<u8>,
    /// Variables whose values come from the client that causes a start.
    pub ambient: Ambient,
    /// Which callers may share one instance.
    pub sharing: Sharing,
    /// Most instances of one key. A further one is started when all are busy.
    pub max_instances: NonZeroUsize,
    /// Most concurrent calls of one instance. Without a limit an instance is never busy.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Most instances in all, over all keys. Servers with the same [`name`](Self::name) count together.
    pub cap: Option<NonZeroUsize>,
    /// Containers that one instance counts for: 1 if its command is `docker run` or the like.
    pub containers: usize,
    /// Time and size limits.
    pub limits: ServerLimits,
    /// Whether the keeper or the host reads and writes its pipes.
    pub speech: Speech,
    /// Its command for messages, without secrets; `None` shows only the program.
    pub display: Option<Arc<str>>,
    /// Makes a new instance ready.
    pub handshake: Arc<dyn Handshake>,
    /// Receives its notifications and requests.
    pub listener: Arc<dyn Listener>,
    /// Keeps its stderr; without it only the last bytes are kept, for messages to callers.
    pub stderr: Option<Arc<dyn StderrSinks>>,
}

/// Which side reads and writes a server's pipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speech {
    /// The keeper: leases carry JSON-RPC messages, and many callers can use one instance.
    #[default]
    Messages,
    /// The host, through the [`Wire`](super::Wire) of a lease. Only one client can use an instance, so it
    /// should not be shared, and that client does the handshake.
    Bytes,
}

/// Time and size limits of one server. Running instances adopt a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// An unused instance stops after this time. `None` keeps it, and protects it from eviction.
    pub idle: Option<Duration>,
    /// From the start of the program until the end of the handshake.
    pub start: Duration,
    /// For one call, from request to response.
    pub call: Duration,
    /// For calls in flight when the instance drains.
    pub drain: Duration,
    /// For the server to read anything of what waits in its input.
    pub write: Duration,
    /// From the server's exit until the keeper stops waiting for the rest of its output: a process that it left behind
    /// may hold the pipes open.
    pub last_output: Duration,
    /// Delays between starts after failures.
    pub backoff: BackoffLimits,
    /// Longest line of output, in bytes.
    pub line: usize,
    /// Most unread input, in bytes; calls beyond it fail.
    pub backlog: usize,
    /// Most stderr output that is kept, in bytes; the latest.
    pub stderr: usize,
}

/// Caps for all servers of a keeper together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Most instances; each counts from its start until the proof of its end.
    pub instances: usize,
    /// Most servers that run as containers.
    pub containers: usize,
    /// Most simultaneous starts.
    pub starting: usize,
    /// Most callers that wait for a start.
    pub queue: usize,
    /// How long a caller waits in the queue.
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
    /// A local server with defaults: shared by the sessions of an agent, ready as soon as its program
    /// runs.
    pub fn new(spec: ServerSpec) -> Self {
        let containers = usize::from(makes_container(&spec));
        Self { containers, ..Self::of(Target::Run(spec)) }
    }

    /// A remote server with defaults.
    pub fn remote(remote: Arc<dyn Remote>) -> Self {
        Self::of(Target::Reach(remote))
    }

    /// A server that runs on another backend, with defaults.
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
            display: None,
            handshake: Arc::new(NoHandshake),
            listener: Arc::new(RefuseRequests),
            stderr: None,
        }
    }

    /// Hash of everything that makes two runs of it interchangeable.
    pub fn fingerprint(&self) -> Fingerprint {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => {
                Fingerprint::of(&self.ambient.essence(spec), &self.credentials)
            }
            Target::Reach(remote) => remote.fingerprint(),
        }
    }

    /// A copy with these values of its ambient variables.
    pub(super) fn amid(&self, values: Vec<(OsString, OsString)>) -> Self {
        let mut server = self.clone();
        if let Some(spec) = server.spec_mut() {
            self.ambient.replace(spec, values);
        }
        server
    }

    /// Its display name.
    pub fn name(&self) -> &str {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => &spec.name,
            Target::Reach(remote) => remote.name(),
        }
    }

    /// What it runs or reaches, for messages and without secrets.
    pub fn target_view(&self) -> TargetView {
        match (&self.target, &self.display) {
            (Target::Reach(remote), _) => TargetView::Address(remote.place().into()),
            (_, Some(command)) => TargetView::Command(Arc::clone(command)),
            (Target::Run(spec) | Target::On { spec, .. }, None) => {
                TargetView::Command(spec.program.to_string_lossy().into())
            }
        }
    }

    /// Its command; `None` for a remote server.
    pub fn spec(&self) -> Option<&ServerSpec> {
        match &self.target {
            Target::Run(spec) | Target::On { spec, .. } => Some(spec),
            Target::Reach(_) => None,
        }
    }

    /// Its command, mutable; `None` for a remote server.
    pub fn spec_mut(&mut self) -> Option<&mut ServerSpec> {
        match &mut self.target {
            Target::Run(spec) | Target::On { spec, .. } => Some(spec),
            Target::Reach(_) => None,
        }
    }

    /// Whether instances of this server can stay when the configuration changes to `other`.
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
