//! The servers of one client, and the decision which of them gets a request.
//!
//! Decisions are made from a [`Snapshot`], which is replaced when the configuration or the catalog has changed. A
//! client of one server sees that server's own names and URIs. A client of all servers sees qualified names, and URIs
//! that are qualified where two servers have the same; its requests are sent with the server's own name or URI.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::{Sharing, Who};
use serde_json::Value;

use super::request::ClientRequest;
use super::snapshot::Snapshot;
use super::uri_owners::UriOwners;
use crate::catalog::Name;
use crate::client::{Client, Topic};
use crate::mutex::lock;
use crate::protocol::lists::LISTS;
use crate::protocol::message::{self, code};
use crate::protocol::uris::{self, Style};
use crate::route::Route;
use crate::server_set::{Availability, ServerSet};
use crate::upstream::Upstreams;

/// Editions of the catalog and of the server set, and whether the client's capabilities were known.
pub(super) type Editions = (u64, u64, bool);

/// The servers of one client.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) route: Route,
    pub(super) set: Arc<ServerSet>,
    pub(super) upstreams: Arc<Upstreams>,
    pub(super) client: Arc<Client>,
    pub(super) who: Who,
    /// URI owners, shared by all clients of the principal.
    pub(super) uri_owners: Arc<Mutex<UriOwners>>,
    /// Editions that the snapshot was made from.
    pub(super) editions: Option<Editions>,
    pub(super) snapshot: Arc<Snapshot>,
}

/// Where a request goes.
#[derive(Debug)]
pub(super) enum Decision {
    Refuse(Refusal),
    Forward(Target),
    /// The server's list, from the catalog or from the server.
    List(Arc<str>, &'static str),
    /// The list over all servers.
    MergedList(&'static str),
    /// No known server has the item, but a server whose list is unknown may have it.
    Search(Search),
}

/// Server that gets a request, and what changes in the request.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: Arc<str>,
    /// Range of a qualified name or URI, and the server's own.
    pub(super) edit: Option<(Range<usize>, Bytes)>,
    /// Resource that the request is about.
    pub(super) subject: Option<Box<(Topic, Style)>>,
}

/// An item by the client's name for it.
#[derive(Debug)]
pub(super) struct Search {
    /// List method that the item is in.
    pub(super) list: &'static str,
    /// Path of the name within the parameters of the request.
    pub(super) path: &'static [&'static str],
    pub(super) name: String,
}

/// Error response of the gateway itself.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) text: Cow<'static, str>,
    /// Machine-readable reason.
    pub(super) reason: Option<&'static str>,
}

impl Refusal {
    fn new(code: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into(), reason: None }
    }

    fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

impl From<Refusal> for Decision {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl Target {
    fn plain(server: Arc<str>) -> Self {
        Self { server, edit: None, subject: None }
    }
}

impl Servers {
    pub(super) fn new(
        route: Route,
        set: Arc<ServerSet>,
        upstreams: Arc<Upstreams>,
        client: Arc<Client>,
        who: Who,
        uri_owners: Arc<Mutex<UriOwners>>,
    ) -> Self {
        let (editions, snapshot) = (None, Arc::default());
        Self { route, set, upstreams, client, who, uri_owners, editions, snapshot }
    }

    /// The snapshot of now.
    pub(super) fn now(&mut self) -> &Arc<Snapshot> {
        let is_introduced = self.client.initialize().is_some();
        let editions = (self.upstreams.catalog.edition(), self.set.edition(), is_introduced);
        if self.editions != Some(editions) {
            self.renew(editions);
        }
        &self.snapshot
    }

    /// Name of the catalog entry for a server as clients like this one see it.
    pub(super) fn catalog_name(&self, availability: &Availability) -> Option<Name> {
        let summary = availability.as_ref().ok()?;
        let profile = self.client.list_profile(summary.sharing);
        Some(summary.catalog_name(&self.who.principal, profile))
    }

    /// The server of a resource, and its own URI for it: from a qualified URI, else the recorded owner, else the only
    /// server with resources.
    pub(super) fn server_of(&mut self, uri: &str) -> Option<(Arc<str>, String)> {
        let servers = Arc::clone(self.now());
        if uris::is_qualified(uri) {
            let (server, own) = uris::split(uri)?;
            return Some((Arc::clone(servers.name(&server)?), own.to_owned()));
        }
        let owner = lock(&self.uri_owners).owner(uri).cloned();
        let owner = owner.filter(|owner| servers.get(owner).is_some());
        let server = owner.or_else(|| servers.only_with_resources().cloned())?;
        Some((server, uri.to_owned()))
    }

    /// Decides where a request goes.
    pub(super) fn decide(&mut self, request: &ClientRequest) -> Decision {
        match self.route.clone() {
            Route::One(server) => self.decide_for_one(server, request),
            Route::All => self.decide_for_all(request),
        }
    }

    fn decide_for_one(&mut self, server: Arc<str>, request: &ClientRequest) -> Decision {
        let frame = &request.frame;
        let view = self.now().get(&server);
        let sharing = view.map_or(Sharing::Session, |view| view.sharing);
        if is_withheld(sharing, request) {
            let text = "not offered by a server that is shared like this";
            return Refusal::new(code::METHOD_NOT_FOUND, text).because("withheld").into();
        }
        if let Some(list) = list_of(frame) {
            return Decision::List(server, list);
        }
        let mut target = Target::plain(server);
        match frame.method() {
            b"resources/subscribe" | b"resources/unsubscribe" => {
                let uri = message::text_param(frame, &["uri"]);
                let topic = uri.map(|uri| (Arc::clone(&target.server), uri));
                target.subject = topic.map(|topic| Box::new((topic, Style::default())));
            }
            b"tools/call" => {
                let name = || message::text_param(frame, &["name"]);
                if view.is_some_and(|view| !view.permits(name)) {
                    let refusal = Refusal::new(code::INVALID_PARAMS, "no such tool");
                    return refusal.because("denied").into();
                }
            }
            _ => {}
        }
        Decision::Forward(target)
    }

    fn decide_for_all(&mut self, request: &ClientRequest) -> Decision {
        let frame = &request.frame;
        if let Some(list) = list_of(frame) {
            if message::param(frame, &["cursor"]).is_some() {
                // A merged list has one page.
                return Refusal::new(code::INVALID_PARAMS, "no such page").into();
            }
            return Decision::MergedList(list);
        }
        match frame.method() {
            b"tools/call" => self.decide_by_name(request, "tools/list", &["name"]),
            b"prompts/get" => self.decide_by_name(request, "prompts/list", &["name"]),
            b"completion/complete" if message::param(frame, &["ref", "name"]).is_some() => {
                self.decide_by_name(request, "prompts/list", &["ref", "name"])
            }
            b"completion/complete" => self.decide_by_uri(request, &["ref", "uri"]),
            b"resources/read" | b"resources/subscribe" | b"resources/unsubscribe" => {
                self.decide_by_uri(request, &["uri"])
            }
            b"tasks/get" | b"tasks/result" | b"tasks/cancel" => self.decide_by_task(frame),
            _ => Refusal::new(code::METHOD_NOT_FOUND, "no such method").into(),
        }
    }

    fn decide_by_name(
        &mut self,
        request: &ClientRequest,
        list: &'static str,
        path: &'static [&'static str],
    ) -> Decision {
        let name = message::text_param(&request.frame, path).unwrap_or_default();
        let search = Search { list, path, name };
        self.find(request, &search).unwrap_or(Decision::Search(search))
    }

    /// Finds the server that is known to have an item. Returns `None` if there is none.
    pub(super) fn find(&mut self, request: &ClientRequest, item: &Search) -> Option<Decision> {
        let servers = self.now();
        let (server, own) = servers.owner_of(item.list, &item.name)?;
        if is_withheld(servers.sharing(&server), request) {
            let text = format!("{server} does not offer that while it is shared");
            return Some(Refusal::new(code::METHOD_NOT_FOUND, text).because("withheld").into());
        }
        let edges = message::param(&request.frame, item.path);
        let edit = edges.map(|edges| (edges, json_text(&own)));
        Some(Decision::Forward(Target { edit, ..Target::plain(server) }))
    }

    fn decide_by_task(&self, frame: &Frame) -> Decision {
        let task = message::text_param(frame, &["taskId"]);
        match task.and_then(|task| self.client.tasks().get(&task)) {
            Some(server) => Decision::Forward(Target::plain(server)),
            None => Refusal::new(code::INVALID_PARAMS, "no such task").into(),
        }
    }

    fn decide_by_uri(&mut self, request: &ClientRequest, path: &[&str]) -> Decision {
        let Some(uri) = message::text_param(&request.frame, path) else {
            return Refusal::new(code::INVALID_PARAMS, "which resource?").into();
        };
        let Some((server, own)) = self.server_of(&uri) else {
            let text = format!("no server is known to have {uri}");
            return Refusal::new(code::INVALID_PARAMS, text).into();
        };
        if is_withheld(self.now().sharing(&server), request) {
            let text = format!("{server} is not there between two calls");
            return Refusal::new(code::METHOD_NOT_FOUND, text).because("withheld").into();
        }
        let is_qualified = own != uri;
        let edges = is_qualified.then(|| message::param(&request.frame, path)).flatten();
        let edit = edges.map(|edges| (edges, json_text(&own)));
        let prefix = Some(uris::prefix(&server).into());
        let style = Style { prefix, is_qualified };
        let subject = Some(Box::new(((Arc::clone(&server), own), style)));
        Decision::Forward(Target { server, edit, subject })
    }
}

/// Whether a request needs a capability that is withheld because of how the server is shared (`protocol::terms`).
fn is_withheld(sharing: Sharing, request: &ClientRequest) -> bool {
    let method = request.frame.method();
    let subscribes = matches!(method, b"resources/subscribe" | b"resources/unsubscribe");
    let has_task = request.found.has_task || method.starts_with(b"tasks/");
    (subscribes && sharing == Sharing::Call) || (has_task && sharing != Sharing::Session)
}

/// The list method of a request for a list.
fn list_of(frame: &Frame) -> Option<&'static str> {
    let method = frame.method();
    LISTS.iter().map(|(list, _)| *list).find(|list| list.as_bytes() == method)
}

pub(super) fn json_text(text: &str) -> Bytes {
    Value::from(text).to_string().into()
}
