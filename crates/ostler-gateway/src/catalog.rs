//! What servers have said of themselves, kept on disk: so that a client can be answered without
//! starting anything.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ostler::keeper::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Notify;

/// A server that says more of itself than this is asked each time.
pub(crate) const LARGEST: usize = 16 << 20;

/// What nobody has asked for in so long is forgotten.
const KEPT: Duration = Duration::from_hours(24 * 60);
/// As many are kept at most, on disk and in memory each.
const MOST: usize = 2000;

/// Of what a server has said once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its answer to the handshake.
    pub(crate) initialize: Bytes,
    /// Its lists that have one page, by method.
    pub(crate) lists: BTreeMap<String, Bytes>,
}

type Name = (Fingerprint, Arc<str>);

/// All servers that were ever ready.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// Without one it forgets with its process.
    directory: Option<PathBuf>,
    known: Mutex<HashMap<Name, Option<Arc<Known>>>>,
    /// How many times something was learned.
    edition: AtomicU64,
    changed: Notify,
}

/// What is in a file.
#[derive(Serialize, Deserialize)]
struct Page {
    profile: String,
    initialize: Box<RawValue>,
    lists: BTreeMap<String, Box<RawValue>>,
}

impl Catalog {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        if let Some(directory) = &directory {
            prune(directory, SystemTime::now());
        }
        let (known, edition) = (Mutex::default(), AtomicU64::new(0));
        Self { directory, known, edition, changed: Notify::new() }
    }

    /// What is known of a server with this configuration, as it shows itself to this profile.
    pub(crate) fn known(&self, fingerprint: Fingerprint, profile: &Arc<str>) -> Option<Arc<Known>> {
        self.look_up(&mut self.lock(), &(fingerprint, Arc::clone(profile)))
    }

    /// A server has told something of itself. Whether it is new.
    pub(crate) fn learn(
        &self,
        fingerprint: Fingerprint,
        profile: &Arc<str>,
        change: impl FnOnce(&mut Known),
    ) -> bool {
        let name = (fingerprint, Arc::clone(profile));
        // Held until it is written: two lists of one server may come at the same time.
        let mut all = self.lock();
        let before = self.look_up(&mut all, &name);
        let mut after = before.as_deref().cloned().unwrap_or_default();
        change(&mut after);
        if before.as_deref() == Some(&after) || after.size() > LARGEST {
            return false;
        }
        // What can't be written is asked for again after a restart.
        let _ = self.file(&name).map(|file| write(&file, profile, &after));
        all.insert(name, Some(Arc::new(after)));
        drop(all);
        self.edition.fetch_add(1, Ordering::Release);
        self.changed.notify_waiters();
        true
    }

    fn look_up(
        &self,
        all: &mut HashMap<Name, Option<Arc<Known>>>,
        name: &Name,
    ) -> Option<Arc<Known>> {
        if all.len() >= MOST && !all.contains_key(name) {
            // Whatever is needed is read again.
            all.clear();
        }
        let entry = all.entry(name.clone());
        entry.or_insert_with(|| read(&self.file(name)?, &name.1).map(Arc::new)).clone()
    }

    /// Another number whenever something was learned.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Waits until something was learned after this edition.
    pub(crate) async fn changed_since(&self, edition: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.edition() != edition {
                return;
            }
            changed.await;
        }
    }

    fn file(&self, (fingerprint, profile): &Name) -> Option<PathBuf> {
        let profile = Fingerprint::of_text(profile);
        let directory = self.directory.as_ref()?;
        Some(directory.join(format!("{fingerprint}-{profile}.json")))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Option<Arc<Known>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Added to a method's name: all pages of its list as one.
const ALL_PAGES: &str = "#all";

impl Known {
    /// A list with all its pages.
    pub(crate) fn whole_list(&self, method: &str) -> Option<&Bytes> {
        self.lists.get(method).or_else(|| self.lists.get(&format!("{method}{ALL_PAGES}")))
    }

    /// Takes over a list, whose only page is `result`, or all of whose pages are together in it.
    pub(crate) fn set_list(&mut self, method: &str, result: Bytes, pages: usize) {
        self.lists.retain(|name, _| name.trim_end_matches(ALL_PAGES) != method);
        let suffix = if pages > 1 { ALL_PAGES } else { "" };
        self.lists.insert(format!("{method}{suffix}"), result);
    }

    fn size(&self) -> usize {
        self.initialize.len() + self.lists.values().map(Bytes::len).sum::<usize>()
    }
}

/// Removes what is old, or too much.
fn prune(directory: &Path, now: SystemTime) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let aged = |file: fs::DirEntry| Some((file.metadata().ok()?.modified().ok()?, file.path()));
    let mut files: Vec<(SystemTime, PathBuf)> = files.filter_map(aged).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > KEPT);
    for (index, (time, path)) in files.into_iter().enumerate() {
        if index >= MOST || is_old(&time) {
            // Another gateway may have been faster.
            let _ = fs::remove_file(path);
        }
    }
}

fn read(file: &Path, profile: &str) -> Option<Known> {
    let text = fs::read(file).ok()?;
    // So that what is asked for is not forgotten.
    let _ = fs::File::open(file).and_then(|file| file.set_modified(SystemTime::now()));
    let page: Page = serde_json::from_slice(&text).ok()?;
    let bytes = |raw: Box<RawValue>| Bytes::from(String::from(Box::<str>::from(raw)));
    let lists = page.lists.into_iter().map(|(method, list)| (method, bytes(list))).collect();
    (page.profile == profile).then(|| Known { initialize: bytes(page.initialize), lists })
}

/// Whole or not at all, and for nobody else's eyes.
fn write(file: &Path, profile: &str, known: &Known) -> io::Result<()> {
    let raw = |bytes: &Bytes| {
        let text = String::from_utf8(bytes.to_vec()).map_err(io::Error::other)?;
        RawValue::from_string(text).map_err(io::Error::other)
    };
    let lists = known.lists.iter().map(|(method, list)| Ok((method.clone(), raw(list)?)));
    let page = Page {
        profile: profile.to_owned(),
        initialize: raw(&known.initialize)?,
        lists: lists.collect::<io::Result<_>>()?,
    };
    let directory = file.parent().ok_or(io::ErrorKind::NotFound)?;
    fs::create_dir_all(directory)?;
    let draft = file.with_extension("draft");
    let mut open = fs::OpenOptions::new();
    let mut draft_file = open.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    draft_file.write_all(&serde_json::to_vec(&page)?)?;
    fs::rename(draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(catalog: &Catalog, server: &str) -> bool {
        let profile = Arc::from("");
        catalog.learn(Fingerprint::of_text(server), &profile, |known| {
            known.initialize = Bytes::from_static(b"{}");
        })
    }

    fn knows(catalog: &Catalog, server: &str) -> bool {
        catalog.known(Fingerprint::of_text(server), &Arc::from("")).is_some()
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten_and_the_rest_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Catalog::new(Some(directory.path().to_owned()));
        let catalog = open();
        assert!(learn(&catalog, "old") && learn(&catalog, "asked for") && learn(&catalog, "new"));
        let long_ago = SystemTime::now() - KEPT - Duration::from_hours(1);
        for server in ["old", "asked for"] {
            let file = catalog.file(&(Fingerprint::of_text(server), Arc::from(""))).unwrap();
            fs::File::open(file).unwrap().set_modified(long_ago).unwrap();
        }
        let fresh = Catalog { known: Mutex::default(), ..catalog };
        assert!(knows(&fresh, "asked for"));
        let next = open();
        assert!(knows(&next, "asked for") && knows(&next, "new") && !knows(&next, "old"));
    }

    #[test]
    fn memory_is_bounded_whoever_asks() {
        let catalog = Catalog::new(None);
        assert!(learn(&catalog, "known"));
        for number in 0..2 * MOST {
            assert!(!knows(&catalog, &number.to_string()));
        }
        assert!(catalog.lock().len() <= MOST);
    }
}
