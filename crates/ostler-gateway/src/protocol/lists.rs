//! The lists that a server may have.

use std::time::Duration;

/// For a server to list what it has.
pub(crate) const LIST_LIMIT: Duration = Duration::from_mins(1);

/// The lists that a server may have, with what it has to declare for each.
pub(crate) const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("prompts/list", "prompts"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resources"),
];
