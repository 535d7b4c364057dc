//! What one server has said of itself.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::protocol::message;

/// What a server has said of itself once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its answer to the handshake.
    pub(crate) initialize: Bytes,
    /// Its lists that have one page, by method.
    pub(crate) lists: BTreeMap<String, Bytes>,
}

/// Added to a method's name: all pages of its list as one.
const ALL_PAGES: &str = "#all";

impl Known {
    /// A list with all its pages; an empty one if the server has none of the kind.
    pub(crate) fn whole_list(&self, method: &str) -> Option<Bytes> {
        let list = self.lists.get(method);
        let list = list.or_else(|| self.lists.get(&format!("{method}{ALL_PAGES}")));
        let is_none = !self.initialize.is_empty() && !self.offers(method);
        list.cloned().or_else(|| is_none.then(|| Bytes::from_static(b"{}")))
    }

    /// Takes over a list, whose only page is `result`, or all of whose pages are together in it.
    pub(crate) fn set_list(&mut self, method: &str, result: Bytes, pages: usize) {
        self.lists.retain(|name, _| name.trim_end_matches(ALL_PAGES) != method);
        let suffix = if pages > 1 { ALL_PAGES } else { "" };
        self.lists.insert(format!("{method}{suffix}"), result);
    }

    /// Takes over an answer to the handshake. Lists of what it does not offer any more are forgotten.
    pub(crate) fn set_initialize(&mut self, result: Bytes) {
        self.initialize = result;
        let mut lists = std::mem::take(&mut self.lists);
        lists.retain(|method, _| self.offers(method));
        self.lists = lists;
    }

    /// Whether the server has declared what this list is of.
    fn offers(&self, method: &str) -> bool {
        let capability = method.split('/').next().unwrap_or_default();
        let path = ["capabilities", capability];
        message::find(&self.initialize, 0..self.initialize.len(), &path).is_some()
    }

    pub(super) fn size(&self) -> usize {
        self.initialize.len() + self.lists.values().map(Bytes::len).sum::<usize>()
    }
}
