//! Names that say which server they belong to, for clients that see all servers as one.
//!
//! A name is `server__thing`, or the same with a hash where that could mean something else, or where clients would refuse
//! it. Which of both depends on nothing but the two names: a plain one has no `__` before the one that separates them, and
//! does not look like a hashed one. So no server can have a name that another one has, or would have.

use std::collections::{BTreeSet, HashMap};

use ostler::keeper::Fingerprint;

/// Between the server's name and its own name for a thing.
const BETWEEN: &str = "__";
/// What clients accept.
const LONGEST: usize = 64;
/// Digits of the hash of the server's name; as many are of the hash of both names. A server that looks for things whose
/// hash is that of others finds only its own.
const DIGITS: usize = 8;
const HASH: usize = 2 * DIGITS;

/// Both ways between our names for the things of one server and its own.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ours: HashMap<String, String>,
    theirs: HashMap<String, String>,
}

impl Names {
    /// Names for all of these.
    pub(crate) fn of(server: &str, things: BTreeSet<String>) -> Self {
        let mut names = Self::default();
        for thing in things {
            let name = name_of(server, &thing);
            names.theirs.insert(name.clone(), thing.clone());
            names.ours.insert(thing, name);
        }
        names
    }

    /// Our name for the server's own.
    pub(crate) fn ours(&self, thing: &str) -> Option<&str> {
        self.ours.get(thing).map(String::as_str)
    }

    /// The server's own name.
    pub(crate) fn theirs(&self, name: &str) -> Option<&str> {
        self.theirs.get(name).map(String::as_str)
    }
}

/// Whether something of this server may be called like this.
pub(crate) fn may_be_of(name: &str, server: &str) -> bool {
    let beginning = format!("{}{BETWEEN}", clean(server));
    let kept = beginning.len().min(LONGEST - HASH - 1);
    name.starts_with(&beginning[..kept])
}

/// With nothing in it that clients refuse.
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
