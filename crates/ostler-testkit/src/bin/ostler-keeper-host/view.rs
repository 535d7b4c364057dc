//! The keeper's snapshot as JSON.

use ostler::backend::Whereabouts;
use ostler::keeper::{Books, Changes, InstanceState, InstanceView, ServerView, Snapshot};
use serde_json::{Value, json};

pub(crate) fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "books": books(&snapshot.books),
        "waiting": snapshot.waiting,
        "servers": snapshot.servers.iter().map(server).collect::<Vec<_>>(),
        "instances": instances(&snapshot.instances),
    })
}

pub(crate) fn books(books: &Books) -> Value {
    let Books { started, live, gone, unverified } = books;
    json!({
        "started": started,
        "live": live,
        "gone": gone,
        "unverified": unverified,
        "balance": books.balance(),
    })
}

pub(crate) fn changes(changes: &Changes) -> Value {
    let Changes { kept, changed, removed, added } = changes;
    json!({"kept": kept, "changed": changed, "removed": removed, "added": added})
}

pub(crate) fn instances(views: &[InstanceView]) -> Vec<Value> {
    views.iter().map(instance).collect()
}

pub(crate) fn instance(view: &InstanceView) -> Value {
    let state = match &view.state {
        InstanceState::Starting => "starting",
        InstanceState::Ready => "ready",
        InstanceState::Draining(_) => "draining",
        InstanceState::Stopping(_) => "stopping",
        InstanceState::Unverified => "unverified",
    };
    json!({
        "number": view.number,
        "server": &*view.key.server,
        "whose": view.key.whose.to_string(),
        "state": state,
        "pid": view.pid(),
        "guardian": view.whereabouts.as_ref().and_then(Whereabouts::guardian).map(|g| g.pid),
        "by": view.by.to_string(),
        "leases": view.leases.len(),
        "uses": view.uses,
    })
}

fn server(view: &ServerView) -> Value {
    json!({
        "name": view.name,
        "sharing": view.sharing.to_string(),
        "failures": view.failures,
        "backing_off": view.backing_off.is_some(),
    })
}
