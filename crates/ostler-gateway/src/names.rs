//! Names that say which server they belong to, for clients that see all servers as one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ostler::keeper::Fingerprint;

/// Between the server's name and its own name for a thing.
const BETWEEN: &str = "__";
/// What clients accept.
const LONGEST: usize = 64;
/// Of a hash, where a name would be too long, or not the only one.
const HASH: usize = 8;

/// Both ways between our names and the servers' own.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ours: HashMap<(Arc<str>, String), String>,
    theirs: HashMap<String, (Arc<str>, String)>,
}

impl Names {
    /// Names for all of these, each only once.
    pub(crate) fn of(things: BTreeSet<(Arc<str>, String)>) -> Self {
        let mut names = Self::default();
        for (server, thing) in things {
            let plain = format!("{}{BETWEEN}{}", clean(&server), clean(&thing));
            let is_exact = clean(&server) == *server && clean(&thing) == thing;
            let is_free = !names.theirs.contains_key(&plain);
            let name = if is_exact && is_free && plain.len() <= LONGEST {
                plain
            } else {
                hashed(&plain, &server, &thing)
            };
            names.theirs.insert(name.clone(), (Arc::clone(&server), thing.clone()));
            names.ours.insert((server, thing), name);
        }
        names
    }

    /// Our name for a server's own.
    pub(crate) fn ours(&self, server: &Arc<str>, thing: &str) -> Option<&str> {
        self.ours.get(&(Arc::clone(server), thing.to_owned())).map(String::as_str)
    }

    /// The server and its own name.
    pub(crate) fn theirs(&self, name: &str) -> Option<&(Arc<str>, String)> {
        self.theirs.get(name)
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

fn hashed(plain: &str, server: &str, thing: &str) -> String {
    let hash = Fingerprint::of_text(&format!("{server}\0{thing}")).to_string();
    let kept = plain.len().min(LONGEST - HASH - 1);
    format!("{}_{}", &plain[..kept], &hash[..HASH])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(things: &[(&str, &str)]) -> Names {
        Names::of(things.iter().map(|(s, t)| (Arc::from(*s), (*t).to_owned())).collect())
    }

    #[test]
    fn a_name_says_which_server() {
        let names = names(&[("git", "log"), ("files", "read")]);
        assert_eq!(names.ours(&Arc::from("git"), "log"), Some("git__log"));
        assert_eq!(names.theirs("files__read"), Some(&(Arc::from("files"), "read".to_owned())));
    }

    #[test]
    fn no_two_things_have_the_same_name_and_none_is_too_long() {
        let long = "x".repeat(100);
        let things = [
            ("a", "b__c"),
            ("a__b", "c"),
            ("s", &long),
            ("s", &long[..99]),
            ("ü", "t"),
            ("_", "t"),
        ];
        let names = names(&things);
        assert_eq!(names.theirs.len(), things.len());
        for (name, (server, thing)) in &names.theirs {
            assert!(may_be_of(name, server) && !may_be_of(name, "other"), "{name}");
            assert!(name.len() <= LONGEST && clean(name) == *name, "{name}");
            assert_eq!(names.ours(server, thing), Some(name.as_str()));
        }
    }
}
