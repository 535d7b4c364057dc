//! Qualified resource URIs, for clients that see all servers as one.
//!
//! A resource keeps the URI that its server gave it, because other servers and results may link to it. It gets a
//! qualified URI only where that URI already belongs to another server: `ostler:SERVER/URI`, with the server's name
//! percent-encoded and its URI, or URI template, unchanged. So a template can be expanded in its qualified form. A
//! server's own URI that begins with `ostler:` is always qualified, so that none can be mistaken for a qualified one.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const SCHEME: &str = "ostler:";

/// Every character that is not unreserved in RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Form in which a client refers to the resources of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Part of a qualified URI before the server's own URI; `None` for a client that sees one server only.
    pub(crate) prefix: Option<Arc<str>>,
    /// Whether the client used the qualified form.
    pub(crate) is_qualified: bool,
}

impl Style {
    /// URI in the form that the client used to subscribe to it, if that differs from the server's own.
    pub(crate) fn own(&self, uri: &str) -> Option<String> {
        if self.is_qualified { self.foreign(uri) } else { None }
    }

    /// Qualified form of a URI that the client has not subscribed to.
    pub(crate) fn foreign(&self, uri: &str) -> Option<String> {
        self.prefix.as_ref().map(|prefix| format!("{prefix}{uri}"))
    }
}

/// Part of a qualified URI before the server's own URI.
pub(crate) fn prefix(server: &str) -> String {
    format!("{SCHEME}{}/", utf8_percent_encode(server, ENCODED))
}

/// Qualified form of a server's URI or URI template.
pub(crate) fn qualify(server: &str, uri: &str) -> String {
    prefix(server) + uri
}

/// Whether a URI has the scheme of qualified ones. Case does not matter in a scheme.
pub(crate) fn is_qualified(uri: &str) -> bool {
    uri.as_bytes().get(..SCHEME.len()).is_some_and(|s| s.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

/// Splits a qualified URI into the server's name and the server's own URI.
pub(crate) fn split(uri: &str) -> Option<(String, &str)> {
    let rest = if is_qualified(uri) { &uri[SCHEME.len()..] } else { return None };
    let (server, own) = rest.split_once('/')?;
    let server = percent_decode_str(server).decode_utf8().ok()?;
    Some((server.into_owned(), own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qualified_uri_leads_back() {
        for server in ["git", "a/b", "ü ", "%2F", "ostler:", "", "a__b.c-d~e"] {
            for uri in ["file:///a%20b?c#d", "ui://x", "", "ostler:git/x:1", "x:{+y}/{z}"] {
                let qualified = qualify(server, uri);
                assert_eq!(split(&qualified), Some((server.to_owned(), uri)), "{qualified}");
                let shouted = qualified.replacen("ostler", "OsTlEr", 1);
                assert_eq!(split(&shouted), Some((server.to_owned(), uri)), "{shouted}");
            }
        }
        assert_eq!(qualify("my server", "file:///a b"), "ostler:my%20server/file:///a b");
    }

    #[test]
    fn no_other_uri_is_taken_for_one() {
        for uri in ["", "ostle", "ostler", "ostlerx:a/b", "x:ostler:a/b", "öster:a/b"] {
            assert!(!is_qualified(uri), "{uri}");
            assert_eq!(split(uri), None);
        }
        for uri in ["ostler:", "ostler:git", "ostler:%ff/x"] {
            assert!(is_qualified(uri) && split(uri).is_none(), "{uri}");
        }
    }
}
