//! Where a request goes.

use super::refusal::Refusal;

/// The path of all servers; those of single ones are below it.
const ALL: &str = "/mcp";

/// The server that a path names; none if it is that of all.
pub(super) fn server(path: &str) -> Result<Option<String>, Refusal> {
    let rest = path.strip_prefix(ALL).ok_or(Refusal::Path)?;
    if rest.is_empty() || rest == "/" {
        return Ok(None);
    }
    rest.strip_prefix('/').and_then(decode).map(Some).ok_or(Refusal::Path)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            16 * digit(rest.next()?)? + digit(rest.next()?)?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_paths() {
        assert_eq!(server("/mcp").unwrap(), None);
        assert_eq!(server("/mcp/").unwrap(), None);
        assert_eq!(server("/mcp/git%20hub%2Fx").unwrap().as_deref(), Some("git hub/x"));
        for path in ["/", "/mcpx", "/mcp/%", "/mcp/%2", "/mcp/%zz", "/mcp/%ff", "*"] {
            assert!(server(path).is_err(), "{path}");
        }
    }
}
