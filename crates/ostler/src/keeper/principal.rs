//! Principals: the users that agents, failures and quotas belong to.

use std::fmt;
use std::sync::Arc;

/// A user of the host. Every caller belongs to one.
///
/// Two principals may use the same servers but never each other's agents: agent names are unique only within a
/// principal. A host with a single user needs only the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// The principal with this name.
    pub fn named(name: &str) -> Self {
        Self(Some(Arc::from(name)))
    }

    /// Its name; `None` for the default principal, the user that the host runs as.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether its callers may see names that belong to another principal. The default principal may see all.
    pub(super) fn may_know(&self, other: &Self) -> bool {
        self.0.is_none() || self == other
    }
}

/// Empty for the default principal, so that principals do not show on a host with a single user.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or_default())
    }
}
