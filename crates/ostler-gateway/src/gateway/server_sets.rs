//! Which servers there are for whom.
//!
//! A configuration has variables in it, and clients bring values for them. So what a server runs as is known
//! only with a client, and changes for each of them when the configuration does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::keeper::{Caps, Changes, Departure, Principal};

use super::credential::Credential;
use crate::config::{self, Environment, Names, Resolved};
use crate::mutex::lock;
use crate::quota::QuotaLimits;
use crate::reason::why;
use crate::router::Router;
use crate::server_set::{AvailableServer, AvailableServers, ServerSet};

/// Where servers come from.
#[derive(Clone, Debug)]
pub enum ServerSource {
    /// These, for everybody.
    Fixed(BTreeMap<String, AvailableServer>),
    /// What a configuration says.
    File(config::File),
}

/// All clients, with what they have brought along.
#[derive(Debug)]
pub(crate) struct ServerSets {
    /// The gateway's own variables; a client's come before them.
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: ServerSource,
    /// What lets clients on HTTP in, as the configuration says.
    credentials: Arc<[Arc<Credential>]>,
    contexts: Vec<ClientContext>,
    /// With so many guests it is time to look who has gone.
    look_at: usize,
}

/// A client, or one that has left instances behind that others of its agent may use.
#[derive(Debug)]
pub(crate) struct ClientContext {
    server_set: Arc<ServerSet>,
    variables: Environment,
    cwd: PathBuf,
    /// The servers that it may use; all, if that is not said.
    allowed: Option<Names>,
}

/// It is not worth looking at fewer.
const FEW: usize = 64;

impl ServerSets {
    pub(crate) fn new(source: ServerSource, environment: Environment) -> Self {
        let credentials = source.credentials(&environment, &[]);
        let state = State { source, credentials, contexts: Vec::new(), look_at: FEW };
        Self { environment, state: Mutex::new(state) }
    }

    /// The variables that clients are asked for.
    pub(crate) fn variables(&self) -> Names {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => Names::default(),
            ServerSource::File(file) => file.variables(),
        }
    }

    /// The names of all servers that are not switched off.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.state).source.names().into_iter().collect()
    }

    /// The names of all servers that are switched off.
    pub(crate) fn off(&self) -> Vec<String> {
        let state = lock(&self.state);
        let ServerSource::File(file) = &state.source else { return Vec::new() };
        let off = file.servers.iter().filter(|(_, entry)| !entry.enabled);
        off.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a server is there, and switched off.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        lock(&self.state).source.entry(name).is_some_and(|entry| !entry.enabled)
    }

    /// What lets clients on HTTP in, as the configuration says.
    pub(crate) fn credentials(&self) -> Arc<[Arc<Credential>]> {
        Arc::clone(&lock(&self.state).credentials)
    }

    /// What is wrong with the tokens of clients on HTTP.
    pub(crate) fn token_warnings(&self) -> Vec<String> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => Vec::new(),
            ServerSource::File(file) => config::token_warnings(file, &self.environment),
        }
    }

    /// How long a client on HTTP may be away, if the configuration says it.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => None,
            ServerSource::File(file) => file.detach_timeout,
        }
    }

    /// How long an agent that ostler recognised by itself outlives its last session, if the configuration says it.
    pub(crate) fn agent_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).source {
            ServerSource::Fixed(_) => None,
            ServerSource::File(file) => file.agent_timeout,
        }
    }

    /// The servers as they are for this one.
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

    /// Takes over another configuration. What is unchanged for a client stays as it is for it.
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

    /// The servers that somebody can't have, and why.
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
    /// Whoever has left nothing behind is forgotten, and with it what only it could have used.
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
    /// One with these variables, who works in this directory.
    pub(crate) fn new(variables: Environment, cwd: PathBuf, allowed: Option<Names>) -> Self {
        Self { server_set: Arc::default(), variables, cwd, allowed }
    }

    /// Whether anybody else has its menu.
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

    /// The limits of the principals that have some of their own.
    pub(crate) fn quotas(&self) -> BTreeMap<Principal, QuotaLimits> {
        let Self::File(file) = self else { return BTreeMap::new() };
        file.tokens
            .iter()
            .map(|entry| (Credential::principal_of(&entry.name), entry.limits))
            .collect()
    }

    fn available(&self, environment: &Environment, cwd: &Path) -> AvailableServers {
        match self {
            Self::Fixed(available) => available
                .iter()
                .map(|(name, available_server)| (name.clone(), Ok(available_server.clone())))
                .collect(),
            Self::File(file) => {
                let available_server = |entry: &config::ServerEntry| {
                    let resolved = config::resolve(entry, environment, cwd);
                    let Resolved { server, identity } = resolved.map_err(|reason| why(&reason))?;
                    Ok(AvailableServer { server, identity, tools: entry.tools.clone() })
                };
                let on = file.servers.iter().filter(|(_, entry)| entry.enabled);
                on.map(|(name, entry)| (name.clone(), available_server(entry))).collect()
            }
        }
    }

    /// A pass for each token that can be had. One that is as it was stays the same.
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
            // Whose a client is has to be known.
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

/// The difference as its author sees it.
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
