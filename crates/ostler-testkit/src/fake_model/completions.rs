//! The Chat Completions API of OpenAI, as OpenCode and OpenClaw use it.

use serde_json::{Value, json};

use super::{Api, Tool, items, text_of};
use crate::fake_http::{Part, Reply};

pub(super) struct Completions;

impl Api for Completions {
    fn tools(&self, request: &Value) -> Vec<Tool> {
        let names = items(&request["tools"]).map(|tool| &tool["function"]["name"]);
        names.filter_map(Tool::named).collect()
    }

    fn results(&self, request: &Value) -> String {
        let results = items(&request["messages"]).filter(|message| message["role"] == "tool");
        text_of(results.map(|message| message["content"].clone()))
    }

    fn call(&self, tool: &Tool, arguments: &Value) -> Reply {
        let function = json!({ "name": tool.name, "arguments": arguments.to_string() });
        let call = json!({ "index": 0, "id": "call-1", "type": "function", "function": function });
        turn(&json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
    }

    fn say(&self, text: &str) -> Reply {
        turn(&json!({ "role": "assistant", "content": text }), "stop")
    }
}

fn turn(delta: &Value, reason: &str) -> Reply {
    let chunk = |delta: &Value, reason: &Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        Part::event(&json!({
            "id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "fake",
            "choices": [choice],
        }))
    };
    Reply::stream([
        chunk(delta, &Value::Null),
        chunk(&json!({}), &json!(reason)),
        Part::Text("data: [DONE]\n\n".to_owned()),
    ])
}
