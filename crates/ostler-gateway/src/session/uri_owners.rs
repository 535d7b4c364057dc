//! Owners of resource URIs, for clients that see all servers as one.
//!
//! The first server that lists a URI owns it. The first server with a template of some prefix owns all URIs with that
//! prefix that have no owner yet. If another server lists such a URI later, the client sees it with a qualified URI
//! ([`uris`](crate::protocol::uris)).
//!
//! There is one record for each principal, kept as long as the gateway runs. So neither restarts nor the names of
//! servers change the owner of a URI, and a server that is stopped loses none. Listed URIs are stored as hashes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use crate::protocol::uris;

/// Most URIs that one server may own. Further ones are qualified.
const MOST_URIS: usize = 50_000;
/// Most prefixes of URIs that one server may own.
const MOST_PREFIXES: usize = 1000;
/// Longest prefix that can be owned, in bytes.
const LONGEST_PREFIX: usize = 4096;

/// URI owners for the clients of one principal.
#[derive(Debug, Default)]
pub(crate) struct UriOwners {
    hasher: RandomState,
    /// Owners by the hash of the URI.
    uris: HashMap<u64, Arc<str>>,
    /// Owners by prefix. No prefix of one server begins with a prefix of another.
    prefixes: BTreeMap<String, Arc<str>>,
    counts: HashMap<Arc<str>, Count>,
}

/// Number of URIs and prefixes that a server owns.
#[derive(Debug, Default)]
struct Count {
    uris: usize,
    prefixes: usize,
}

impl UriOwners {
    /// The server that owns a URI.
    pub(crate) fn owner(&self, uri: &str) -> Option<&Arc<str>> {
        self.uris.get(&self.hasher.hash_one(uri)).or_else(|| self.covering(uri))
    }

    /// Whether URIs made from this template belong to this server.
    pub(crate) fn owns_template(&self, server: &str, template: &str) -> bool {
        let owner = prefix_of(template).and_then(|prefix| self.covering(prefix));
        owner.is_some_and(|owner| **owner == *server)
    }

    /// Claims the URIs that a server lists. `is_there` tells whether an owner is still configured: URIs of removed
    /// servers can be claimed by others.
    pub(crate) fn claim(
        &mut self,
        server: &Arc<str>,
        uris: &[String],
        is_there: impl Fn(&str) -> bool,
    ) {
        let mut has_made_room = false;
        for uri in uris.iter().filter(|uri| !uris::is_qualified(uri)) {
            if self.owner(uri).is_some_and(|owner| owner == server || is_there(owner)) {
                continue;
            }
            if self.count(server).uris >= MOST_URIS && !std::mem::replace(&mut has_made_room, true)
            {
                self.forget_unlisted(server, uris);
            }
            if self.count(server).uris < MOST_URIS {
                self.take(self.hasher.hash_one(uri), server);
            }
        }
    }

    /// Claims the prefix of a template that a server lists.
    pub(crate) fn claim_template(
        &mut self,
        server: &Arc<str>,
        template: &str,
        is_there: impl Fn(&str) -> bool,
    ) {
        let Some(prefix) = prefix_of(template) else { return };
        // Prefixes of removed servers can be claimed by others.
        while let Some((own, owner)) = self.conflict(prefix, server) {
            if is_there(&owner) {
                return;
            }
            self.prefixes.remove(&own);
            self.count(&owner).prefixes -= 1;
        }
        let is_covered = self.covering(prefix).is_some();
        if !is_covered && self.count(server).prefixes < MOST_PREFIXES {
            self.prefixes.insert(prefix.to_owned(), Arc::clone(server));
            self.count(server).prefixes += 1;
        }
    }

    /// A prefix of another server that begins with this one, or that this one begins with.
    fn conflict(&self, prefix: &str, server: &Arc<str>) -> Option<(String, Arc<str>)> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix), Bound::Unbounded);
        let within = self.prefixes.range::<str, _>(from);
        let within = within.take_while(|(own, _)| own.starts_with(prefix));
        let mut all = self.covering_entry(prefix).into_iter().chain(within);
        let found = all.find(|(_, owner)| *owner != server);
        found.map(|(own, owner)| (own.clone(), Arc::clone(owner)))
    }

    fn count(&mut self, server: &Arc<str>) -> &mut Count {
        self.counts.entry(Arc::clone(server)).or_default()
    }

    fn take(&mut self, hash: u64, server: &Arc<str>) {
        let before = match self.uris.entry(hash) {
            Entry::Occupied(mut entry) => Some(entry.insert(Arc::clone(server))),
            Entry::Vacant(entry) => {
                entry.insert(Arc::clone(server));
                None
            }
        };
        if let Some(before) = before {
            self.count(&before).uris -= 1;
        }
        self.count(server).uris += 1;
    }

    /// Drops the URIs that a server no longer lists, to make room for new ones.
    fn forget_unlisted(&mut self, server: &Arc<str>, listed: &[String]) {
        let listed: HashSet<u64> = listed.iter().map(|uri| self.hasher.hash_one(uri)).collect();
        self.uris.retain(|hash, owner| owner != server || listed.contains(hash));
        let left = self.uris.values().filter(|owner| *owner == server).count();
        self.count(server).uris = left;
    }

    /// The server that owns a prefix of this URI.
    fn covering(&self, uri: &str) -> Option<&Arc<str>> {
        self.covering_entry(uri).map(|(_, owner)| owner)
    }

    fn covering_entry(&self, uri: &str) -> Option<(&String, &Arc<str>)> {
        let mut bound = uri;
        loop {
            let until: (Bound<&str>, Bound<&str>) = (Bound::Unbounded, Bound::Included(bound));
            let (prefix, owner) = self.prefixes.range::<str, _>(until).next_back()?;
            if bound.starts_with(prefix.as_str()) {
                return Some((prefix, owner));
            }
            // Any other prefix of the URI sorts before this entry, so it is a prefix of what the entry and the URI
            // have in common.
            let pairs = bound.char_indices().zip(prefix.chars());
            let common = pairs.take_while(|((_, one), other)| one == other).last();
            bound = common.map_or("", |((at, letter), _)| &bound[..at + letter.len_utf8()]);
        }
    }
}

/// The prefix of all URIs of a template, if it can be owned: it must contain the scheme.
fn prefix_of(template: &str) -> Option<&str> {
    let prefix = template.split('{').next()?;
    let (scheme, _) = prefix.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_fine = is_scheme && prefix.len() <= LONGEST_PREFIX && !uris::is_qualified(prefix);
    is_fine.then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> Arc<str> {
        name.into()
    }

    fn list(uri_owners: &mut UriOwners, name: &str, uris: &[&str]) {
        let uris: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
        uri_owners.claim(&server(name), &uris, |_| true);
    }

    fn owner<'a>(uri_owners: &'a UriOwners, uri: &str) -> Option<&'a str> {
        uri_owners.owner(uri).map(|owner| &**owner)
    }

    #[test]
    fn the_first_server_keeps_the_uris_that_it_listed() {
        let mut uri_owners = UriOwners::default();
        list(&mut uri_owners, "b", &["x:1"]);
        list(&mut uri_owners, "a", &["x:1", "x:2"]);
        list(&mut uri_owners, "b", &[]);
        list(&mut uri_owners, "a", &["x:1"]);
        assert_eq!(owner(&uri_owners, "x:1"), Some("b"));
        assert_eq!(owner(&uri_owners, "x:2"), Some("a"));
        assert_eq!(owner(&uri_owners, "x:3"), None);
        // A removed server loses its URIs.
        uri_owners.claim(&server("a"), &["x:1".to_owned()], |name| name != "b");
        assert_eq!(owner(&uri_owners, "x:1"), Some("a"));
    }

    #[test]
    fn the_first_template_keeps_uris_with_its_prefix() {
        let mut uri_owners = UriOwners::default();
        let mut claim = |name: &str, template: &str| {
            uri_owners.claim_template(&server(name), template, |_| true);
        };
        claim("b", "file:///home/{path}");
        claim("a", "file:///{path}");
        claim("a", "file:///home/me/{path}");
        claim("a", "{+any}");
        claim("a", "file{x}");
        claim("a", "ostler:b/{x}");
        claim("a", "file:///etc/{path}");
        claim("b", "file:///home/{a}/{b}");
        list(&mut uri_owners, "a", &["file:///home/x"]);
        assert_eq!(owner(&uri_owners, "file:///home/x"), Some("b"));
        assert_eq!(owner(&uri_owners, "file:///home/me/x"), Some("b"));
        assert_eq!(owner(&uri_owners, "file:///etc/x"), Some("a"));
        for uri in ["file:///hom", "file:///usr", "ostler:b/x", "x", "", "zzz:"] {
            assert_eq!(owner(&uri_owners, uri), None, "{uri}");
        }
        assert!(uri_owners.owns_template("b", "file:///home/{a}/{b}"));
        assert!(!uri_owners.owns_template("a", "file:///home/me/{path}"));
        assert!(!uri_owners.owns_template("a", "{+any}"));
        // A removed server loses its prefixes.
        uri_owners.claim_template(&server("a"), "file:///{path}", |name| name != "b");
        assert_eq!(owner(&uri_owners, "file:///home/me/x"), Some("a"));
    }

    #[test]
    fn a_uri_listed_before_a_template_keeps_its_owner() {
        let mut uri_owners = UriOwners::default();
        list(&mut uri_owners, "a", &["x:1"]);
        uri_owners.claim_template(&server("b"), "x:{y}", |_| true);
        assert_eq!((owner(&uri_owners, "x:1"), owner(&uri_owners, "x:2")), (Some("a"), Some("b")));
    }

    #[test]
    fn a_prefix_is_found_among_many() {
        let mut uri_owners = UriOwners::default();
        for text in ["x:", "x:a", "x:ab", "x:abz", "x:b", "x:äö", "y:"] {
            uri_owners.prefixes.insert(text.to_owned(), text.into());
        }
        let covering = |uri: &str| uri_owners.covering(uri).map(|owner| &**owner);
        for (uri, expected) in
            [("x:abc", "x:ab"), ("x:aa", "x:a"), ("x:c", "x:"), ("x:äöü", "x:äö"), ("x:äp", "x:")]
        {
            assert_eq!(covering(uri), Some(expected), "{uri}");
        }
        assert_eq!((covering("x"), covering("z:"), covering("")), (None, None, None));
    }

    #[test]
    fn no_server_can_fill_the_record() {
        let mut uri_owners = UriOwners::default();
        let uris = |from: usize| {
            (from..from + MOST_URIS + 10).map(|n| format!("x:{n}")).collect::<Vec<_>>()
        };
        uri_owners.claim(&server("a"), &uris(0), |_| true);
        assert_eq!(uri_owners.uris.len(), MOST_URIS);
        // URIs that are no longer listed make room for new ones.
        uri_owners.claim(&server("a"), &uris(MOST_URIS * 2), |_| true);
        assert_eq!(uri_owners.uris.len(), MOST_URIS);
        assert_eq!(owner(&uri_owners, &format!("x:{}", MOST_URIS * 2)), Some("a"));
        list(&mut uri_owners, "b", &["y:1"]);
        assert_eq!(owner(&uri_owners, "y:1"), Some("b"));
        for number in 0..2 * MOST_PREFIXES {
            uri_owners.claim_template(&server("a"), &format!("z{number}:{{x}}"), |_| true);
        }
        assert_eq!(uri_owners.prefixes.len(), MOST_PREFIXES);
    }
}
