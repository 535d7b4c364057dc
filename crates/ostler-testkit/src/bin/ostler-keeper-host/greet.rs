//! The protocol part that the host adds to the keeper: the handshake of a server, and the meaning of its messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ostler::keeper::{Greeting, Handshake, Listener, RefuseRequests, Talk};
use ostler::{Frame, Kind};
use serde_json::{Value, json};

const VERSION: &str = "2025-06-18";
/// Longer than the keeper's limit for a start.
const LIMIT: Duration = Duration::from_mins(10);

/// Counts the notifications of all servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mcp {
    heard: Arc<AtomicU64>,
}

impl Mcp {
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }
}

impl Handshake for Mcp {
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a> {
        Box::pin(initialize(server))
    }
}

impl Listener for Mcp {
    fn hear(&self, from: &Talk, message: Frame) {
        if message.kind() == Kind::Notification {
            self.heard.fetch_add(1, Ordering::Relaxed);
        }
        RefuseRequests.hear(from, message);
    }
}

async fn initialize(server: &Talk) -> Result<(), String> {
    let client = json!({"name": "ostler-keeper-host", "version": "0"});
    let params = json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client});
    let answer = server.call(&request("initialize", &params), LIMIT).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let answer: Value =
        serde_json::from_slice(answer.bytes()).map_err(|error| error.to_string())?;
    let version = &answer["result"]["protocolVersion"];
    if version != VERSION {
        return Err(format!("it speaks {version}, not {VERSION}"));
    }
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    server.notify(&frame(&done)).map_err(|error| error.to_string())
}

/// A request; the keeper gives it an id of its own.
pub(crate) fn request(method: &str, params: &Value) -> Frame {
    frame(&json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}))
}

fn frame(message: &Value) -> Frame {
    Frame::parse(message.to_string()).expect("a message")
}
