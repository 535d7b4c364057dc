//! The Responses API of OpenAI, as Codex uses it.

use serde_json::{Value, json};

use super::{Api, Tool, items, text_of, typed_events};
use crate::fake_http::Reply;

pub(super) struct Responses;

impl Api for Responses {
    fn tools(&self, request: &Value) -> Vec<Tool> {
        items(&request["tools"]).flat_map(tools_of).collect()
    }

    fn results(&self, request: &Value) -> String {
        let is_result = |item: &&Value| item["type"] == "function_call_output";
        text_of(items(&request["input"]).filter(is_result).map(|item| item["output"].clone()))
    }

    fn call(&self, tool: &Tool, arguments: &Value) -> Reply {
        let mut item = json!({
            "type": "function_call", "id": "item-1", "call_id": "call-1",
            "name": tool.name, "arguments": arguments.to_string(),
        });
        if let Some(namespace) = &tool.namespace {
            item["namespace"] = json!(namespace);
        }
        turn(&item)
    }

    fn say(&self, text: &str) -> Reply {
        let content = json!([{ "type": "output_text", "text": text }]);
        turn(&json!({ "type": "message", "role": "assistant", "id": "item-1", "content": content }))
    }
}

/// A tool, or those of a namespace.
fn tools_of(entry: &Value) -> Vec<Tool> {
    if entry["type"] != "namespace" {
        return Tool::named(&entry["name"]).into_iter().collect();
    }
    let namespace = entry["name"].as_str().map(ToOwned::to_owned);
    let tools = items(&entry["tools"]).filter_map(|tool| Tool::named(&tool["name"]));
    tools.map(|tool| Tool { namespace: namespace.clone(), ..tool }).collect()
}

fn turn(item: &Value) -> Reply {
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": null,
        "output_tokens": 1, "output_tokens_details": null, "total_tokens": 2,
    });
    typed_events(&[
        json!({ "type": "response.created", "response": { "id": "response-1" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": "response-1", "usage": usage } }),
    ])
}
