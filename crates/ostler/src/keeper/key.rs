//! Keys: which callers may share an instance.
//!
//! A request becomes a [`Key`] of server, fingerprint, [`Whose`] and profile. Callers with equal keys share instances;
//! others never do. [`Sharing`] is the configured policy, [`Whose`] its result for one caller.

use std::fmt;
use std::sync::Arc;

use super::ambient::Surroundings;
use super::principal::Principal;
use crate::fingerprint::Fingerprint;

/// Sharing policy of a server: the callers that may use one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// All callers.
    All,
    /// All sessions of one agent, at the same time or one after another.
    #[default]
    Agent,
    /// One session.
    Session,
    /// One lease: each gets a new instance.
    Call,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Call => "call",
        })
    }
}

/// Identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The principal that it belongs to.
    pub principal: Principal,
    /// The agent's name, if it has one.
    pub agent: Option<Arc<str>>,
    /// Number of the session; 0 for the agent itself.
    pub session: u64,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.agent, self.session) {
            (Some(agent), 0) => write!(f, "agent {agent}")?,
            (Some(agent), session) => write!(f, "agent {agent}, session {session}")?,
            (None, session) => write!(f, "session {session}")?,
        }
        of_principal(&self.principal, f)
    }
}

/// A scope as the plan sees it: its identity and its parents.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) number: u64,
    pub(super) who: Who,
    pub(super) parent: Option<Arc<Caller>>,
    /// Ambient variables for instances that are started on its behalf; child scopes inherit them.
    pub(super) surroundings: Option<Arc<dyn Surroundings>>,
}

impl Caller {
    /// Whether it is the scope with this number or within it.
    pub(super) fn is_within(&self, scope: u64) -> bool {
        self.ancestor(scope).is_some()
    }

    /// The scope with this number among itself and its parents.
    pub(super) fn ancestor(&self, scope: u64) -> Option<&Self> {
        std::iter::successors(Some(self), |one| one.parent.as_deref())
            .find(|one| one.number == scope)
    }

    /// The [`Whose`] of an instance that this caller gets under a sharing policy. `lease` is the number of its lease.
    pub(super) fn whose(&self, sharing: Sharing, lease: u64) -> Whose {
        let of_agent = |name: &Arc<str>| {
            let (principal, name) = (self.who.principal.clone(), Arc::clone(name));
            Whose::Agent { principal, name }
        };
        let own = || match (&self.who.agent, self.who.session) {
            (Some(agent), 0) => of_agent(agent),
            (_, session) => Whose::Session(session),
        };
        match (sharing, &self.who.agent) {
            (Sharing::All, _) => Whose::AllCallers,
            (Sharing::Agent, Some(agent)) => of_agent(agent),
            (Sharing::Agent, None) | (Sharing::Session, _) => own(),
            (Sharing::Call, _) => Whose::Lease(lease),
        }
    }
}

/// The callers that share an instance, and with whose end it stops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// All callers.
    AllCallers,
    /// The sessions of a named agent.
    Agent {
        /// The principal that the agent belongs to.
        principal: Principal,
        /// The agent's name.
        name: Arc<str>,
    },
    /// One session, by number. Also used for agents without a name, which end with their session.
    Session(u64),
    /// One lease, by number.
    Lease(u64),
}

impl Whose {
    /// Whether its next instance must not start before the previous one is proven gone.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Agent { .. } | Self::Session(_))
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllCallers => f.write_str("all"),
            Self::Agent { principal, name } => {
                write!(f, "agent {name}")?;
                of_principal(principal, f)
            }
            Self::Session(session) => write!(f, "session {session}"),
            Self::Lease(lease) => write!(f, "call {lease}"),
        }
    }
}

/// Appends the name of a principal, unless it is the default one.
fn of_principal(principal: &Principal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match principal.name() {
        Some(name) => write!(f, " of {name}"),
        None => Ok(()),
    }
}

/// A caller's demands on an instance, beyond the sharing policy of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Distinction made by the host: only callers with equal profiles share an instance.
    pub profile: Arc<str>,
    /// Incomplete form of `profile` that listings used before the host knew the rest. Instances that were started under
    /// it move to the first caller with the complete profile.
    pub unsettled: Option<Arc<str>>,
    /// Use an instance of the caller's session, although the policy is [`Sharing::Agent`].
    pub is_alone: bool,
    /// Prefer an instance without calls of others, and a new one if it can be started. The host serialises the calls of
    /// sessions that have to share.
    pub is_undivided: bool,
}

impl Demand {
    /// Demands a profile and nothing else.
    pub fn profile(profile: impl Into<Arc<str>>) -> Self {
        Self { profile: profile.into(), ..Self::default() }
    }

    /// The sharing policy under this demand.
    pub(super) fn sharing(&self, sharing: Sharing) -> Sharing {
        match sharing {
            Sharing::Agent if self.is_alone => Sharing::Session,
            sharing => sharing,
        }
    }
}

/// Key of a pool: callers with equal keys share its instances.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Name of the server.
    pub server: Arc<str>,
    /// Hash of command, environment and credentials.
    pub fingerprint: Fingerprint,
    /// The callers that share it.
    pub whose: Whose,
    /// Distinction made by the host; empty if none.
    pub profile: Arc<str>,
}

impl Key {
    /// Whether the two are generations of one instance: equal except for the configuration.
    pub(super) fn succeeds(&self, other: &Self) -> bool {
        self.server == other.server && self.whose == other.whose && self.profile == other.profile
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.server, self.whose)?;
        if self.profile.is_empty() { Ok(()) } else { write!(f, " ({})", self.profile) }
    }
}
