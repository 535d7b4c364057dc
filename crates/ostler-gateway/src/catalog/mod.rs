//! Catalog: what servers listed, kept on disk, so that clients are answered without starting a server.
//!
//! An [`Entry`] belongs to one principal and one identity of a server (a hash of what its configuration entry sets). A
//! server may list other tools to clients with other capabilities or in another directory, so an entry holds several
//! [`View`]s. A client without a view of its own gets one of the same capabilities, or else the one that was learned
//! last.
//!
//! Entries are loaded on first use and written through on every change. `edition` counts changes; sessions that wait
//! for a list use `changed_since`.

mod files;
mod known;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ostler::keeper::{Fingerprint, Principal};
use tokio::sync::Notify;

use self::files::Files;
pub(crate) use self::known::Known;

/// Largest entry, in bytes. Results of a server that exceed it are not kept, so that the server is asked each time.
pub(crate) const LARGEST: usize = 16 << 20;

/// Most entries, both on disk and in memory.
const MOST: usize = 2000;
/// Most views of one entry; the one learned first is dropped first.
const MOST_VIEWS: usize = 64;

/// Key of an entry: the principal, and the identity of its server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Subject {
    pub(crate) principal: Principal,
    pub(crate) identity: Fingerprint,
}

/// Key of a view: the clients that get the same lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct View {
    /// Capabilities that these clients declared.
    pub(crate) profile: Arc<str>,
    /// The client's directory, if the server runs there.
    pub(crate) directory: Option<Arc<Path>>,
}

/// Full key of what a server listed for one client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) subject: Subject,
    pub(crate) view: View,
}

/// Result of a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) known: Arc<Known>,
    /// Whether the server listed this for clients with other capabilities.
    pub(crate) is_of_others: bool,
}

/// What is known of one server.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Views, the most recently learned first.
    views: Vec<(View, Arc<Known>)>,
    /// Whether the server sent a request that could have been meant for several sessions, so that its instances serve
    /// one calling session at a time.
    has_one_caller: bool,
}

type Entries = HashMap<Subject, Entry>;

/// Everything that servers have listed.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// Files of the entries; `None` keeps them in memory only.
    files: Option<Files>,
    entries: Mutex<Entries>,
    /// Number of changes.
    edition: AtomicU64,
    changed: Notify,
}

impl Entry {
    fn get(&self, view: &View) -> Option<&Arc<Known>> {
        self.views.iter().find(|(one, _)| one == view).map(|(_, known)| known)
    }

    /// Finds this view, else one of the same profile, else the most recently learned one.
    fn find(&self, view: &View) -> Option<Found> {
        let of_profile = || self.views.iter().find(|(one, _)| one.profile == view.profile);
        let same = self.get(view).or_else(|| of_profile().map(|(_, known)| known));
        let known = same.or_else(|| self.views.first().map(|(_, known)| known))?;
        Some(Found { known: Arc::clone(known), is_of_others: same.is_none() })
    }

    /// Stores a view as the most recent one, and drops the oldest views beyond the limits.
    fn set(&mut self, view: View, known: Known) {
        self.views.retain(|(one, _)| *one != view);
        self.views.insert(0, (view, Arc::new(known)));
        self.views.truncate(MOST_VIEWS);
        let mut size = 0;
        let sizes = self.views.iter().map(|(_, known)| known.size());
        let kept = sizes.take_while(|one| {
            size += one;
            size <= LARGEST
        });
        let kept = kept.count();
        self.views.truncate(kept);
    }
}

impl Catalog {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        let files = directory.map(Files::open);
        let (entries, edition) = (Mutex::default(), AtomicU64::new(0));
        Self { files, entries, edition, changed: Notify::new() }
    }

    /// A catalog that reads files of this directory and deletes none.
    pub(crate) fn reading(directory: Option<PathBuf>) -> Self {
        Self { files: directory.map(Files::reading), ..Self::new(None) }
    }

    /// Finds what a server listed for this principal.
    pub(crate) fn find(&self, name: &Name) -> Option<Found> {
        self.entry(&mut self.lock(), &name.subject).find(&name.view)
    }

    /// Updates what a server listed. Returns whether anything changed.
    pub(crate) fn learn(&self, name: &Name, change: impl FnOnce(&mut Known)) -> bool {
        // The lock is held until the file is written: two lists of one server may arrive at the same time.
        let mut entries = self.lock();
        let entry = self.entry(&mut entries, &name.subject);
        let is_there = entry.get(&name.view).is_some();
        let before = entry.find(&name.view).map(|found| found.known);
        // A new view starts as a copy of the closest known one, and its lists are replaced one by one.
        let mut after = before.as_deref().cloned().unwrap_or_default();
        change(&mut after);
        if is_there && before.as_deref() == Some(&after) || after.size() > LARGEST {
            return false;
        }
        entry.set(name.view.clone(), after);
        if let Some(files) = &self.files {
            files.write(&name.subject, entry);
        }
        drop(entries);
        self.announce();
        true
    }

    /// Limits the instances of a server to one calling session at a time from now on.
    pub(crate) fn set_one_caller(&self, subject: &Subject) {
        let mut entries = self.lock();
        let entry = self.entry(&mut entries, subject);
        let is_known = std::mem::replace(&mut entry.has_one_caller, true);
        if let Some(files) = self.files.as_ref().filter(|_| !is_known) {
            files.write(subject, entry);
        }
    }

    /// Whether the instances of a server serve one calling session at a time.
    pub(crate) fn has_one_caller(&self, subject: &Subject) -> bool {
        self.entry(&mut self.lock(), subject).has_one_caller
    }

    /// Wakes sessions that wait for a list: it is known now, or will not be.
    pub(crate) fn announce(&self) {
        self.edition.fetch_add(1, Ordering::Release);
        self.changed.notify_waiters();
    }

    fn entry<'a>(&self, entries: &'a mut Entries, subject: &Subject) -> &'a mut Entry {
        if entries.len() >= MOST && !entries.contains_key(subject) {
            // Entries that are still needed are read again from disk.
            entries.clear();
        }
        let read = || self.files.as_ref().and_then(|files| files.read(subject)).unwrap_or_default();
        entries.entry(subject.clone()).or_insert_with(read)
    }

    /// Number that changes whenever something was learned.
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

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    pub(super) fn name(principal: &str, server: &str, profile: &str, directory: &str) -> Name {
        let identity = Fingerprint::of_text(server);
        let subject = Subject { principal: Principal::named(principal), identity };
        let view = View { profile: profile.into(), directory: Some(Path::new(directory).into()) };
        Name { subject, view }
    }

    pub(super) fn learn(catalog: &Catalog, name: &Name, tools: &str) -> bool {
        let initialize = Bytes::from_static(br#"{"capabilities":{"tools":{}}}"#);
        catalog.learn(name, |known| {
            known.set_initialize(initialize);
            known.set_list("tools/list", Bytes::copy_from_slice(tools.as_bytes()), 1);
        })
    }

    fn tools(catalog: &Catalog, name: &Name) -> Option<(String, bool)> {
        let found = catalog.find(name)?;
        let list = found.known.whole_list("tools/list")?;
        Some((String::from_utf8(list.to_vec()).unwrap(), found.is_of_others))
    }

    #[test]
    fn a_client_sees_its_own_view_else_one_of_its_profile_else_the_last_one() {
        let catalog = Catalog::new(None);
        let plain = name("ann", "git", "plain", "/a");
        assert!(learn(&catalog, &plain, "[1]"));
        assert!(learn(&catalog, &name("ann", "git", "rich", "/a"), "[1,2]"));
        assert_eq!(tools(&catalog, &plain), Some(("[1]".into(), false)));
        let elsewhere = name("ann", "git", "plain", "/b");
        assert_eq!(tools(&catalog, &elsewhere), Some(("[1]".into(), false)));
        let other = name("ann", "git", "other", "/a");
        assert_eq!(tools(&catalog, &other), Some(("[1,2]".into(), true)));
    }

    #[test]
    fn nothing_crosses_from_one_principal_to_another() {
        let catalog = Catalog::new(None);
        assert!(learn(&catalog, &name("ann", "git", "", "/"), "[1]"));
        assert_eq!(tools(&catalog, &name("bob", "git", "", "/")), None);
    }

    #[test]
    fn an_entry_is_bounded_in_views_and_bytes() {
        let catalog = Catalog::new(None);
        for number in 0..10 * MOST_VIEWS {
            assert!(learn(&catalog, &name("ann", "git", &number.to_string(), "/"), "[]"));
        }
        let subject = name("ann", "git", "", "/").subject;
        assert_eq!(catalog.lock()[&subject].views.len(), MOST_VIEWS);
        let large = format!("\"{}\"", "x".repeat(LARGEST / 2));
        for profile in ["a", "b", "c"] {
            assert!(learn(&catalog, &name("ann", "git", profile, "/"), &large));
        }
        assert_eq!(catalog.lock()[&subject].views.len(), 1);
    }

    #[test]
    fn lookups_of_unknown_servers_take_bounded_memory() {
        let catalog = Catalog::new(None);
        assert!(learn(&catalog, &name("ann", "known", "", "/"), "[]"));
        for number in 0..2 * MOST {
            assert_eq!(tools(&catalog, &name("ann", &number.to_string(), "", "/")), None);
        }
        assert!(catalog.lock().len() <= MOST);
    }
}
