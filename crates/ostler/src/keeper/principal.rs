//! The party that agents, failures and quotas belong to.

use std::fmt;
use std::sync::Arc;

/// A party that a keeper's callers belong to.
///
/// Two principals may use the same servers but never each other's agents: an agent's name means something only
/// together with its principal. A host that serves a single user needs only the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// The principal with this name.
    pub fn named(name: &str) -> Self {
        Self(Some(Arc::from(name)))
    }

    /// Its name; the default principal, the user that the host runs as, has none.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether its callers may read what belongs to another one: the user that the host runs as may.
    pub(super) fn may_know(&self, other: &Self) -> bool {
        self.0.is_none() || self == other
    }
}

/// Empty for the default principal, so that a host with a single user never reads of it.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())
    }
}
