//! What operators ask a gateway, and what it answers.

mod view;

use ostler::InstanceId;
use serde::{Deserialize, Serialize};

pub use view::{InstanceLine, Missing, Overview, ServerLine, SessionLine};

pub use crate::event_log::{Failure, LoggedEvent};
pub use crate::gateway::ConfigChange;

/// What an operator asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// What there is.
    Overview,
    /// Who is connected.
    Sessions,
    /// The end of these instances, for which the answer does not wait.
    Stop(Vec<InstanceId>),
    /// The end of all instances of a server, with proof; and that its failures are forgotten.
    Restart(String),
    /// To read the configuration again.
    Reload,
    /// The end of the gateway, with proof.
    Down,
    /// What happened lately. One line each instead of one answer, without end if it is to follow.
    Events {
        /// And what happens from now on.
        follow: bool,
    },
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What there is.
    Overview(Overview),
    /// Who is connected.
    Sessions(Vec<SessionLine>),
    /// These are on their way out.
    Stopping(Vec<InstanceId>),
    /// They were ended; these are left.
    Ended {
        /// How many.
        count: usize,
        /// Those of which something may be left.
        left: Vec<InstanceLine>,
    },
    /// The configuration was read again.
    Reloaded(Reloaded),
    /// There is no such server.
    NotFound(String),
    /// It could not be done.
    Failed(String),
}

/// What another configuration has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// As they were.
    pub kept: Vec<String>,
    /// Their instances drain and go.
    pub changed: Vec<String>,
    /// Their instances drain and go.
    pub removed: Vec<String>,
    /// New ones.
    pub added: Vec<String>,
    /// What its author should know.
    pub notices: Vec<String>,
    /// If nothing has changed: what was taken over before, when the file changed.
    #[serde(default)]
    pub before: Option<ConfigChange>,
}
