//! Handshake of a client that sees all servers as one: their merged capabilities and instructions.
//!
//! A handshake starts no server, so the response is made from the catalog. A server that was never started may have
//! any capability: it counts as having logging and completions, and as having no tasks and no instructions.

use std::fmt::Write as _;

use bytes::Bytes;
use ostler::keeper::Sharing;
use serde_json::{Value, json};

use super::{Route, Session, version_of};
use crate::protocol::message;

/// Longest merged instructions, in bytes; servers whose instructions would exceed it are left out.
const LONGEST_INSTRUCTIONS: usize = 256 << 10;

/// Capability of a server that runs tools as tasks.
const TASKS: &[&str] = &["tasks", "requests", "tools", "call"];

impl Session {
    pub(super) fn welcome_to_all(&self, id: &Bytes) {
        let mut capabilities = json!({
            "tools": { "listChanged": true },
            "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
        });
        for name in ["logging", "completions"] {
            if self.may_have(&[name]) {
                capabilities[name] = json!({});
            }
        }
        if self.has_tasks(TASKS) {
            capabilities["tasks"] = json!({ "requests": { "tools": { "call": {} } } });
            if self.has_tasks(&["tasks", "cancel"]) {
                capabilities["tasks"]["cancel"] = json!({});
            }
        }
        let mut result = json!({
            "protocolVersion": version_of(&self.client),
            "capabilities": capabilities,
            "serverInfo": { "name": "ostler", "version": env!("CARGO_PKG_VERSION") },
        });
        if let Some(instructions) = self.instructions() {
            result["instructions"] = Value::from(instructions);
        }
        self.client.reply(id, message::answer(id, result.to_string().as_bytes()));
    }

    /// Whether a server of this client has a capability, or may have it because its capabilities are unknown.
    pub(super) fn may_have(&self, path: &[&str]) -> bool {
        match &self.route {
            Route::One(server) => self.has(server, path) != Some(false),
            Route::All => {
                self.server_set.names().iter().any(|server| self.has(server, path) != Some(false))
            }
        }
    }

    /// Whether a server of this session alone is known to have this capability.
    fn has_tasks(&self, path: &[&str]) -> bool {
        let servers = self.server_set.names();
        let mut own = servers.iter().filter(|server| self.shares(server) == Sharing::Session);
        own.any(|server| self.has(server, path) == Some(true))
    }

    /// Whether a server has a capability; `None` if unknown.
    fn has(&self, server: &str, path: &[&str]) -> Option<bool> {
        if self.server_set.unavailable_reason(server).is_some() {
            return Some(false);
        }
        let known = self.found(server)?.known;
        if known.initialize.is_empty() {
            return None;
        }
        let said = &known.initialize;
        let path: Vec<&str> = std::iter::once("capabilities").chain(path.iter().copied()).collect();
        let found = message::find(said, 0..said.len(), &path);
        Some(found.is_some_and(|edges| !matches!(&said[edges], b"false" | b"null")))
    }

    /// Instructions of all known servers, each under its server's name.
    fn instructions(&self) -> Option<String> {
        let mut all = String::new();
        for server in self.server_set.names() {
            let Some(known) = self.found(&server).map(|found| found.known) else { continue };
            let said = std::str::from_utf8(&known.initialize).unwrap_or_default();
            let own = message::text_at(said, &["instructions"]).unwrap_or_default();
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
