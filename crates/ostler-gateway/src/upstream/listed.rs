//! What an instance has listed, and for whom the catalog keeps it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Upstream;
use crate::catalog::{Catalog, Name, Subject};
use crate::mutex::lock;

/// What one instance has listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    lists: BTreeMap<&'static str, List>,
    /// The places in the catalog that it is kept at: one for each principal that has used the instance.
    names: BTreeSet<Name>,
}

#[derive(Clone, Debug)]
struct List {
    result: Bytes,
    pages: usize,
}

impl Upstream {
    /// Keeps what the instance says of itself at this place of the catalog, from its handshake on.
    pub(crate) fn describe_as(&self, name: &Name, catalog: &Catalog) {
        let mut listed = lock(&self.listed);
        if !listed.names.insert(name.clone()) {
            return;
        }
        // Held meanwhile: a list that comes now is learned after these.
        catalog.learn(name, |known| {
            known.set_initialize(self.initialize.clone());
            for (method, list) in &listed.lists {
                if !self.keeps_to_itself(method) {
                    known.set_list(method, list.result.clone(), list.pages);
                }
            }
        });
    }

    /// The instance has listed something. Returns the places in the catalog that had another list before.
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

    /// Whose server it is, for each principal that has used it.
    pub(crate) fn subjects(&self) -> BTreeSet<Subject> {
        lock(&self.listed).names.iter().map(|name| name.subject.clone()).collect()
    }

    /// A list that only the session of this instance may see.
    pub(crate) fn own_list(&self, method: &str) -> Option<Bytes> {
        lock(&self.listed).lists.get(method).map(|list| list.result.clone())
    }

    /// Whether a list stays with the instance: the resources of one session are no other's to see.
    fn keeps_to_itself(&self, method: &str) -> bool {
        self.is_exclusive() && method == "resources/list"
    }
}
