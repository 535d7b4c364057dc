//! Lists over all servers, for a client that sees them as one.
//!
//! Items of a merged list have names and URIs that are unique among all servers. Servers whose list is unknown are
//! named in its `_meta`, with the reason.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Session;
use super::servers::json_text;
use super::snapshot::{ServerView, resources_of};
use super::uri_owners::UriOwners;
use crate::mutex::lock;
use crate::protocol::lists::{field_of, items};
use crate::protocol::message;
use crate::protocol::uris;

/// Reason in merged lists for the resources of a server with `share: call`.
const NO_INSTANCE: &str = "each call has an instance of its own, so none can list its resources";

impl Session {
    /// The list over all servers.
    pub(super) fn merged_list(&mut self, method: &'static str) -> String {
        let servers = Arc::clone(self.servers.now());
        let field = field_of(method);
        let mut shown = Vec::new();
        let mut missing = Map::new();
        for (server, view) in servers.iter() {
            if let Some(list) = view.list(method) {
                let uri_owners = lock(&self.servers.uri_owners);
                let own = items(&list, field);
                let own = own.iter().map(|item| item.get());
                shown.extend(
                    own.filter_map(|item| qualify(item, server, view, method, &uri_owners)),
                );
            } else {
                let failure = self.why_unlisted(server).or_else(|| self.failure(server).cloned());
                let is_own = view.is_own_list(method);
                let usual = if is_own { NO_INSTANCE } else { "it is being started" };
                let reason = failure.map_or_else(|| usual.into(), |failure| failure.text);
                missing.insert(server.to_string(), Value::from(reason));
            }
        }
        let list = format!(r#""{field}":[{}]"#, shown.join(","));
        if missing.is_empty() {
            return format!("{{{list}}}");
        }
        format!(r#"{{{list},"_meta":{{"ostler/unavailable":{}}}}}"#, Value::from(missing))
    }
}

/// An item of a server's list with the client's name or URI for it. `None` if it has none, or an ambiguous one.
fn qualify(
    item: &str,
    server: &Arc<str>,
    view: &ServerView,
    method: &str,
    uri_owners: &UriOwners,
) -> Option<String> {
    let is_own = |uri: &str| uri_owners.owner(uri) == Some(server);
    let key = match method {
        "resources/list" => "uri",
        "resources/templates/list" => "uriTemplate",
        _ => "name",
    };
    let edges = message::find(item.as_bytes(), 0..item.len(), &[key])?;
    let own: String = serde_json::from_str(&item[edges.clone()]).ok()?;
    let ours = match key {
        "name" => Some(view.names(method)?.ours(&own)?.to_owned()),
        "uri" => (!is_own(&own)).then(|| uris::qualify(server, &own)),
        _ => {
            let is_own = uri_owners.owns_template(server, &own);
            (!is_own).then(|| uris::qualify(server, &own))
        }
    };
    let mut edits: Vec<(Range<usize>, String)> =
        ours.map(|ours| (edges, ours)).into_iter().collect();
    if method == "tools/list" {
        let foreign = resources_of(item).into_iter().filter(|(_, uri)| !is_own(uri));
        edits.extend(foreign.map(|(edges, uri)| (edges, uris::qualify(server, &uri))));
    }
    let edits = edits.into_iter().map(|(edges, text)| (edges, json_text(&text))).collect();
    let line = message::splice(item.as_bytes(), edits);
    String::from_utf8(line[..line.len() - 1].to_vec()).ok()
}
