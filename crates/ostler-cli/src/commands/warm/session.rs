//! Lists one server through a session of its own.

use ostler_gateway::front::GatewaySocket;
use serde::Serialize;

use crate::mcp::{Client, ClientError, Patience};
use crate::offers::wait_until_kept;

/// Number of items that a server lists.
#[derive(Debug, Default, Serialize)]
pub(super) struct Offered {
    pub(super) tools: usize,
    pub(super) prompts: usize,
    pub(super) resources: usize,
}

/// Lists a server. Only `startTimeout` limits how long its start takes.
pub(super) fn list(socket: &GatewaySocket, server: &str) -> Result<Offered, ClientError> {
    let mut client = Client::open(socket, server, None, "ostler-warm", Patience::default())?;
    let mut count = |kind: &str| {
        if client.has(kind) { client.list(kind).map(|items| items.len()) } else { Ok(0) }
    };
    let offered = Offered {
        tools: count("tools")?,
        prompts: count("prompts")?,
        resources: count("resources")?,
    };
    wait_until_kept(socket, server);
    Ok(offered)
}
