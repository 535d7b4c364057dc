//! Request paths: transport and server name.

use std::borrow::Cow;

use super::refusal::Refusal;

/// HTTP transport that a path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05: one event stream for all responses.
    LegacySse,
}

/// Paths for all servers together; a server's own path is below them.
const ALL: [(&str, Transport); 2] = [("/mcp", Transport::Streamable), (OLD, Transport::LegacySse)];
/// Path at which clients of the HTTP+SSE transport open their event stream.
pub(super) const OLD: &str = "/sse";

/// Transport of a path, and the server that it names; `None` for all servers.
pub(super) fn parse(path: &str) -> Result<(Transport, Option<Cow<'_, str>>), Refusal> {
    let is_below = |rest: &&str| rest.is_empty() || rest.starts_with('/');
    let mut found =
        ALL.iter().filter_map(|(all, way)| Some((way, path.strip_prefix(all).filter(is_below)?)));
    let (way, rest) = found.next().ok_or(Refusal::Path)?;
    match rest.trim_start_matches('/') {
        "" => Ok((*way, None)),
        name => Ok((*way, Some(decode(name).ok_or(Refusal::Path)?))),
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(text.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            16 * digit(rest.next()?)? + digit(rest.next()?)?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok().map(Cow::from)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_paths() {
        assert_eq!(parse("/mcp").unwrap(), (Transport::Streamable, None));
        assert_eq!(parse("/mcp/").unwrap(), (Transport::Streamable, None));
        let named = (Transport::Streamable, Some("git hub/x".into()));
        assert_eq!(parse("/mcp/git%20hub%2Fx").unwrap(), named);
        assert_eq!(parse("/sse/a").unwrap(), (Transport::LegacySse, Some("a".into())));
        for path in ["/", "/mcpx", "/mcp/%", "/mcp/%2", "/mcp/%zz", "/mcp/%ff", "*"] {
            assert!(parse(path).is_err(), "{path}");
        }
    }
}
