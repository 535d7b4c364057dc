//! Immutable snapshot of the servers that one client may use, and of what the catalog knows about them.
//!
//! Decisions about a request read a snapshot and nothing else, so they take no lock and see one state of the
//! configuration and of the catalog. `Servers` takes another snapshot when one of these has changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::keeper::Sharing;

use crate::catalog::{Found, Known};
use crate::protocol::lists::{field_of, items};
use crate::protocol::message;
use crate::protocol::names::{self, Names};
use crate::server_set::{Availability, ServerSummary};

/// Longest merged instructions, in bytes; servers whose instructions would exceed it are left out.
const LONGEST_INSTRUCTIONS: usize = 256 << 10;

/// The servers of one client, by name.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    servers: BTreeMap<Arc<str>, Arc<ServerView>>,
}

/// One server, as the client may use it and the catalog knows it.
#[derive(Debug)]
pub(super) struct ServerView {
    pub(super) availability: Availability,
    /// Effective sharing: without a named agent, the agent is only this session.
    pub(super) sharing: Sharing,
    /// Catalog entry, as clients like this one see it, or else other clients of the same principal.
    pub(super) found: Option<Found>,
    /// Result of `resources/list` that only this session sees.
    pub(super) own_resources: Option<Bytes>,
    /// Qualified names of its tools and prompts; empty for a client with one server.
    pub(super) tools: Names,
    pub(super) prompts: Names,
}

impl Snapshot {
    pub(super) fn new(servers: BTreeMap<Arc<str>, Arc<ServerView>>) -> Self {
        Self { servers }
    }

    pub(super) fn get(&self, server: &str) -> Option<&Arc<ServerView>> {
        self.servers.get(server)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ServerView>)> {
        self.servers.iter()
    }

    /// The name of a server, if the snapshot has it.
    pub(super) fn name(&self, server: &str) -> Option<&Arc<str>> {
        self.servers.get_key_value(server).map(|(name, _)| name)
    }

    /// Effective sharing of a server.
    pub(super) fn sharing(&self, server: &str) -> Sharing {
        self.get(server).map_or(Sharing::Session, |view| view.sharing)
    }

    /// Servers whose list is unknown.
    pub(super) fn unknown(&self, method: &str) -> Vec<Arc<str>> {
        let unknown = self.iter().filter(|(_, view)| view.whole_list(method).is_none());
        unknown.map(|(server, _)| Arc::clone(server)).collect()
    }

    /// The server that has an item with this qualified name, and the server's own name for it.
    pub(super) fn owner_of(&self, list: &str, name: &str) -> Option<(Arc<str>, String)> {
        let mut servers = self.iter().filter(|(server, _)| names::may_be_of(name, server));
        servers.find_map(|(server, view)| {
            let own = view.names(list)?.theirs(name)?;
            Some((Arc::clone(server), own.to_owned()))
        })
    }

    /// The only server with resources, if the capabilities of all servers are known.
    pub(super) fn only_with_resources(&self) -> Option<&Arc<str>> {
        let mut found = None;
        for (server, view) in self.iter() {
            let known = view.known().filter(|known| !known.initialize.is_empty())?;
            let path = ["capabilities", "resources"];
            if message::find(&known.initialize, 0..known.initialize.len(), &path).is_some()
                && found.replace(server).is_some()
            {
                return None;
            }
        }
        found
    }

    /// Whether a server has a capability, or may have it because its capabilities are unknown.
    pub(super) fn may_have(&self, path: &[&str]) -> bool {
        self.iter().any(|(_, view)| view.has(path) != Some(false))
    }

    /// Whether a server of this session alone is known to have a capability.
    pub(super) fn has_for_itself(&self, path: &[&str]) -> bool {
        let mut own = self.iter().filter(|(_, view)| view.sharing == Sharing::Session);
        own.any(|(_, view)| view.has(path) == Some(true))
    }

    /// Instructions of all known servers, each under its server's name.
    pub(super) fn instructions(&self) -> Option<String> {
        let mut all = String::new();
        for (server, view) in self.iter() {
            let Some(known) = view.known() else { continue };
            let result = std::str::from_utf8(&known.initialize).unwrap_or_default();
            let own = message::text_at(result, &["instructions"]).unwrap_or_default();
            let own = own.trim_end();
            if own.is_empty() || all.len() + own.len() > LONGEST_INSTRUCTIONS {
                continue;
            }
            let gap = if all.is_empty() { "" } else { "\n" };
            let _ = write!(all, "{gap}# {server}\n\n{own}\n");
        }
        (!all.is_empty()).then_some(all)
    }
}

impl ServerView {
    /// The server's settings, if it is available.
    pub(super) fn summary(&self) -> Option<&ServerSummary> {
        self.availability.as_deref().ok()
    }

    pub(super) fn known(&self) -> Option<&Arc<Known>> {
        self.found.as_ref().map(|found| &found.known)
    }

    /// Whether each call has an instance of its own.
    pub(super) fn is_per_call(&self) -> bool {
        self.sharing == Sharing::Call
    }

    /// Whether the configuration allows a tool.
    pub(super) fn permits(&self, tool: impl FnOnce() -> Option<String>) -> bool {
        let Some(summary) = self.summary() else { return true };
        summary.tools.is_everything() || tool().is_some_and(|name| summary.tools.permit(&name))
    }

    /// Result of a list, without tools that the configuration denies.
    pub(super) fn filter(&self, method: &str, result: Bytes) -> Bytes {
        match self.summary() {
            Some(summary) => summary.tools.filter(method, result),
            None => result,
        }
    }

    /// Whether a list is for this session only: the resources of an exclusive instance.
    pub(super) fn is_own_list(&self, method: &str) -> bool {
        let is_exclusive = matches!(self.sharing, Sharing::Session | Sharing::Call);
        is_exclusive && method == "resources/list"
    }

    /// The whole list, which is empty if the server lacks the capability; `None` if unknown.
    pub(super) fn whole_list(&self, method: &str) -> Option<Bytes> {
        let own = self.own_resources.as_ref().filter(|_| self.is_own_list(method));
        own.cloned().or_else(|| self.known()?.whole_list(method))
    }

    /// The whole list, without tools that the configuration denies.
    pub(super) fn list(&self, method: &str) -> Option<Bytes> {
        Some(self.filter(method, self.whole_list(method)?))
    }

    /// Whether the server needs a listing to answer this list. Resources of the session's own instance are fetched
    /// with a lease of the session, so there any catalog entry is enough.
    pub(super) fn needs_listing(&self, method: &str) -> bool {
        if self.is_own_list(method) {
            return self.found.is_none();
        }
        self.whole_list(method).is_none()
    }

    /// Whether the catalog has the server only as clients with other capabilities see it.
    pub(super) fn is_of_others(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.is_of_others)
    }

    /// Whether the server has a capability; `None` if unknown.
    fn has(&self, path: &[&str]) -> Option<bool> {
        if self.availability.is_err() {
            return Some(false);
        }
        let result = &self.known().filter(|known| !known.initialize.is_empty())?.initialize;
        let path: Vec<&str> = std::iter::once("capabilities").chain(path.iter().copied()).collect();
        let found = message::find(result, 0..result.len(), &path);
        Some(found.is_some_and(|edges| !matches!(&result[edges], b"false" | b"null")))
    }

    /// Qualified names of the items of a list.
    pub(super) fn names(&self, list: &str) -> Option<&Names> {
        match list {
            "tools/list" => Some(&self.tools),
            "prompts/list" => Some(&self.prompts),
            _ => None,
        }
    }

    /// Values under `key` in the items of a list.
    pub(super) fn texts(&self, method: &str, key: &str) -> Vec<String> {
        let list = self.list(method).unwrap_or_default();
        let items = items(&list, field_of(method));
        items.iter().filter_map(|item| message::text_at(item.get(), &[key])).collect()
    }

    /// Resources that the server's tools are displayed with (MCP Apps). The server need not list them anywhere else.
    pub(super) fn tool_resources(&self) -> Vec<String> {
        let list = self.list("tools/list").unwrap_or_default();
        let items = items(&list, "tools");
        items.iter().flat_map(|item| resources_of(item.get())).map(|(_, uri)| uri).collect()
    }
}

/// URI of the resource that a tool is displayed with (MCP Apps), in both notations, and its position.
pub(super) fn resources_of(tool: &str) -> Vec<(Range<usize>, String)> {
    let paths: [&[&str]; 2] = [&["_meta", "ui", "resourceUri"], &["_meta", "ui/resourceUri"]];
    let found = paths.iter().filter_map(|path| {
        let edges = message::find(tool.as_bytes(), 0..tool.len(), path)?;
        Some((edges.clone(), serde_json::from_str(&tool[edges]).ok()?))
    });
    found.collect()
}
