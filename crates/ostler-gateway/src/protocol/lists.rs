//! List methods of MCP.

use std::time::Duration;

use serde_json::value::RawValue;

use super::message;

/// Deadline for a server to answer a list request.
pub(crate) const LIST_LIMIT: Duration = Duration::from_mins(1);

/// List methods, with the server capability that each of them needs.
pub(crate) const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
];

/// Field of a list's result that has the items.
pub(crate) fn field_of(method: &str) -> &'static str {
    match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        _ => "resourceTemplates",
    }
}

/// Items of a list.
pub(crate) fn items<'a>(list: &'a [u8], field: &str) -> Vec<&'a RawValue> {
    let edges = message::find(list, 0..list.len(), &[field]);
    edges.and_then(|edges| serde_json::from_slice(&list[edges]).ok()).unwrap_or_default()
}
