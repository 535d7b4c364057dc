//! Where a request goes.

/// The path of all servers; those of single ones are below it.
const ALL: &str = "/mcp";

/// The server that a path names; none if it is that of all. Nothing if it is no path of ours.
pub(super) fn server(path: &str) -> Option<Option<String>> {
    let rest = path.strip_prefix(ALL)?;
    if rest.is_empty() || rest == "/" {
        return Some(None);
    }
    decode(rest.strip_prefix('/')?).map(Some)
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
        assert_eq!(server("/mcp"), Some(None));
        assert_eq!(server("/mcp/"), Some(None));
        assert_eq!(server("/mcp/git%20hub%2Fx"), Some(Some("git hub/x".into())));
        for path in ["/", "/mcpx", "/mcp/%", "/mcp/%2", "/mcp/%zz", "/mcp/%ff", "*"] {
            assert_eq!(server(path), None, "{path}");
        }
    }
}
