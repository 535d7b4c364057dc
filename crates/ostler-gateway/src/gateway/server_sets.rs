//! Server sets: the servers that each client may use.
//!
//! A configured server can refer to variables and to the working directory of the client, so its command is known
//! only for a given client. `ServerSets` keeps a `ClientContext` for each client (its variables, directory and
//! allowed servers) with the `ServerSet` that results from it. A reload computes all sets again and changes them in
//! place.
//!
//! The context of a client that has left stays as long as instances of its servers exist, which other clients of its
//! agent may use. Other contexts are removed at a reload, and when their number has doubled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::keeper::{Caps, Changes, Departure, Principal};

use super::credential::Credential;
use crate::config::{self, Disabled, Environment, Names, Resolved};
use crate::mutex::lock;
use crate::quota::QuotaLimits;
use crate::reason::why;
use crate::router::Router;
use crate::server_set::{AvailableServer, AvailableServers, ServerSet, Unavailable};

/// Origin of the servers.
#[derive(Clone, Debug)]
pub enum ServerSource {
    /// These servers, for all clients.
    Fixed(BTreeMap<String, AvailableServer>),
    /// Servers of a configuration file.
    File(config::File),
}

/// Server sets of all clients.
#[derive(Debug)]
pub(crate) struct ServerSets {
    /// The gateway's own variables; those of a client take precedence.
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: ServerSource,
    /// Credentials of HTTP clients, from the configuration.
    credentials: Arc<[Arc<Credential>]>,
    contexts: Vec<ClientContext>,
    /// Number of contexts at which unused ones are removed.
    look_at: usize,
}

/// Context of a client, or of one that has left instances behind that others of its agent may use.
#[derive(Debug)]
pub(crate) struct ClientContext {
    server_set: Arc<ServerSet>,
    variables: Environment,
    cwd: PathBuf,
    /// Servers that the client may use; `None` for all.
    allowed: Option<Names>,
}

/// Lower bound of `State::look_at`.
const FEW: usize = 64;

impl ServerSets {
    pub(crate) fn new(source: ServerSource, environment: Environment) -> Self {
        let credentials = source.credentials(&environment, &[]);
        let state = State { source, credentials, contexts: Vec::new(), look_at: FEW };
        Self { environment, state: Mutex::new(state) }
    }

    /// Environment variables that clients are asked for.
    pub(crate) fn variables(&self) -> Names {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => Names::default(),
            ServerSource::File(file) => file.variables(),
        }
    }

    /// Names of all enabled servers.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.state).source.names().into_iter().collect()
    }

    /// Names of all disabled servers.
    pub(crate) fn off(&self) -> Vec<String> {
        lock(&self.state).source.off()
    }

    /// Whether a server is configured and disabled.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        lock(&self.state).source.entry(name).is_some_and(|entry| !entry.enabled)
    }

    /// Credentials of HTTP clients, from the configuration.
    pub(crate) fn credentials(&self) -> Arc<[Arc<Credential>]> {
        Arc::clone(&lock(&self.state).credentials)
    }

    /// Problems with the tokens of HTTP clients.
    pub(crate) fn token_warnings(&self) -> Vec<String> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => Vec::new(),
            ServerSource::File(file) => config::token_warnings(file, &self.environment),
        }
    }

    /// Time that an HTTP client may be detached, if configured.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => None,
            ServerSource::File(file) => file.detach_timeout,
        }
    }

    /// Time that an agent that ostler recognised by itself outlives its last session, if configured.
    pub(crate) fn agent_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => None,
            ServerSource::File(file) => file.agent_timeout,
        }
    }

    /// Adds a client. Returns its server set.
    pub(crate) fn admit(&self, router: &Router, mut context: ClientContext) -> Arc<ServerSet> {
        let mut state = lock(&self.state);
        if state.contexts.len() >= state.look_at {
            state.forget_who_has_gone(router);
        }
        context.server_set = router.server_set(self.available(&state.source, &context));
        let server_set = Arc::clone(&context.server_set);
        state.contexts.push(context);
        server_set
    }

    /// Applies another configuration. Servers that stay the same for a client are not touched.
    pub(crate) fn replace(&self, router: &Router, source: ServerSource) -> (Changes, Departure) {
        let mut state = lock(&self.state);
        let changes = changes(&state.source, &source);
        let credentials = source.credentials(&self.environment, &state.credentials);
        let is_kept = |old: &Arc<Credential>| {
            credentials.iter().any(|credential| Arc::ptr_eq(credential, old))
        };
        state.credentials.iter().filter(|old| !is_kept(old)).for_each(|old| old.revoke());
        state.credentials = credentials;
        router.quotas().configure(source.quotas());
        state.source = source;
        state.forget_who_has_gone(router);
        let available = |context: &ClientContext| {
            (Arc::clone(&context.server_set), self.available(&state.source, context))
        };
        let server_sets = state.contexts.iter().map(available).collect();
        (changes, router.replace_server_sets(server_sets, state.source.caps()))
    }

    /// The servers that such a client may use. Unlike `admit`, this adds no client.
    pub(crate) fn servers_for(&self, context: &ClientContext) -> AvailableServers {
        self.available(&lock(&self.state).source, context)
    }

    /// Servers that are unavailable to a present client, with the reasons.
    pub(crate) fn unavailable(&self) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let state = lock(&self.state);
        let present = state.contexts.iter().filter(|context| context.is_present());
        present.flat_map(|context| context.server_set.unavailable()).collect()
    }

    fn available(&self, source: &ServerSource, context: &ClientContext) -> AvailableServers {
        let environment = self.environment.for_client(context.variables.clone());
        let mut available = source.available(&environment, &context.cwd);
        available
            .retain(|name, _| context.allowed.as_ref().is_none_or(|names| names.contains(name)));
        available
    }
}

impl State {
    /// Removes the contexts of clients that have left and have no instances, and the servers that only they could
    /// use.
    fn forget_who_has_gone(&mut self, router: &Router) {
        let instances = router.keeper().snapshot().instances.into_iter();
        let used: BTreeSet<Arc<str>> = instances.map(|view| view.key.server).collect();
        self.contexts.retain(|context| {
            context.is_present() || context.server_set.ids().iter().any(|id| used.contains(id))
        });
        let kept: BTreeSet<Arc<str>> =
            self.contexts.iter().flat_map(|context| context.server_set.ids()).collect();
        router.keeper().retain(|id| kept.contains(id));
        self.look_at = FEW.max(2 * self.contexts.len());
    }
}

impl ClientContext {
    /// A client with these variables and this working directory.
    pub(crate) fn new(variables: Environment, cwd: PathBuf, allowed: Option<Names>) -> Self {
        Self { server_set: Arc::default(), variables, cwd, allowed }
    }

    /// Whether the server set is in use outside this context.
    fn is_present(&self) -> bool {
        Arc::strong_count(&self.server_set) > 1
    }
}

impl ServerSource {
    pub(crate) fn caps(&self) -> Caps {
        match self {
            Self::Fixed(_) => Caps::default(),
            Self::File(file) => file.caps,
        }
    }

    /// Quotas of the principals that have limits of their own.
    pub(crate) fn quotas(&self) -> BTreeMap<Principal, QuotaLimits> {
        let Self::File(file) = self else { return BTreeMap::new() };
        file.tokens
            .iter()
            .map(|entry| (Credential::principal_of(&entry.name), entry.limits))
            .collect()
    }

    /// Names of all disabled servers.
    pub(crate) fn off(&self) -> Vec<String> {
        let Self::File(file) = self else { return Vec::new() };
        let off = file.servers.iter().filter(|(_, entry)| !entry.enabled);
        off.map(|(name, _)| name.clone()).collect()
    }

    /// The servers that a client with this environment and directory may use.
    pub(crate) fn available(&self, environment: &Environment, cwd: &Path) -> AvailableServers {
        match self {
            Self::Fixed(available) => available
                .iter()
                .map(|(name, available_server)| (name.clone(), Ok(available_server.clone())))
                .collect(),
            Self::File(file) => {
                let available_server = |entry: &config::ServerEntry| {
                    let resolved = config::resolve(entry, environment, cwd);
                    let Resolved { server, identity } =
                        resolved.map_err(|reason| unavailable(&reason))?;
                    Ok(AvailableServer { server, identity, tools: entry.tools.clone() })
                };
                let on = file.servers.iter().filter(|(_, entry)| entry.enabled);
                on.map(|(name, entry)| (name.clone(), available_server(entry))).collect()
            }
        }
    }

    /// A credential for each token whose secret can be resolved. Unchanged ones stay the same, so that their clients
    /// stay connected.
    fn credentials(
        &self,
        environment: &Environment,
        old: &[Arc<Credential>],
    ) -> Arc<[Arc<Credential>]> {
        let Self::File(file) = self else { return Arc::default() };
        let mut credentials: Vec<Arc<Credential>> = Vec::new();
        for entry in &file.tokens {
            let credential =
                entry.secret(environment).ok().map(|secret| Credential::of(entry, secret));
            // With two credentials of the same secret the principal of a client would be ambiguous.
            let credential = credential
                .filter(|credential| !credentials.iter().any(|other| other.is_like(credential)));
            credentials.extend(credential.map(|credential| {
                let same = old.iter().find(|one| one.is_same(&credential)).cloned();
                same.unwrap_or_else(|| Arc::new(credential))
            }));
        }
        credentials.into()
    }

    fn names(&self) -> BTreeSet<String> {
        match self {
            Self::Fixed(available) => available.keys().cloned().collect(),
            Self::File(file) => {
                let on = file.servers.iter().filter(|(_, entry)| entry.enabled);
                on.map(|(name, _)| name.clone()).collect()
            }
        }
    }

    fn entry(&self, name: &str) -> Option<&config::ServerEntry> {
        match self {
            Self::Fixed(_) => None,
            Self::File(file) => file.servers.get(name),
        }
    }
}

fn unavailable(reason: &Disabled) -> Unavailable {
    Unavailable { reason: why(reason).into(), advice: reason.advice().map(Into::into) }
}

/// Difference between two configurations, by the names of servers.
fn changes(old: &ServerSource, new: &ServerSource) -> Changes {
    let (before, after) = (old.names(), new.names());
    let is_same = |name: &&String| old.entry(name) == new.entry(name);
    let (kept, changed) = before.intersection(&after).partition(is_same);
    let cloned = |names: Vec<&String>| names.into_iter().cloned().collect();
    Changes {
        kept: cloned(kept),
        changed: cloned(changed),
        removed: before.difference(&after).cloned().collect(),
        added: after.difference(&before).cloned().collect(),
    }
}
