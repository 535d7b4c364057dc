//! Order of the list.

use std::cmp::Ordering;

use super::instance::Instance;

/// Column that decides the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Server,
    State,
    Sessions,
    Calls,
    Memory,
    Cpu,
    Age,
}

impl Sort {
    const ALL: [Self; 7] = [
        Self::Server,
        Self::State,
        Self::Sessions,
        Self::Calls,
        Self::Memory,
        Self::Cpu,
        Self::Age,
    ];

    /// The next column; after the last one, the first.
    pub(super) fn next(self) -> Self {
        let after = Self::ALL.iter().skip_while(|one| **one != self).nth(1);
        after.copied().unwrap_or_default()
    }

    /// Texts in their order, numbers from the largest down.
    pub(super) fn compare(self, one: &Instance, other: &Instance) -> Ordering {
        match self {
            Self::Server => one.server.cmp(&other.server),
            Self::State => one.state.cmp(&other.state),
            Self::Sessions => other.sessions.cmp(&one.sessions),
            Self::Calls => other.calls.cmp(&one.calls),
            Self::Memory => other.memory.cmp(&one.memory),
            Self::Cpu => other.cpu.unwrap_or(-1.0).total_cmp(&one.cpu.unwrap_or(-1.0)),
            Self::Age => other.age.cmp(&one.age),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::State => "state",
            Self::Sessions => "sessions",
            Self::Calls => "calls",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Age => "age",
        }
    }
}
