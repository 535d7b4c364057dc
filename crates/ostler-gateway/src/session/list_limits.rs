//! Time limits for the first list of a client.
//!
//! The first list waits for servers that the catalog does not know, but not as long as the client would: a response
//! that is too late is worth less than one without the slow servers, which follow with `list_changed`.

use std::time::Duration;

use crate::protocol::initialize::Initialize;

/// Time that one client waits for `tools/list`, as measured with `scripts/hosts facts`.
#[derive(Clone, Copy, Debug)]
pub struct ListLimit {
    /// Name in the client's `clientInfo`.
    pub client: &'static str,
    /// Time after which the client goes on without the list.
    pub gives_up_after: Duration,
}

/// Clients with a known limit.
pub const LIST_LIMITS: &[ListLimit] = &[
    ListLimit { client: "claude-code", gives_up_after: Duration::from_secs(30) },
    ListLimit { client: "codex-mcp-client", gives_up_after: Duration::from_secs(30) },
    ListLimit { client: "gemini-cli-mcp-client", gives_up_after: Duration::from_mins(10) },
    ListLimit { client: "openclaw-bundle-mcp", gives_up_after: Duration::from_millis(1500) },
    ListLimit { client: "opencode", gives_up_after: Duration::from_secs(30) },
];

/// Limit for clients that are not in the table; the SDKs wait for 60 s or longer.
const USUAL: Duration = Duration::from_secs(30);

/// Time that a list of this client may wait for unknown servers. Clients in the table get four fifths of their limit:
/// the rest is for the response, on a machine that is busy with starting servers.
pub(super) fn of(initialize: Option<&Initialize>) -> Duration {
    let name = initialize.and_then(Initialize::client_name).unwrap_or_default();
    let known = LIST_LIMITS.iter().find(|known| known.client == name);
    known.map_or(USUAL, |known| known.gives_up_after * 4 / 5)
}
