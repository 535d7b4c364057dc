//! Podman's stores, and the note that lists the stores in which a server has created something.
//!
//! The wrapper writes the note inside the server's fence, so a hostile server can write it too. Nothing in it names a
//! program, a flag or a variable: it contains only directories, a storage driver or the address of a service, and each
//! is checked when the note is read. A line that fails the check stands for podman's default store.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::containers::Endpoint;
use crate::engine::argv::CreateKind;
use crate::id::InstanceId;
use crate::notes::podman_note;
use crate::places::is_private;
use crate::records;

/// All storage drivers of all podman versions.
const DRIVERS: [&str; 7] = ["aufs", "btrfs", "devicemapper", "overlay", "overlay2", "vfs", "zfs"];
/// Most stores of one instance that are cleared; further ones in a note are ignored.
const MOST_STORES: usize = 64;

/// A place where podman keeps containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Store {
    /// Podman's default store in the environment that it runs in.
    #[default]
    Default,
    /// Directories of this machine.
    Local(Files),
    /// A podman service, by its address: `unix:///PATH` or `tcp://HOST:PORT`.
    Service(String),
}

/// Directories of a local store, under the names of the note and (as aliases) of `podman info`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Files {
    /// Absolute, without `..`.
    #[serde(alias = "graphRoot")]
    pub(crate) root: PathBuf,
    /// Absolute, without `..`.
    #[serde(alias = "runRoot")]
    pub(crate) runroot: PathBuf,
    /// One of [`DRIVERS`].
    #[serde(alias = "graphDriverName")]
    pub(crate) driver: String,
    /// The `XDG_RUNTIME_DIR` below which podman's runtime keeps its state, absolute, without `..`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<PathBuf>,
    /// Whether podman uses them by default in the environment that the server was started with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_default: bool,
}

/// The kinds of objects that an instance may have, by store.
pub(crate) type Noted = BTreeMap<Store, BTreeSet<CreateKind>>;

/// One line of the note.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    thing: CreateKind,
    store: UncheckedStore,
}

/// A store as written in the note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum UncheckedStore {
    Local(Files),
    Service { service: String },
}

impl Files {
    /// Whether podman can't mistake any of these values for something else, such as a flag.
    fn is_valid(&self) -> bool {
        let paths = [&self.root, &self.runroot].into_iter().chain(&self.runtime);
        paths.into_iter().all(|path| is_plain(path)) && DRIVERS.contains(&self.driver.as_str())
    }
}

fn is_plain(path: &Path) -> bool {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(is_plain) && path.to_str().is_some()
}

/// Whether podman reaches this address without executing a program, which excludes `ssh`.
fn is_service(address: &str) -> bool {
    match address.parse() {
        Ok(Endpoint::Unix(path)) => is_plain(&path),
        Ok(Endpoint::Tcp { .. }) => address.starts_with("tcp://"),
        Ok(Endpoint::Ssh(_)) | Err(_) => false,
    }
}

impl Store {
    /// A local store, if its values are valid.
    pub(super) fn local(files: Files) -> Option<Self> {
        files.is_valid().then_some(Self::Local(files))
    }

    /// A service, if podman reaches it without executing a program.
    pub(super) fn service(endpoint: &Endpoint) -> Option<Self> {
        let address = endpoint.to_string();
        is_service(&address).then_some(Self::Service(address))
    }

    /// The global flags that select this store.
    pub(super) fn flags(&self) -> Vec<String> {
        match self {
            Self::Default => Vec::new(),
            Self::Local(Files { root, runroot, driver, .. }) => vec![
                format!("--root={}", root.display()),
                format!("--runroot={}", runroot.display()),
                format!("--storage-driver={driver}"),
            ],
            Self::Service(address) => vec!["--remote".into(), format!("--url={address}")],
        }
    }

    /// The `XDG_RUNTIME_DIR` for this store, if only this user can write to that directory.
    pub(super) fn runtime(&self) -> Option<&Path> {
        match self {
            Self::Local(files) => files.runtime.as_deref().filter(|path| is_private(path)),
            Self::Default | Self::Service(_) => None,
        }
    }

    /// Whether podman uses this store by default in the environment that the server was started with. Then it must get
    /// no flags, because with flags it ignores further options of its configuration.
    pub(super) fn is_default(&self) -> bool {
        match self {
            Self::Default => true,
            Self::Local(files) => files.is_default,
            Self::Service(_) => false,
        }
    }

    /// Notes that an instance may have such an object in this store. The note survives a power failure, like the object
    /// itself. Several commands may write at the same time.
    pub(super) fn note(
        &self,
        thing: CreateKind,
        book: &Path,
        instance: InstanceId,
    ) -> io::Result<()> {
        let store = match self {
            Self::Default => return Ok(()),
            Self::Local(files) => UncheckedStore::Local(files.clone()),
            Self::Service(service) => UncheckedStore::Service { service: service.clone() },
        };
        if noted(book, instance)?.get(self).is_some_and(|things| things.contains(&thing)) {
            return Ok(());
        }
        let line = serde_json::to_string(&Line { thing, store })?;
        let mut options = File::options();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut file = options
            .create(true)
            .append(true)
            .custom_flags(flags)
            .open(podman_note(book, instance))?;
        // Starts with a line break: another writer may have died in the middle of its line.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_all()?;
        crate::ledger::sync(book)
    }
}

impl From<UncheckedStore> for Store {
    fn from(unchecked: UncheckedStore) -> Self {
        match unchecked {
            UncheckedStore::Local(files) => Self::local(files).unwrap_or_default(),
            UncheckedStore::Service { service } if is_service(&service) => Self::Service(service),
            UncheckedStore::Service { .. } => Self::Default,
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once("podman".to_owned()).chain(self.flags());
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

/// Reads the note. An invalid line counts as the default store with objects of every kind.
pub(crate) fn noted(book: &Path, instance: InstanceId) -> io::Result<Noted> {
    let text = match records::read(&podman_note(book, instance)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        // The server replaced the note by something that is no regular file.
        Err(error) if is_foreign(&error) => b"?".to_vec(),
        Err(error) => return Err(error),
    };
    let mut noted = Noted::new();
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (store, things) = match serde_json::from_slice(line) {
            Ok(Line { thing, store }) => (store.into(), vec![thing]),
            Err(_) => {
                (Store::Default, vec![CreateKind::Container, CreateKind::Pod, CreateKind::Network])
            }
        };
        if noted.len() < MOST_STORES || noted.contains_key(&store) {
            noted.entry(store).or_default().extend(things);
        }
    }
    Ok(noted)
}

/// Whether reading failed because the path is no regular file.
fn is_foreign(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::InvalidInput, io::ErrorKind::IsADirectory];
    kinds.contains(&error.kind())
        || [libc::ELOOP, libc::ENXIO].map(Some).contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::notes::{is_podman_noted, remove_podman_note};

    fn store(root: &str) -> Store {
        let (root, runroot, driver) = (root.into(), "/r".into(), "vfs".into());
        Store::local(Files { root, runroot, driver, runtime: None, is_default: false }).unwrap()
    }

    fn book() -> (tempfile::TempDir, InstanceId) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ledger"), "").unwrap();
        (directory, InstanceId::random().unwrap())
    }

    #[test]
    fn a_truncated_line_does_not_spoil_the_rest_of_the_note() {
        let (directory, instance) = book();
        let book = directory.path();
        assert!(!is_podman_noted(book, instance));
        for (root, thing) in
            [("/a", CreateKind::Container), ("/a", CreateKind::Pod), ("/a", CreateKind::Pod)]
        {
            store(root).note(thing, book, instance).unwrap();
        }
        let text = fs::read_to_string(podman_note(book, instance)).unwrap();
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 2);
        fs::write(podman_note(book, instance), text + "{\"thing\":\"cont").unwrap();
        store("/c").note(CreateKind::Network, book, instance).unwrap();
        let of_a = BTreeSet::from([CreateKind::Container, CreateKind::Pod]);
        let of_c = BTreeSet::from([CreateKind::Network]);
        let all = BTreeSet::from([CreateKind::Container, CreateKind::Pod, CreateKind::Network]);
        let expected =
            Noted::from([(store("/a"), of_a), (store("/c"), of_c), (Store::Default, all)]);
        assert_eq!(noted(book, instance).unwrap(), expected);
        remove_podman_note(book, instance);
        assert!(!is_podman_noted(book, instance));
    }

    #[test]
    fn a_hostile_note_names_the_default_store_only() {
        let (directory, instance) = book();
        let book = directory.path();
        let hostile = [
            r#"{"program":"/evil","globals":["--root","/a"],"env":[["PATH","/evil"]],"cwd":"/"}"#,
            r#"{"root":"a","runroot":"/r","driver":"vfs"}"#,
            r#"{"root":"/a/../b","runroot":"/r","driver":"vfs"}"#,
            r#"{"root":"/a","runroot":"--runtime=/evil","driver":"vfs"}"#,
            r#"{"root":"/a","runroot":"/r","driver":"vfs --hooks-dir=/evil"}"#,
            r#"{"service":"ssh://evil"}"#,
            r#"{"service":"--module=/evil"}"#,
            r#"{"service":"unix://relative"}"#,
        ];
        for store in hostile {
            let line = format!("{{\"thing\":\"container\",\"store\":{store}}}\n");
            fs::write(podman_note(book, instance), line).unwrap();
            let noted = noted(book, instance).unwrap();
            assert_eq!(noted.keys().collect::<Vec<_>>(), [&Store::Default], "{store}");
        }
    }

    #[test]
    fn stores_above_the_limit_are_ignored() {
        let (directory, instance) = book();
        for number in 0..2 * MOST_STORES {
            let root = format!("/{number}");
            store(&root).note(CreateKind::Container, directory.path(), instance).unwrap();
        }
        assert_eq!(noted(directory.path(), instance).unwrap().len(), MOST_STORES);
    }

    #[test]
    fn a_note_that_is_no_regular_file_is_not_read() {
        let (directory, instance) = book();
        let book = directory.path();
        let note = podman_note(book, instance);
        fs::write(book.join("other"), "{}").unwrap();
        symlink(book.join("other"), &note).unwrap();
        assert_eq!(noted(book, instance).unwrap().keys().collect::<Vec<_>>(), [&Store::Default]);
        assert!(store("/a").note(CreateKind::Container, book, instance).is_err());
        fs::remove_file(&note).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &note,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert_eq!(noted(book, instance).unwrap().keys().collect::<Vec<_>>(), [&Store::Default]);
        assert!(is_podman_noted(book, instance));
    }
}
