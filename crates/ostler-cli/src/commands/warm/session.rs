//! Lists one server through a session of its own.

use ostler_gateway::front::GatewaySocket;
use serde::Serialize;

use crate::mcp::{Client, ClientError, News, Patience};
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
    let ignore = &mut |_: News<'_>| {};
    let patience = Patience::default();
    let mut client = Client::open(socket, server, None, "ostler-warm", patience, ignore)?;
    let mut count = |kind: &str| {
        if client.has(kind) { client.list(kind, ignore).map(|items| items.len()) } else { Ok(0) }
    };
    let offered = Offered {
        tools: count("tools")?,
        prompts: count("prompts")?,
        resources: count("resources")?,
    };
    wait_until_kept(socket, server);
    Ok(offered)
}
