//! The `application/x-www-form-urlencoded` format of queries and bodies.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All characters but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes names and values.
pub(super) fn encode(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{}={}", escape(name), escape(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

pub(super) fn escape(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes names and values.
pub(super) fn decode(query: &str) -> Vec<(String, String)> {
    let plain =
        |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_round_trips() {
        let pairs = [("a b", "c&d=e+f/ä~"), ("x", "")];
        let sent = encode(&pairs);
        assert_eq!(sent, "a%20b=c%26d%3De%2Bf%2F%C3%A4~&x=");
        let arrived = decode(&sent);
        assert_eq!(arrived, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(decode("a=1+2&&b"), [("a".into(), "1 2".into()), ("b".into(), String::new())]);
    }
}
