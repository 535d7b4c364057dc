//! The Gemini API of Google, as Gemini CLI uses it.

use serde_json::{Value, json};

use super::{Api, Tool, items, text_of};
use crate::fake_http::{Part, Reply};

pub(super) struct Gemini;

impl Api for Gemini {
    fn tools(&self, request: &Value) -> Vec<Tool> {
        let all = items(&request["tools"]).flat_map(|group| items(&group["functionDeclarations"]));
        all.filter_map(|tool| Tool::named(&tool["name"])).collect()
    }

    fn results(&self, request: &Value) -> String {
        let parts = items(&request["contents"]).flat_map(|content| items(&content["parts"]));
        text_of(parts.filter_map(|part| part.get("functionResponse").cloned()))
    }

    fn call(&self, tool: &Tool, arguments: &Value) -> Reply {
        turn(&json!({ "functionCall": { "name": tool.name, "args": arguments } }))
    }

    fn say(&self, text: &str) -> Reply {
        turn(&json!({ "text": text }))
    }
}

fn turn(part: &Value) -> Reply {
    let content = json!({ "role": "model", "parts": [part] });
    let usage = json!({ "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 });
    Reply::stream([Part::event(&json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": usage,
    }))])
}
