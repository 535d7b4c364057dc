//! Qualified names of tools and prompts, for clients that see all servers as one.
//!
//! A name is `server__thing`. It gets a hash at its end where the plain form would be ambiguous, too long, or contain
//! characters that clients refuse. The choice depends on the two names alone, and not on other servers: a plain name
//! has no `__` before the one that separates its parts, and does not look like a hashed one. So no server can take a
//! name that another one has, or would have.

use std::collections::{BTreeSet, HashMap};

use ostler::keeper::Fingerprint;

/// Separator between the server's name and its own name for a thing.
const BETWEEN: &str = "__";
/// Longest name in characters that clients accept.
const LONGEST: usize = 64;
/// Hex digits of the hash of the server's name, and of the hash of both names. A server that searches for hash
/// collisions can only collide with its own names, because the first hash is not under its control.
const DIGITS: usize = 8;
const HASH: usize = 2 * DIGITS;

/// Translation between qualified names and the own names of one server.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ours: HashMap<String, String>,
    theirs: HashMap<String, String>,
}

impl Names {
    /// Assigns names to all of these.
    pub(crate) fn of(server: &str, things: BTreeSet<String>) -> Self {
        let mut names = Self::default();
        for thing in things {
            let name = name_of(server, &thing);
            names.theirs.insert(name.clone(), thing.clone());
            names.ours.insert(thing, name);
        }
        names
    }

    /// Qualified name for the server's own name.
    pub(crate) fn ours(&self, thing: &str) -> Option<&str> {
        self.ours.get(thing).map(String::as_str)
    }

    /// Server's own name for a qualified name.
    pub(crate) fn theirs(&self, name: &str) -> Option<&str> {
        self.theirs.get(name).map(String::as_str)
    }
}

/// Whether a name can be a qualified name of this server, by its beginning.
pub(crate) fn may_be_of(name: &str, server: &str) -> bool {
    let beginning = format!("{}{BETWEEN}", clean(server));
    let kept = beginning.len().min(LONGEST - HASH - 1);
    name.starts_with(&beginning[..kept])
}

/// Replaces characters that clients refuse.
fn clean(name: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_fine(c) { c } else { '_' }).collect()
}

fn name_of(server: &str, thing: &str) -> String {
    let plain = format!("{}{BETWEEN}{}", clean(server), clean(thing));
    let is_exact = clean(server) == server && clean(thing) == thing;
    let is_clear = !server.contains(BETWEEN) && !server.ends_with('_') && !looks_hashed(&plain);
    if is_exact && is_clear && plain.len() <= LONGEST {
        plain
    } else {
        hashed(&plain, server, thing)
    }
}

fn hashed(plain: &str, server: &str, thing: &str) -> String {
    let of_server = Fingerprint::of_text(server).to_string();
    let of_both = Fingerprint::of_text(&format!("{server}\0{thing}")).to_string();
    let kept = plain.len().min(LONGEST - HASH - 1);
    format!("{}_{}{}", &plain[..kept], &of_server[..DIGITS], &of_both[..DIGITS])
}

fn looks_hashed(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let tail = name.rsplit_once('_').map(|(_, tail)| tail);
    tail.is_some_and(|tail| tail.len() == HASH && tail.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_server() {
        let names = Names::of("git", ["log".to_owned(), "_x".to_owned()].into());
        assert_eq!(names.ours("log"), Some("git__log"));
        assert_eq!(names.theirs("git___x"), Some("_x"));
        assert_eq!(names.theirs("log"), None);
    }

    #[test]
    fn no_two_things_have_the_same_name_and_none_is_too_long() {
        let long = "x".repeat(100);
        let copied = format!("hub__push_{}", &name_of("git__hub", "push")[15..]);
        let things = [
            ("git", "hub__push"),
            ("git__hub", "push"),
            ("git", &copied),
            ("a_", "b"),
            ("a", "_b"),
            ("s", &long),
            ("s", &long[..99]),
            ("ü", "t"),
            ("_", "t"),
            ("a b", "t"),
            ("a.b", "t"),
        ];
        let names: BTreeSet<String> = things.iter().map(|(s, t)| name_of(s, t)).collect();
        assert_eq!(names.len(), things.len(), "{names:?}");
        for (server, thing) in things {
            let name = name_of(server, thing);
            assert!(may_be_of(&name, server) && !may_be_of(&name, "other"), "{name}");
            assert!(name.len() <= LONGEST && clean(&name) == name, "{name}");
        }
    }

    #[test]
    fn a_server_whose_name_could_end_elsewhere_always_has_hashed_names() {
        for (server, is_hashed) in
            [("git", false), ("g_it", false), ("_git", false), ("git__hub", true), ("git_", true)]
        {
            assert_eq!(looks_hashed(&name_of(server, "t")), is_hashed, "{server}");
        }
    }
}
