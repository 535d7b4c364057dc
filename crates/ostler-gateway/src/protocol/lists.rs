//! List methods of MCP.

use std::time::Duration;

/// Deadline for a server to answer a list request.
pub(crate) const LIST_LIMIT: Duration = Duration::from_mins(1);

/// List methods, with the server capability that each of them needs.
pub(crate) const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
];
