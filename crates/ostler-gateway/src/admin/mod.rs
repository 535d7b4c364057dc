//! Admin interface: requests of operators, and the gateway's replies.

mod offer;
mod view;

use ostler::InstanceId;
use serde::{Deserialize, Serialize};

pub use view::{InstanceLine, Missing, Overview, ServerLine, SessionLine};

pub use crate::event_log::LoggedEvent;
pub use crate::failure::Failure;
use crate::gateway::ClientHello;
pub use crate::gateway::ConfigChange;
pub use offer::{Listed, Offer, Offering};

/// A request of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// List servers and instances.
    Overview,
    /// List connected clients.
    Sessions,
    /// Stop these instances, without waiting for their end.
    Stop(Vec<InstanceId>),
    /// Stop all instances of a server, wait for proof of their end, and forget the server's failures.
    Restart(String),
    /// Reload the configuration.
    Reload,
    /// Shut the gateway down, with proof that no instance is left.
    Down,
    /// Send recent events: one line for each instead of a reply.
    Events {
        /// Keep sending events as they happen, without end.
        follow: bool,
    },
    /// Send what servers offer to such a client, as the catalog knows it: one line for each [`Offer`] instead of a reply.
    Offers(ClientHello),
}

/// A reply of the gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Servers and instances.
    Overview(Overview),
    /// Connected clients.
    Sessions(Vec<SessionLine>),
    /// These instances are being stopped.
    Stopping(Vec<InstanceId>),
    /// The instances were stopped.
    Ended {
        /// Number of instances.
        count: usize,
        /// Instances of which processes may be left.
        left: Vec<InstanceLine>,
    },
    /// The configuration was reloaded.
    Reloaded(Reloaded),
    /// No server has this name.
    NotFound(String),
    /// The request failed for this reason.
    Failed(String),
}

/// Changes made by a reload, as names of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Unchanged servers.
    pub kept: Vec<String>,
    /// Changed servers; their instances drain and stop.
    pub changed: Vec<String>,
    /// Removed servers; their instances drain and stop.
    pub removed: Vec<String>,
    /// New servers.
    pub added: Vec<String>,
    /// Notices about the configuration.
    pub notices: Vec<String>,
    /// If nothing changed: the last change, which the gateway applied when the file changed.
    #[serde(default)]
    pub before: Option<ConfigChange>,
}
