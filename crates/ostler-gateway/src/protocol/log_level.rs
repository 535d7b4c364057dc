//! Log levels of MCP, in the order of their severity.

const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Severity of a level; `None` if there is no such level.
pub(crate) fn severity(level: &str) -> Option<u8> {
    LEVELS.iter().position(|known| *known == level).and_then(|index| u8::try_from(index).ok())
}

/// Name of the level with this severity.
pub(crate) fn name(severity: u8) -> &'static str {
    LEVELS.get(usize::from(severity)).copied().unwrap_or("debug")
}
