//! Ids of server variants.
//!
//! A server that clients run with other variables, or in another directory, is another command and must never be
//! shared with them. To the keeper each variant is a server of its own, with an id that consists of the server's name
//! and a hash of what it runs.

use std::borrow::Cow;
use std::sync::Arc;

use ostler::keeper::Fingerprint;

/// Separates the server's name from the hash.
const MARK: char = '#';
/// Length of the hash in hexadecimal digits.
const HASH: usize = 32;

/// Id of a variant.
pub(crate) fn id(name: &str, fingerprint: Fingerprint) -> Arc<str> {
    format!("{name}{MARK}{fingerprint}").into()
}

/// Name of the server that an id belongs to.
pub fn name(id: &str) -> &str {
    id.rsplit_once(MARK).filter(|(_, hash)| is_hash(hash)).map_or(id, |(name, _)| name)
}

/// Replaces ids in a text of the keeper with the names of their servers.
pub fn readable(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or_default();
    let mut clean = first.to_owned();
    let mut is_changed = false;
    for part in parts {
        match part.split_at_checked(HASH).filter(|(hash, _)| is_hash(hash)) {
            Some((_, rest)) => {
                is_changed = true;
                clean.push_str(rest);
            }
            None => clean.extend(std::iter::once(MARK).chain(part.chars())),
        }
    }
    if is_changed { Cow::Owned(clean) } else { Cow::Borrowed(text) }
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_shows_the_name_of_its_server() {
        let id = id("a#b", Fingerprint::of_text("any"));
        assert_eq!(name(&id), "a#b");
        assert_eq!(name("a#b"), "a#b");
        assert_eq!(readable(&format!("{id}: gone; {id} #1")), "a#b: gone; a#b #1");
        assert!(matches!(readable("issue #1"), Cow::Borrowed(_)));
    }
}
