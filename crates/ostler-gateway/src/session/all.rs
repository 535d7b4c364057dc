//! All servers as one: merged lists, and names that identify the server.
//!
//! Items of a merged list have names and URIs that are unique among all servers. Requests are forwarded to the server
//! that such a name or URI belongs to, with the server's own name or URI in its place.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ostler::keeper::Sharing;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Session;
use super::aggregate::{Path, Wants};
use super::parcel::Parcel;
use crate::mutex::lock;
use crate::protocol::lists::LISTS;
use crate::protocol::message::{self, code};
use crate::protocol::terms;
use crate::protocol::uris::{self, Style};

/// Reason in merged lists for the resources of a server with `share: call`.
const NO_INSTANCE: &str = "each call has an instance of its own, so none can list its resources";

impl Session {
    pub(super) fn request_of_all(&mut self, parcel: Parcel, id: &Bytes) {
        let frame = &parcel.frame;
        let method = frame.method();
        if let Some((list, _)) = LISTS.iter().find(|(list, _)| list.as_bytes() == method) {
            if message::param(frame, &["cursor"]).is_some() {
                // A merged list has one page.
                return self.client.fail(id, code::INVALID_PARAMS, "no such page", None);
            }
            return self.aggregate(list, id, Wants::List);
        }
        match method {
            b"tools/call" => self.forward_named(parcel, "tools/list", &["name"]),
            b"prompts/get" => self.forward_named(parcel, "prompts/list", &["name"]),
            b"completion/complete" if message::param(frame, &["ref", "name"]).is_some() => {
                self.forward_named(parcel, "prompts/list", &["ref", "name"]);
            }
            b"completion/complete" => self.forward_resource(parcel, &["ref", "uri"]),
            b"resources/read" | b"resources/subscribe" | b"resources/unsubscribe" => {
                self.forward_resource(parcel, &["uri"]);
            }
            b"tasks/get" | b"tasks/result" | b"tasks/cancel" => self.forward_task(parcel, id),
            _ => self.client.fail(id, code::METHOD_NOT_FOUND, "no such method", None),
        }
    }

    /// Servers whose list is unknown.
    pub(super) fn unknown(&self, method: &str) -> Vec<Arc<str>> {
        let mut servers = self.server_set.names();
        servers.retain(|server| self.whole_list(server, method).is_none());
        servers
    }

    /// Whether a server needs a listing to answer this list. Resources of the session's own instance are fetched with
    /// a lease of the session, so there any catalog entry is enough.
    pub(super) fn needs_listing(&self, server: &Arc<str>, method: &str) -> bool {
        if self.is_own_list(server, method) {
            return self.found(server).is_none();
        }
        self.whole_list(server, method).is_none()
    }

    /// Whether a list is for this session only: the resources of an exclusive instance.
    pub(super) fn is_own_list(&self, server: &str, method: &str) -> bool {
        let is_exclusive = matches!(self.shares(server), Sharing::Session | Sharing::Call);
        is_exclusive && method == "resources/list"
    }

    /// A server's whole list, without tools that the configuration denies.
    fn list_of(&self, server: &Arc<str>, method: &str) -> Option<Bytes> {
        let list = self.whole_list(server, method)?;
        Some(self.server_set.tools(server).filter(method, list))
    }

    /// A server's whole list, which is empty if the server lacks the capability; `None` if unknown.
    pub(super) fn whole_list(&self, server: &Arc<str>, method: &str) -> Option<Bytes> {
        let own = || self.own_list(server, method);
        if self.is_own_list(server, method)
            && let Some(list) = own()
        {
            return Some(list);
        }
        self.found(server)?.known.whole_list(method)
    }

    /// List of this session's own instance, for this session only.
    pub(super) fn own_list(&self, server: &str, method: &str) -> Option<Bytes> {
        let session = self.scope.who().session;
        self.upstreams.own_list(&self.server_set.id(server)?, session, method)
    }

    /// Values under `key` in the items of a server's list.
    pub(super) fn texts(&self, server: &Arc<str>, method: &str, key: &str) -> Vec<String> {
        let list = self.list_of(server, method).unwrap_or_default();
        let items = each(&list, field_of(method));
        items.iter().filter_map(|item| message::text_at(item.get(), &[key])).collect()
    }

    /// Resources that a server's tools are displayed with (MCP Apps). The server need not list them anywhere else.
    pub(super) fn links(&self, server: &Arc<str>) -> Vec<String> {
        let list = self.list_of(server, "tools/list").unwrap_or_default();
        let items = each(&list, "tools");
        items.iter().flat_map(|item| links_of(item.get())).map(|(_, uri)| uri).collect()
    }

    pub(super) fn put_together(&mut self, method: &'static str) -> String {
        let field = field_of(method);
        self.index();
        let mut items = Vec::new();
        let mut missing = Map::new();
        for server in self.server_set.names() {
            if let Some(list) = self.list_of(&server, method) {
                let own = each(&list, field);
                items.extend(own.iter().filter_map(|item| self.shown(item.get(), &server, method)));
            } else {
                let failure = self.failures.get(&server).cloned();
                let failure = self.why_unlisted(&server).or(failure);
                let is_own = self.is_own_list(&server, method);
                let usual = if is_own { NO_INSTANCE } else { "it is being started" };
                let reason = failure.map_or_else(|| usual.into(), |failure| failure.text);
                missing.insert(server.to_string(), Value::from(reason));
            }
        }
        let list = format!(r#""{field}":[{}]"#, items.join(","));
        if missing.is_empty() {
            return format!("{{{list}}}");
        }
        format!(r#"{{{list},"_meta":{{"ostler/unavailable":{}}}}}"#, Value::from(missing))
    }

    /// An item of a server's list with the client's name or URI for it. `None` if it has none, or an ambiguous one.
    fn shown(&self, item: &str, server: &Arc<str>, method: &str) -> Option<String> {
        let uri_owners = lock(&self.uri_owners);
        let is_own = |uri: &str| uri_owners.owner(uri) == Some(server);
        let key = match method {
            "resources/list" => "uri",
            "resources/templates/list" => "uriTemplate",
            _ => "name",
        };
        let edges = message::find(item.as_bytes(), 0..item.len(), &[key])?;
        let own: String = serde_json::from_str(&item[edges.clone()]).ok()?;
        let ours = match key {
            "name" => Some(self.index.ours(server, method, &own)?.to_owned()),
            "uri" => (!is_own(&own)).then(|| uris::qualify(server, &own)),
            _ => {
                let is_own = uri_owners.owns_template(server, &own);
                (!is_own).then(|| uris::qualify(server, &own))
            }
        };
        let mut edits: Vec<(Range<usize>, String)> =
            ours.map(|ours| (edges, ours)).into_iter().collect();
        if method == "tools/list" {
            let foreign = links_of(item).into_iter().filter(|(_, uri)| !is_own(uri));
            edits.extend(foreign.map(|(edges, uri)| (edges, uris::qualify(server, &uri))));
        }
        let edits = edits.into_iter().map(|(edges, text)| (edges, json_text(&text))).collect();
        let line = message::splice(item.as_bytes(), edits);
        String::from_utf8(line[..line.len() - 1].to_vec()).ok()
    }

    /// Forwards a request to the server whose item it names. If no server is known to have the item, waits for the
    /// lists of those that may have it.
    fn forward_named(&mut self, parcel: Parcel, list: &'static str, path: Path) {
        let name = message::text_param(&parcel.frame, path).unwrap_or_default();
        let id = parcel.id();
        if let Some(parcel) = self.forward_known(parcel, list, path, &name) {
            self.aggregate(list, &id, Wants::Named(Box::new(parcel), path, name));
        }
    }

    /// Forwards a request to the server that is known to have the item. Returns the request if there is none.
    pub(super) fn forward_known(
        &mut self,
        mut parcel: Parcel,
        list: &'static str,
        path: Path,
        name: &str,
    ) -> Option<Parcel> {
        let Some((server, own)) = self.index().theirs(list, name) else { return Some(parcel) };
        if terms::is_withheld(|| self.shares(&server), &parcel.frame, &parcel.found) {
            let text = format!("{server} does not offer that while it is shared");
            self.client.fail(&parcel.id(), code::METHOD_NOT_FOUND, &text, Some("withheld"));
            return None;
        }
        let edges = message::param(&parcel.frame, path);
        parcel.edits.extend(edges.map(|edges| (edges, json_text(&own))));
        parcel.task_of = parcel.found.has_task.then(|| Arc::clone(&server));
        self.forward(&server, parcel);
        None
    }

    /// Forwards a request about a task to the server that runs it.
    fn forward_task(&mut self, parcel: Parcel, id: &Bytes) {
        let task = message::text_param(&parcel.frame, &["taskId"]);
        match task.and_then(|task| self.client.tasks().get(&task)) {
            Some(server) => self.forward(&server, parcel),
            None => self.client.fail(id, code::INVALID_PARAMS, "no such task", None),
        }
    }

    fn forward_resource(&mut self, mut parcel: Parcel, path: &[&str]) {
        let id = parcel.id();
        let Some(uri) = message::text_param(&parcel.frame, path) else {
            return self.client.fail(&id, code::INVALID_PARAMS, "which resource?", None);
        };
        let Some((server, own)) = self.server_of(&uri) else {
            let text = format!("no server is known to have {uri}");
            return self.client.fail(&id, code::INVALID_PARAMS, &text, None);
        };
        if terms::is_withheld(|| self.shares(&server), &parcel.frame, &parcel.found) {
            let text = format!("{server} is not there between two calls");
            return self.client.fail(&id, code::METHOD_NOT_FOUND, &text, Some("withheld"));
        }
        let is_qualified = own != uri;
        if is_qualified {
            let edges = message::param(&parcel.frame, path);
            parcel.edits.extend(edges.map(|edges| (edges, json_text(&own))));
        }
        let prefix = Some(uris::prefix(&server).into());
        let subject = ((Arc::clone(&server), own), Style { prefix, is_qualified });
        parcel.subject = Some(Box::new(subject));
        self.deliver(&server, parcel);
    }

    /// The server of a resource, and its own URI for it: from a qualified URI, else the recorded owner, else the only
    /// server with resources.
    fn server_of(&mut self, uri: &str) -> Option<(Arc<str>, String)> {
        self.index();
        if uris::is_qualified(uri) {
            let (server, own) = uris::split(uri)?;
            let server = self.server_set.names().into_iter().find(|name| **name == *server)?;
            return Some((server, own.to_owned()));
        }
        let owner = lock(&self.uri_owners).owner(uri).cloned();
        let owner = owner.filter(|owner| self.server_set.names().contains(owner));
        let server = owner.or_else(|| self.index.only_with_resources().cloned())?;
        Some((server, uri.to_owned()))
    }
}

/// Field of a list's result that has the items.
pub(crate) fn field_of(method: &str) -> &'static str {
    match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        _ => "resourceTemplates",
    }
}

/// Items of a list.
pub(crate) fn each<'a>(list: &'a [u8], field: &str) -> Vec<&'a RawValue> {
    let edges = message::find(list, 0..list.len(), &[field]);
    edges.and_then(|edges| serde_json::from_slice(&list[edges]).ok()).unwrap_or_default()
}

/// URI of the resource that a tool is displayed with (MCP Apps), in both notations, and its position.
fn links_of(tool: &str) -> Vec<(Range<usize>, String)> {
    let paths: [&[&str]; 2] = [&["_meta", "ui", "resourceUri"], &["_meta", "ui/resourceUri"]];
    let found = paths.iter().filter_map(|path| {
        let edges = message::find(tool.as_bytes(), 0..tool.len(), path)?;
        Some((edges.clone(), serde_json::from_str(&tool[edges]).ok()?))
    });
    found.collect()
}

fn json_text(text: &str) -> Bytes {
    Value::from(text).to_string().into()
}
