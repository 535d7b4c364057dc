//! What one server reported about itself.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::protocol::message;

/// Results of a server that the catalog keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Result of `initialize`.
    pub(crate) initialize: Bytes,
    /// Results of list methods, by method; a list that came in several pages has the suffix `#all`.
    pub(crate) lists: BTreeMap<String, Bytes>,
}

/// Suffix of a method's key for a list whose pages were merged.
const ALL_PAGES: &str = "#all";

impl Known {
    /// The complete list; an empty result if the server did not declare the capability.
    pub(crate) fn whole_list(&self, method: &str) -> Option<Bytes> {
        let list = self.lists.get(method);
        let list = list.or_else(|| self.lists.get(&format!("{method}{ALL_PAGES}")));
        let is_none = !self.initialize.is_empty() && !self.offers(method);
        list.cloned().or_else(|| is_none.then(|| Bytes::from_static(b"{}")))
    }

    /// Stores a list: its only page, or all `pages` merged in `result`.
    pub(crate) fn set_list(&mut self, method: &str, result: Bytes, pages: usize) {
        self.lists.retain(|name, _| name.trim_end_matches(ALL_PAGES) != method);
        let suffix = if pages > 1 { ALL_PAGES } else { "" };
        self.lists.insert(format!("{method}{suffix}"), result);
    }

    /// Stores a result of `initialize`. Lists of capabilities that the server no longer declares are dropped.
    pub(crate) fn set_initialize(&mut self, result: Bytes) {
        self.initialize = result;
        let mut lists = std::mem::take(&mut self.lists);
        lists.retain(|method, _| self.offers(method));
        self.lists = lists;
    }

    /// Whether the server declared the capability that this method belongs to.
    fn offers(&self, method: &str) -> bool {
        let capability = method.split('/').next().unwrap_or_default();
        let path = ["capabilities", capability];
        message::find(&self.initialize, 0..self.initialize.len(), &path).is_some()
    }

    pub(super) fn size(&self) -> usize {
        self.initialize.len() + self.lists.values().map(Bytes::len).sum::<usize>()
    }
}
