//! Responses of a well-behaved MCP server.

use serde_json::{Value, json};

use super::{Heard, Reply};

/// Response of a server with one tool and no event stream. Its session id is `session-1`.
pub fn standard(heard: &Heard) -> Reply {
    match heard.method.as_str() {
        "POST" => post(&heard.message()),
        "DELETE" => Reply::status(200),
        _ => Reply::status(405),
    }
}

fn post(message: &Value) -> Reply {
    let (id, params) = (&message["id"], &message["params"]);
    if id.is_null() || message["method"].is_null() {
        return Reply::status(202);
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        "tools/list" => {
            json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })
        }
        _ => json!({ "said": params }),
    };
    let reply = Reply::json(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    if message["method"] == "initialize" {
        reply.with("mcp-session-id", "session-1")
    } else {
        reply
    }
}
