//! The `WWW-Authenticate` challenge in a 401 response.

use hyper::header::{HeaderMap, WWW_AUTHENTICATE};

/// Parameters of a challenge that discovery uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Address of the resource metadata (RFC 9728).
    pub(super) resource_metadata: Option<String>,
    /// Scopes that the server asks for, separated by spaces.
    pub(super) scope: Option<String>,
}

impl Challenge {
    /// Reads all `WWW-Authenticate` headers of a response.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut challenge = Self::default();
        for value in headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok()) {
            for (name, value) in parameters(value) {
                match name.as_str() {
                    "resource_metadata" => challenge.resource_metadata = Some(value),
                    "scope" => challenge.scope = Some(value),
                    _ => {}
                }
            }
        }
        challenge
    }
}

/// All `name=value` and `name="value"` pairs, of any scheme and at any position.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some(at) = text.find('=') {
        let name = text[..at].rsplit([' ', ',', '\t']).next().unwrap_or_default();
        let rest = &text[at + 1..];
        let (value, after) = rest.strip_prefix('"').map_or_else(|| bare(rest), quoted);
        found.push((name.to_ascii_lowercase(), value));
        text = after;
    }
    found
}

fn bare(text: &str) -> (String, &str) {
    let (value, after) = text.split_at(text.find([',', ' ']).unwrap_or(text.len()));
    (value.to_owned(), after)
}

fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_however_they_are_written() {
        let header = r#"Basic realm="a=\"b\", c", Bearer error=invalid_token,resource_metadata="https://h/x?a=b" , scope="a b""#;
        let headers = [(WWW_AUTHENTICATE, header.parse().unwrap())].into_iter().collect();
        let expected = Challenge {
            resource_metadata: Some("https://h/x?a=b".into()),
            scope: Some("a b".into()),
        };
        assert_eq!(Challenge::of(&headers), expected);
        for broken in ["", "Bearer", "=", "a=\"", "a=\"\\", "=\"=\"="] {
            let _ = parameters(broken);
        }
    }
}
