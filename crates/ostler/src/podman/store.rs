//! Podman's books: which ones a server's containers are in, and the note that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::argv::Thing;
use crate::id::InstanceId;

/// What of an environment says where podman's books are, and how it gets at them.
pub(super) const SURROUNDINGS: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "CONTAINERS_CONF",
    "CONTAINERS_CONF_OVERRIDE",
    "CONTAINERS_STORAGE_CONF",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    "SSH_AUTH_SOCK",
];

/// Podman's books, by the way in which a command of the server has come to them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Store {
    /// The real command.
    pub(crate) program: PathBuf,
    /// The flags before its subcommand.
    pub(crate) globals: Vec<String>,
    /// What counts of its environment.
    pub(crate) env: Vec<(String, String)>,
    /// Where it was called.
    pub(crate) cwd: PathBuf,
}

/// What an instance may have in which books.
pub(crate) type Noted = BTreeMap<Store, BTreeSet<Thing>>;

/// One line of a note.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    thing: Thing,
    store: Store,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once(self.program.display().to_string());
        let words: Vec<String> = words.chain(self.globals.iter().cloned()).collect();
        f.write_str(&words.join(" "))
    }
}

impl Store {
    /// Says that an instance may have such a thing in it, so that it survives a power failure as the
    /// thing does. Several commands may do so at the same time.
    pub(super) fn note(&self, thing: Thing, book: &Path, instance: InstanceId) -> io::Result<()> {
        if noted(book, instance)?.get(self).is_some_and(|things| things.contains(&thing)) {
            return Ok(());
        }
        let line = serde_json::to_string(&Line { thing, store: self.clone() })?;
        let mut file = File::options().create(true).append(true).open(path(book, instance))?;
        // Whoever wrote before may not have come to the end of its line.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_all()?;
        crate::ledger::sync(book)
    }
}

/// All that an instance may have something in. A line that can't be read says nothing; the others
/// still count.
pub(crate) fn noted(book: &Path, instance: InstanceId) -> io::Result<Noted> {
    let text = match fs::read(path(book, instance)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut noted = Noted::new();
    let lines = text.split(|byte| *byte == b'\n');
    for Line { thing, store } in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        noted.entry(store).or_default().insert(thing);
    }
    Ok(noted)
}

/// Whether it is noted that the instance may have anything.
pub(crate) fn is_noted(book: &Path, instance: InstanceId) -> bool {
    path(book, instance).exists()
}

/// Takes the note back: nothing is there. What can't be taken back is looked into again.
pub(super) fn remove_note(book: &Path, instance: InstanceId) {
    let _ = fs::remove_file(path(book, instance));
}

fn path(book: &Path, instance: InstanceId) -> PathBuf {
    book.join(format!("{instance}.podman"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_was_cut_off_still_says_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let book = directory.path();
        fs::write(book.join("ledger"), "").unwrap();
        let instance = InstanceId::random().unwrap();
        assert!(!is_noted(book, instance));
        let store = |root: &str| Store {
            program: "/usr/bin/podman".into(),
            globals: vec!["--root".into(), root.into()],
            env: vec![("HOME".into(), "/h".into())],
            cwd: "/".into(),
        };
        for (root, thing) in [("/a", Thing::Container), ("/a", Thing::Pod), ("/a", Thing::Pod)] {
            store(root).note(thing, book, instance).unwrap();
        }
        let text = fs::read_to_string(path(book, instance)).unwrap();
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 2);
        let line = serde_json::to_string(&store("/b")).unwrap();
        fs::write(path(book, instance), text + &line[..line.len() / 2]).unwrap();
        store("/c").note(Thing::Network, book, instance).unwrap();
        let of_a = BTreeSet::from([Thing::Container, Thing::Pod]);
        let of_c = BTreeSet::from([Thing::Network]);
        let expected = Noted::from([(store("/a"), of_a), (store("/c"), of_c)]);
        assert_eq!(noted(book, instance).unwrap(), expected);
        remove_note(book, instance);
        assert!(!is_noted(book, instance));
    }
}
