//! What is said on a connection before, or instead of, a session: lines of JSON.

use serde::{Deserialize, Serialize};

use crate::admin::Request;
use crate::gateway::ClientHello;

/// Beyond that a line is no hello.
pub(super) const LONGEST: usize = 4 << 20;

/// What the gateway says first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// Its version.
    pub ostler: String,
    /// Its process.
    pub pid: u32,
    /// The variables, or patterns of them, that its configuration names. A client sends no other.
    pub variables: Vec<String>,
}

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// A session.
    Client(ClientHello),
    /// Something about the gateway itself.
    Admin(Request),
}

/// Whether there will be a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// On the client's own descriptors. The connection shows that both live.
    Direct,
    /// On this connection.
    Bridge,
    /// No, for this reason.
    Refused(String),
}

/// How a session on the client's own descriptors has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The client has closed its input, or does not read its output any more.
    Over,
    /// The gateway ends.
    Closing,
}
