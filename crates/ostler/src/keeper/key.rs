//! Who may use which instance.

use std::fmt;
use std::sync::Arc;

use super::ambient::Surroundings;
use super::principal::Principal;
use crate::fingerprint::Fingerprint;

/// Who may use one instance of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody.
    All,
    /// All sessions of one agent, overlapping or one after the other.
    #[default]
    Agent,
    /// One session.
    Session,
    /// One lease: each gets a fresh one.
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

/// Somebody who asks for servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// The party that it belongs to.
    pub principal: Principal,
    /// The agent's name, if it has one.
    pub agent: Option<Arc<str>>,
    /// The number of the session; 0 for an agent itself.
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

/// A scope, as the plan knows it: who it is for, and what it is part of.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) number: u64,
    pub(super) who: Who,
    pub(super) parent: Option<Arc<Caller>>,
    /// What it brings along for the instances that are started for it, and its parts with it.
    pub(super) surroundings: Option<Arc<dyn Surroundings>>,
}

impl Caller {
    /// Whether it is this scope or part of it.
    pub(super) fn is_within(&self, scope: u64) -> bool {
        self.ancestor(scope).is_some()
    }

    /// This scope, if it is that or part of it.
    pub(super) fn ancestor(&self, scope: u64) -> Option<&Self> {
        std::iter::successors(Some(self), |one| one.parent.as_deref())
            .find(|one| one.number == scope)
    }

    /// Whose an instance is that it gets from a server that is shared like this.
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
            (Sharing::All, _) => Whose::Everybody,
            (Sharing::Agent, Some(agent)) => of_agent(agent),
            (Sharing::Agent, None) | (Sharing::Session, _) => own(),
            (Sharing::Call, _) => Whose::Lease(lease),
        }
    }
}

/// Whose an instance is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Whose {
    /// Everybody's.
    Everybody,
    /// A named agent's.
    Agent {
        /// The party that the agent belongs to.
        principal: Principal,
        /// The agent's name.
        name: Arc<str>,
    },
    /// A session's; also that of an agent without a name, which ends with its session.
    Session(u64),
    /// That of one lease.
    Lease(u64),
}

impl Whose {
    /// Whether there must never be two at once, not even while one of them ends.
    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Agent { .. } | Self::Session(_))
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("all"),
            Self::Agent { principal, name } => {
                write!(f, "agent {name}")?;
                of_principal(principal, f)
            }
            Self::Session(session) => write!(f, "session {session}"),
            Self::Lease(lease) => write!(f, "call {lease}"),
        }
    }
}

/// Says which principal something belongs to, unless it is the default one.
fn of_principal(principal: &Principal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match principal.name() {
        Some(name) => write!(f, " of {name}"),
        None => Ok(()),
    }
}

/// What a caller demands of an instance, beyond what the sharing of its server says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Whatever else the host tells apart: only callers that give the same profile share an instance.
    pub profile: Arc<str>,
    /// The profile of instances that were started to be listed before the host knew the rest of `profile`. The first
    /// caller that demands this one gets them.
    pub unsettled: Option<Arc<str>>,
    /// Whether the instance is the caller's session's alone, although the server is shared by its agent.
    pub is_alone: bool,
    /// Whether an instance that others have calls with is only taken if there can be no other one. The host has those who
    /// share it take turns.
    pub is_undivided: bool,
}

impl Demand {
    /// An instance that callers with the same profile may share.
    pub fn profile(profile: impl Into<Arc<str>>) -> Self {
        Self { profile: profile.into(), ..Self::default() }
    }

    /// Who may use an instance of a server that is shared like this.
    pub(super) fn sharing(&self, sharing: Sharing) -> Sharing {
        match sharing {
            Sharing::Agent if self.is_alone => Sharing::Session,
            sharing => sharing,
        }
    }
}

/// What two callers must have in common to share an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What people call the server.
    pub server: Arc<str>,
    /// What it runs, and with which credentials.
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub whose: Whose,
    /// Whatever else the host tells apart; empty if nothing.
    pub profile: Arc<str>,
}

impl Key {
    /// Whether one follows the other: the same place, perhaps with another configuration.
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
