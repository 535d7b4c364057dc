//! The client's handshake.
//!
//! It starts no server if the catalog knows the result. A client of one server gets that server's own result. A client
//! of all servers gets their merged capabilities and instructions: a server that was never started may have any
//! capability, so it counts as having logging and completions, and as having no tasks and no instructions.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::aggregate::Wants;
use super::request::ClientRequest;
use super::snapshot::Snapshot;
use super::{Session, version_of};
use crate::protocol::initialize::Initialize;
use crate::protocol::message::{self, code};
use crate::protocol::terms;
use crate::protocol::version;
use crate::route::Route;

/// Capability of a server that runs tools as tasks.
const TASKS: &[&str] = &["tasks", "requests", "tools", "call"];

impl Session {
    pub(super) fn initialize(&mut self, request: ClientRequest) {
        let id = request.id();
        let initialize = match Initialize::read(&request.frame) {
            Ok(initialize) => initialize,
            Err(why) => {
                return self.client.fail(&id, code::INVALID_PARAMS, &why.to_string(), None);
            }
        };
        if !self.client.introduce(initialize) {
            let text = "the handshake is done already";
            return self.client.fail(&id, code::INVALID_REQUEST, text, None);
        }
        match self.servers.route.clone() {
            Route::All => {
                let result = merged_result(self.servers.now(), version_of(&self.client));
                self.client.reply(&id, message::answer(&id, result.to_string().as_bytes()));
            }
            Route::One(server) => self.initialize_one(&server, request),
        }
    }

    fn initialize_one(&mut self, server: &Arc<str>, request: ClientRequest) {
        if let Some(result) = self.initialize_result(server) {
            self.refresh(server);
            return self.answer_initialize(&request.id(), server, &result);
        }
        let view = self.servers.now().get(server);
        if view.is_none_or(|view| view.availability.is_err()) {
            // The request for a lease fails with the reason why there is no such server.
            return self.forward(server, request);
        }
        let (id, server) = (request.id(), Arc::clone(server));
        self.aggregate("tools/list", &id, Wants::Server(Box::new(request), server));
    }

    /// Answers the client's handshake with the server's result, and the lower of their protocol versions.
    pub(super) fn answer_initialize(&mut self, id: &Bytes, server: &str, result: &Bytes) {
        let sharing = self.servers.now().sharing(server);
        let Some(initialize) = self.client.initialize() else { return };
        let result = &terms::offered(sharing, result);
        let edges = message::find(result, 0..result.len(), &["protocolVersion"]);
        let own = edges.clone().and_then(|edges| serde_json::from_slice(&result[edges]).ok());
        let version = version::lower(&initialize.version, own.unwrap_or(&initialize.version));
        self.client.agree_on(version);
        let version = edges.map(|edges| (edges, Bytes::from(format!("\"{version}\""))));
        let result = message::splice(result, version.into_iter().collect());
        self.client.reply(id, message::answer(id, &result[..result.len() - 1]));
    }
}

/// Result of the handshake of a client that sees all servers as one.
fn merged_result(servers: &Snapshot, version: &str) -> Value {
    let mut capabilities = json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
    });
    for name in ["logging", "completions"] {
        if servers.may_have(&[name]) {
            capabilities[name] = json!({});
        }
    }
    if servers.has_for_itself(TASKS) {
        capabilities["tasks"] = json!({ "requests": { "tools": { "call": {} } } });
        if servers.has_for_itself(&["tasks", "cancel"]) {
            capabilities["tasks"]["cancel"] = json!({});
        }
    }
    let mut result = json!({
        "protocolVersion": version,
        "capabilities": capabilities,
        "serverInfo": { "name": "ostler", "version": env!("CARGO_PKG_VERSION") },
    });
    if let Some(instructions) = servers.instructions() {
        result["instructions"] = Value::from(instructions);
    }
    result
}
