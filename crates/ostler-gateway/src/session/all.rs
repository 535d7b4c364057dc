//! All servers as one: lists put together, and names that say which server is meant.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ostler::Frame;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::gather::{Path, Wants};
use super::reach::Parcel;
use super::{Session, version_of};
use crate::hub::LISTS;
use crate::message::{self, code};
use crate::names::Names;
use crate::terms;

impl Session {
    pub(super) fn welcome_to_all(&self, id: &Bytes) {
        let result = json!({
            "protocolVersion": version_of(&self.client),
            "capabilities": {
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "listChanged": true, "subscribe": true },
                "logging": {},
                "completions": {},
            },
            "serverInfo": { "name": "ostler", "version": env!("CARGO_PKG_VERSION") },
        });
        self.client.reply(id, message::answer(id, result.to_string().as_bytes()));
    }

    pub(super) fn request_of_all(&mut self, frame: Frame, id: &Bytes) {
        let method = frame.method();
        if let Some((list, _)) = LISTS.iter().find(|(list, _)| list.as_bytes() == method) {
            if message::param(&frame, &["cursor"]).is_some() {
                // A list of all servers has one page.
                return self.client.fail(id, code::INVALID_PARAMS, "no such page", None);
            }
            return self.gather(list, id, Wants::List);
        }
        match method {
            b"tools/call" => self.forward_named(frame, "tools/list", &["name"]),
            b"prompts/get" => self.forward_named(frame, "prompts/list", &["name"]),
            b"completion/complete" if message::param(&frame, &["ref", "name"]).is_some() => {
                self.forward_named(frame, "prompts/list", &["ref", "name"]);
            }
            b"completion/complete" => self.forward_resource(frame, &["ref", "uri"]),
            b"resources/read" | b"resources/subscribe" | b"resources/unsubscribe" => {
                self.forward_resource(frame, &["uri"]);
            }
            _ => self.client.fail(id, code::METHOD_NOT_FOUND, "no such method", None),
        }
    }

    /// The servers of which it is not known what they have.
    pub(super) fn unknown(&self, method: &str) -> Vec<Arc<str>> {
        let mut servers = self.menu.names();
        servers.retain(|server| self.list_of(server, method).is_none());
        servers
    }

    /// A server's whole list; an empty one if it has none of the kind.
    fn list_of(&self, server: &Arc<str>, method: &str) -> Option<Bytes> {
        let known = self.known(server)?;
        if let Some(list) = known.whole_list(method) {
            return Some(self.menu.tools(server).filter(method, list.clone()));
        }
        let capability = method.split('/').next().unwrap_or_default();
        let initialize = &known.initialize;
        let path = ["capabilities", capability];
        let has = message::find(initialize, 0..initialize.len(), &path).is_some();
        (!has && !initialize.is_empty()).then(|| Bytes::from_static(b"{}"))
    }

    pub(super) fn put_together(&mut self, method: &'static str) -> String {
        let field = field_of(method);
        let names = self.names(method);
        let mut items = Vec::new();
        let mut missing = Map::new();
        for server in self.menu.names() {
            if let Some(list) = self.list_of(&server, method) {
                let own = each(&list, field);
                items.extend(own.iter().map(|item| renamed(item, &server, &names, method)));
            } else {
                let reason = self.failures.get(&server).cloned();
                let reason = reason.unwrap_or_else(|| "it is being started".into());
                missing.insert(server.to_string(), Value::from(reason));
            }
        }
        let list = format!(r#""{field}":[{}]"#, items.join(","));
        if missing.is_empty() {
            return format!("{{{list}}}");
        }
        format!(r#"{{{list},"_meta":{{"ostler/unavailable":{}}}}}"#, Value::from(missing))
    }

    /// The names of a list: made again only if something may have changed since.
    fn names(&mut self, method: &'static str) -> Arc<Names> {
        let edition = (self.gateway.hub().catalog.edition(), self.menu.edition());
        if let Some((of, names)) = self.names.get(method)
            && *of == edition
        {
            return Arc::clone(names);
        }
        let names = Arc::new(self.name_all(method));
        self.names.insert(method, (edition, Arc::clone(&names)));
        names
    }

    fn name_all(&self, method: &str) -> Names {
        let mut things = BTreeSet::new();
        for server in self.menu.names() {
            let list = self.list_of(&server, method).unwrap_or_default();
            for item in each(&list, field_of(method)) {
                if let Some(name) = name_of(item) {
                    things.insert((Arc::clone(&server), name));
                }
            }
        }
        Names::of(things)
    }

    /// Brings a request to the server whose thing it names. If nobody is known to have it, those who may
    /// have it are asked first.
    fn forward_named(&mut self, frame: Frame, list: &'static str, path: Path) {
        let name = message::text_param(&frame, path).unwrap_or_default();
        if !self.forward_known(&frame, list, path, &name) {
            let id = frame.bytes().slice(frame.id_edges());
            self.gather(list, &id, Wants::Named(frame, path, name));
        }
    }

    /// Whether somebody is known to have it.
    pub(super) fn forward_known(
        &mut self,
        frame: &Frame,
        list: &'static str,
        path: Path,
        name: &str,
    ) -> bool {
        let names = self.names(list);
        let Some((server, own)) = names.theirs(name) else { return false };
        if terms::is_withheld(self.shares(server), frame) {
            let text = format!("{server} does not offer that while it is shared");
            self.client.fail(frame.id(), code::METHOD_NOT_FOUND, &text, Some("withheld"));
            return true;
        }
        let own = Bytes::from(Value::from(own.as_str()).to_string());
        let edits = message::param(frame, path).map(|edges| (edges, own)).into_iter().collect();
        self.forward(server, Parcel { edits, ..frame.clone().into() });
        true
    }

    fn forward_resource(&mut self, frame: Frame, path: &[&str]) {
        let Some(uri) = message::text_param(&frame, path) else {
            return self.client.fail(frame.id(), code::INVALID_PARAMS, "which resource?", None);
        };
        let Some(server) = self.server_of(&uri) else {
            let text = format!("no server is known to have {uri}");
            return self.client.fail(frame.id(), code::INVALID_PARAMS, &text, None);
        };
        if terms::is_withheld(self.shares(&server), &frame) {
            let text = format!("{server} is not there between two calls");
            return self.client.fail(frame.id(), code::METHOD_NOT_FOUND, &text, Some("withheld"));
        }
        match frame.method() {
            b"resources/subscribe" => self.subscribe(&server, frame.into()),
            b"resources/unsubscribe" => self.unsubscribe(&server, frame.into()),
            _ => self.forward(&server, frame.into()),
        }
    }

    /// Whose a resource is: by its own address, by a template that fits, or as the only one that has any.
    fn server_of(&self, uri: &str) -> Option<Arc<str>> {
        let servers = self.menu.names();
        let lists = |server: &Arc<str>, method, key: &str| -> Vec<String> {
            let list = self.list_of(server, method).unwrap_or_default();
            let items = each(&list, field_of(method));
            items.iter().filter_map(|item| text_of(item, key)).collect()
        };
        let has = |server: &&Arc<str>| {
            lists(server, "resources/list", "uri").iter().any(|own| own == uri)
        };
        let fits = |server: &&Arc<str>| {
            let templates = lists(server, "resources/templates/list", "uriTemplate");
            templates.iter().any(|t| uri.starts_with(t.split('{').next().unwrap_or_default()))
        };
        let capable = |server: &&Arc<str>| {
            let known =
                self.known(server).map(|known| known.initialize.clone()).unwrap_or_default();
            message::find(&known, 0..known.len(), &["capabilities", "resources"]).is_some()
        };
        let found = servers.iter().find(has).or_else(|| servers.iter().find(fits));
        found.cloned().or_else(|| {
            let mut capable = servers.iter().filter(capable);
            capable.next().filter(|_| capable.next().is_none()).cloned()
        })
    }
}

/// Under which name a list's items are.
pub(crate) fn field_of(method: &str) -> &'static str {
    match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        _ => "resourceTemplates",
    }
}

/// The items of a list.
pub(crate) fn each<'a>(list: &'a [u8], field: &str) -> Vec<&'a RawValue> {
    let edges = message::find(list, 0..list.len(), &[field]);
    edges.and_then(|edges| serde_json::from_slice(&list[edges]).ok()).unwrap_or_default()
}

fn text_of(item: &RawValue, key: &str) -> Option<String> {
    let bytes = item.get().as_bytes();
    let edges = message::find(bytes, 0..bytes.len(), &[key])?;
    serde_json::from_slice(&bytes[edges]).ok()
}

fn name_of(item: &RawValue) -> Option<String> {
    text_of(item, "name")
}

/// An item under our name; resources keep theirs, which others may have been told.
fn renamed(item: &RawValue, server: &Arc<str>, names: &Names, method: &str) -> String {
    let text = item.get();
    let is_named = matches!(method, "tools/list" | "prompts/list");
    let name = name_of(item).filter(|_| is_named);
    let ours = name.and_then(|name| names.ours(server, &name).map(ToOwned::to_owned));
    let edges = message::find(text.as_bytes(), 0..text.len(), &["name"]);
    match (ours, edges) {
        (Some(ours), Some(edges)) => {
            format!("{}{}{}", &text[..edges.start], Value::from(ours), &text[edges.end..])
        }
        _ => text.to_owned(),
    }
}
