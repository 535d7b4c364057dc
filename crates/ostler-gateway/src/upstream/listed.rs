//! Lists of an instance, and the catalog entries that have them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Upstream;
use crate::catalog::{Catalog, Name, Subject};
use crate::mutex::lock;

/// Lists of one instance.
#[derive(Debug, Default)]
pub(super) struct Listed {
    lists: BTreeMap<&'static str, List>,
    /// Names of the instance's catalog entries: one for each principal that has used the instance.
    names: BTreeSet<Name>,
}

#[derive(Clone, Debug)]
struct List {
    result: Bytes,
    pages: usize,
}

impl Upstream {
    /// Adds a catalog entry for the instance, with its handshake and its lists; later lists update the entry.
    pub(crate) fn describe_as(&self, name: &Name, catalog: &Catalog) {
        let mut listed = lock(&self.listed);
        if !listed.names.insert(name.clone()) {
            return;
        }
        // `listed` stays locked, so that a newer list reaches the catalog after these.
        catalog.learn(name, |known| {
            known.set_initialize(self.initialize.clone());
            for (method, list) in &listed.lists {
                if !self.keeps_to_itself(method) {
                    known.set_list(method, list.result.clone(), list.pages);
                }
            }
        });
    }

    /// Stores a list of the instance. Returns the names of catalog entries that had another list before.
    pub(crate) fn set_list(
        &self,
        method: &'static str,
        (result, pages): (Bytes, usize),
        catalog: &Catalog,
    ) -> Vec<Name> {
        let mut listed = lock(&self.listed);
        let list = List { result: result.clone(), pages };
        let before = listed.lists.insert(method, list);
        if self.keeps_to_itself(method) {
            catalog.announce();
            let is_new = before.is_some_and(|before| before.result != result);
            return listed.names.iter().filter(|_| is_new).cloned().collect();
        }
        let had_another = |name: &&Name| {
            let before = catalog.find(name).and_then(|found| found.known.whole_list(method));
            let is_new = catalog.learn(name, |known| known.set_list(method, result.clone(), pages));
            is_new && before.is_some_and(|before| before != result)
        };
        listed.names.iter().filter(had_another).cloned().collect()
    }

    /// Catalog subjects of the server, one for each principal that has used the instance.
    pub(crate) fn subjects(&self) -> BTreeSet<Subject> {
        lock(&self.listed).names.iter().map(|name| name.subject.clone()).collect()
    }

    /// A list of the instance, for its session only.
    pub(crate) fn own_list(&self, method: &str) -> Option<Bytes> {
        lock(&self.listed).lists.get(method).map(|list| list.result.clone())
    }

    /// Whether the instance has lists that only its session sees.
    pub(crate) fn has_own_lists(&self) -> bool {
        lock(&self.listed).lists.keys().any(|method| self.keeps_to_itself(method))
    }

    /// Whether the catalog must not have a list: the resources of an exclusive instance are for its session only.
    fn keeps_to_itself(&self, method: &str) -> bool {
        self.is_exclusive() && method == "resources/list"
    }
}
