//! How long clients wait for their first list.
//!
//! The first list waits for servers that were never seen, but no longer than its client does: an answer that comes too
//! late is worth less than one without the slow servers, which follow with `list_changed`.

use std::time::Duration;

use crate::protocol::initialize::Initialize;

/// How long one client waits for `tools/list`, as measured with `scripts/hosts facts`.
#[derive(Clone, Copy, Debug)]
pub struct ListLimit {
    /// The name in its `clientInfo`.
    pub client: &'static str,
    /// After so long it goes on without the list.
    pub gives_up_after: Duration,
}

/// The clients whose limit is known.
pub const LIST_LIMITS: &[ListLimit] = &[
    ListLimit { client: "claude-code", gives_up_after: Duration::from_secs(30) },
    ListLimit { client: "codex-mcp-client", gives_up_after: Duration::from_secs(30) },
    ListLimit { client: "gemini-cli-mcp-client", gives_up_after: Duration::from_mins(10) },
    ListLimit { client: "openclaw-bundle-mcp", gives_up_after: Duration::from_millis(1500) },
    ListLimit { client: "opencode", gives_up_after: Duration::from_secs(30) },
];

/// For clients that are not in the table: the SDKs wait for 60 s or longer.
const USUAL: Duration = Duration::from_secs(30);

/// How long a list of this client may wait for servers that were never seen: a fifth of its time is left for the way
/// back, on a machine that is busy with starting servers.
pub(super) fn of(initialize: Option<&Initialize>) -> Duration {
    let name = initialize.and_then(Initialize::client_name).unwrap_or_default();
    let known = LIST_LIMITS.iter().find(|known| known.client == name);
    known.map_or(USUAL, |known| known.gives_up_after * 4 / 5)
}
