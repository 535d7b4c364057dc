//! Files of the catalog: one JSON file for each entry, readable by its owner only.
//!
//! A file name consists of the hashes of the server's identity and of the principal. A file is replaced by renaming a
//! complete draft. Reading a file updates its modification time; `open` deletes files that were not read for `KEPT`,
//! and the oldest ones beyond `MOST`. Errors are ignored: a missing entry is learned again from the server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ostler::keeper::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Entry, Known, LARGEST, MOST, Subject, View};

/// Age after which an unused entry is deleted.
const KEPT: Duration = Duration::from_hours(24 * 60);

/// Directory of the files.
#[derive(Debug)]
pub(super) struct Files(PathBuf);

/// Contents of a file.
#[derive(Serialize, Deserialize)]
struct Page {
    /// Owner of the entry, checked after reading because the file name has only a hash of it.
    principal: Option<String>,
    views: Vec<PageView>,
    /// Missing in files of earlier versions.
    #[serde(default)]
    has_one_caller: bool,
}

#[derive(Serialize, Deserialize)]
struct PageView {
    profile: String,
    directory: Option<PathBuf>,
    initialize: Box<RawValue>,
    lists: BTreeMap<String, Box<RawValue>>,
}

impl Files {
    /// Opens the directory and deletes old files.
    pub(super) fn open(directory: PathBuf) -> Self {
        prune(&directory, SystemTime::now());
        Self(directory)
    }

    /// Files of a directory that another process keeps.
    pub(super) fn reading(directory: PathBuf) -> Self {
        Self(directory)
    }

    pub(super) fn read(&self, subject: &Subject) -> Option<Entry> {
        let file = self.file(subject);
        if fs::metadata(&file).ok()?.len() > 2 * LARGEST as u64 {
            return None;
        }
        let text = fs::read(&file).ok()?;
        // Marks the entry as used.
        let _ = fs::File::open(&file).and_then(|file| file.set_modified(SystemTime::now()));
        let page: Page = serde_json::from_slice(&text).ok()?;
        let is_own = page.principal.as_deref() == subject.principal.name();
        is_own.then(|| Entry {
            views: page.views.into_iter().map(PageView::into_view).collect(),
            has_one_caller: page.has_one_caller,
        })
    }

    /// Writes an entry. Errors are ignored: the entry is learned again after a restart.
    pub(super) fn write(&self, subject: &Subject, entry: &Entry) {
        let _ = self.replace(subject, entry);
    }

    /// Replaces the file atomically.
    fn replace(&self, subject: &Subject, entry: &Entry) -> io::Result<()> {
        let views = entry.views.iter().map(|(view, known)| PageView::new(view, known));
        let page = Page {
            principal: subject.principal.name().map(ToOwned::to_owned),
            views: views.collect::<io::Result<_>>()?,
            has_one_caller: entry.has_one_caller,
        };
        fs::create_dir_all(&self.0)?;
        let file = self.file(subject);
        let draft = file.with_extension("draft");
        let mut open = fs::OpenOptions::new();
        let mut written = open.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        written.write_all(&serde_json::to_vec(&page)?)?;
        fs::rename(draft, file)
    }

    fn file(&self, Subject { principal, identity }: &Subject) -> PathBuf {
        let principal = Fingerprint::of_text(principal.name().unwrap_or_default());
        self.0.join(format!("{identity}-{principal}.json"))
    }
}

impl PageView {
    fn new(view: &View, known: &Known) -> io::Result<Self> {
        let raw = |bytes: &Bytes| {
            let text = String::from_utf8(bytes.to_vec()).map_err(io::Error::other)?;
            RawValue::from_string(text).map_err(io::Error::other)
        };
        let lists = known.lists.iter().map(|(method, list)| Ok((method.clone(), raw(list)?)));
        Ok(Self {
            profile: view.profile.to_string(),
            directory: view.directory.as_deref().map(Path::to_owned),
            initialize: raw(&known.initialize)?,
            lists: lists.collect::<io::Result<_>>()?,
        })
    }

    fn into_view(self) -> (View, Arc<Known>) {
        let bytes = |raw: Box<RawValue>| Bytes::from(String::from(Box::<str>::from(raw)));
        let lists = self.lists.into_iter().map(|(method, list)| (method, bytes(list))).collect();
        let directory = self.directory.map(Into::into);
        let known = Known { initialize: bytes(self.initialize), lists };
        (View { profile: self.profile.into(), directory }, Arc::new(known))
    }
}

/// Deletes files that are too old or too many.
fn prune(directory: &Path, now: SystemTime) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let aged = |file: fs::DirEntry| Some((file.metadata().ok()?.modified().ok()?, file.path()));
    let mut files: Vec<(SystemTime, PathBuf)> = files.filter_map(aged).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > KEPT);
    for (index, (time, path)) in files.into_iter().enumerate() {
        if index >= MOST || is_old(&time) {
            // Another gateway may have deleted the file already.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalog;
    use super::super::tests::{learn, name};
    use super::*;

    fn knows(catalog: &Catalog, server: &str) -> bool {
        catalog.find(&name("ann", server, "", "/")).is_some()
    }

    #[test]
    fn unused_entries_expire_and_used_ones_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Catalog::new(Some(directory.path().to_owned()));
        let catalog = open();
        for server in ["old", "asked for", "new"] {
            assert!(learn(&catalog, &name("ann", server, "", "/"), "[]"));
        }
        let long_ago = SystemTime::now() - KEPT - Duration::from_hours(1);
        let files = Files(directory.path().to_owned());
        for server in ["old", "asked for"] {
            let file = files.file(&name("ann", server, "", "/").subject);
            fs::File::open(file).unwrap().set_modified(long_ago).unwrap();
        }
        let fresh = Catalog { files: Some(files), ..Catalog::new(None) };
        assert!(knows(&fresh, "asked for"));
        let next = open();
        assert!(knows(&next, "asked for") && knows(&next, "new") && !knows(&next, "old"));
    }

    #[test]
    fn an_entry_is_the_same_after_a_restart_and_stays_its_principals() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Catalog::new(Some(directory.path().to_owned()));
        let (catalog, git) = (open(), name("ann", "git", "rich", "/a"));
        assert!(learn(&catalog, &name("ann", "git", "plain", "/a"), "[1]"));
        assert!(learn(&catalog, &git, "[1,2]"));
        let known = |catalog: &Catalog, name| catalog.find(name).map(|found| found.known);
        catalog.set_one_caller(&git.subject);
        assert!(open().has_one_caller(&git.subject));
        assert!(!open().has_one_caller(&name("bob", "git", "rich", "/a").subject));
        assert_eq!(known(&open(), &git), known(&catalog, &git));
        assert_eq!(known(&open(), &name("bob", "git", "rich", "/a")), None);
    }
}
