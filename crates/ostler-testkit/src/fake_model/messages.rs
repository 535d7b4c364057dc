//! The Messages API of Anthropic, as Claude Code uses it.

use serde_json::{Value, json};

use super::{Api, Tool, items, text_of, typed_events};
use crate::fake_http::Reply;

pub(super) struct Messages;

impl Api for Messages {
    fn tools(&self, request: &Value) -> Vec<Tool> {
        items(&request["tools"]).filter_map(|tool| Tool::named(&tool["name"])).collect()
    }

    fn results(&self, request: &Value) -> String {
        let blocks = items(&request["messages"]).flat_map(|message| items(&message["content"]));
        let results = blocks.filter(|block| block["type"] == "tool_result");
        text_of(results.map(|block| block["content"].clone()))
    }

    fn call(&self, tool: &Tool, arguments: &Value) -> Reply {
        let block = json!({ "type": "tool_use", "id": "call-1", "name": tool.name, "input": {} });
        let delta = json!({ "type": "input_json_delta", "partial_json": arguments.to_string() });
        turn(&block, &delta, "tool_use")
    }

    fn say(&self, text: &str) -> Reply {
        let block = json!({ "type": "text", "text": "" });
        turn(&block, &json!({ "type": "text_delta", "text": text }), "end_turn")
    }
}

fn turn(block: &Value, delta: &Value, stop: &str) -> Reply {
    let message = json!({
        "id": "message-1", "type": "message", "role": "assistant", "model": "fake", "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    let end = json!({ "stop_reason": stop, "stop_sequence": null });
    typed_events(&[
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": end, "usage": { "output_tokens": 1 } }),
        json!({ "type": "message_stop" }),
    ])
}
