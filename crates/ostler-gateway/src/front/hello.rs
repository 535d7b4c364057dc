//! Lines of JSON that the gateway and its peers exchange outside of a session.

use serde::{Deserialize, Serialize};

use crate::admin::Request;
use crate::gateway::ClientHello;

/// Longest line of a peer, in bytes.
pub(super) const LONGEST: usize = 4 << 20;
/// Longest line of the gateway, in bytes: what one server listed, which the catalog limits to 16 MiB.
pub(super) const LONGEST_REPLY: usize = 32 << 20;

/// First line of the gateway.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the gateway.
    pub ostler: String,
    /// Process id of the gateway.
    pub pid: u32,
    /// Environment variables, or patterns of their names, that the configuration uses. A client sends no others.
    pub variables: Vec<String>,
}

/// First line of the peer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// Opens a session.
    Client(ClientHello),
    /// Carries a request of an operator.
    Admin(Request),
}

/// Answer of the gateway to a client's hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// The session runs on the client's own file descriptors. The connection only shows that both sides live.
    Direct,
    /// The session runs on this connection.
    Bridge,
    /// The gateway refuses the client for this reason.
    Refused(String),
}

/// Last line of the gateway, after a session on the client's own file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The client has closed its stdin, or no longer reads its stdout.
    Over,
    /// The gateway shuts down.
    Closing,
}
