//! MCP server on stdio with every feature that the official conformance suite tests.
#![expect(clippy::disallowed_methods, reason = "a server speaks on stdout")]

mod line;
mod prompts;
mod resources;
mod tools;

use serde_json::{Value, json};

use line::Line;

/// PNG image of one red pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

fn main() {
    let mut line = Line::default();
    while let Some(message) = line.next() {
        let Some(id) = message.get("id") else { continue };
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        let answer = if let Some(result) = answer(method, params, &mut line) {
            json!({ "jsonrpc": "2.0", "id": id, "result": result })
        } else {
            let error = json!({ "code": -32601, "message": "there is no such thing" });
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        };
        line::say(&answer);
    }
}

fn answer(method: &str, params: &Value, line: &mut Line) -> Option<Value> {
    Some(match method {
        "initialize" => {
            let capabilities = json!({
                "tools": {}, "prompts": {}, "resources": { "subscribe": true }, "logging": {},
                "completions": {},
            });
            let info = json!({ "name": "ostler-conformer", "version": "1" });
            json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
            })
        }
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => json!({}),
        "completion/complete" => {
            json!({ "completion": { "values": ["paris", "park"], "total": 2, "hasMore": false } })
        }
        "tools/list" => tools::list(),
        "tools/call" => tools::call(params, line)?,
        "prompts/list" => prompts::list(),
        "prompts/get" => prompts::get(params)?,
        "resources/list" => resources::list(),
        "resources/templates/list" => resources::templates(),
        "resources/read" => resources::read(params["uri"].as_str()?)?,
        _ => return None,
    })
}
