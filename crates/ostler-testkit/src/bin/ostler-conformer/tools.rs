//! Tools.

use std::time::Duration;

use serde_json::{Value, json};

use crate::PICTURE;
use crate::line::{Line, notify};

/// Pause between two progress notifications of a tool.
const STEP: Duration = Duration::from_millis(50);

const PLAIN: [&str; 10] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
];

pub(crate) fn list() -> Value {
    let tool = |name: &str, properties: Value| {
        let schema = json!({ "type": "object", "properties": properties });
        json!({ "name": name, "description": name, "inputSchema": schema })
    };
    let mut tools: Vec<Value> = PLAIN.iter().map(|name| tool(name, json!({}))).collect();
    tools.push(tool("test_sampling", json!({ "prompt": { "type": "string" } })));
    tools.push(tool("test_elicitation", json!({ "message": { "type": "string" } })));
    tools.push(schema_tool());
    json!({ "tools": tools })
}

/// Input schema with keywords that a gateway could drop by mistake.
fn schema_tool() -> Value {
    let address = json!({ "$anchor": "address", "type": "object", "properties": {
        "street": { "type": "string" }, "city": { "type": "string" } } });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": address },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    json!({ "name": "json_schema_2020_12_tool", "description": "a schema", "inputSchema": schema })
}

pub(crate) fn call(params: &Value, line: &mut Line) -> Option<Value> {
    let arguments = &params["arguments"];
    let content = match params["name"].as_str()? {
        "test_simple_text" => vec![text("This is a simple text response for testing.")],
        "test_image_content" => vec![image()],
        "test_audio_content" => {
            vec![json!({ "type": "audio", "data": "UklGRiQAAABXQVZF", "mimeType": "audio/wav" })]
        }
        "test_embedded_resource" => {
            let said = "This is an embedded resource content.";
            vec![resource("test://embedded-resource", "text/plain", said)]
        }
        "test_multiple_content_types" => {
            let data = r#"{"test":"data","value":123}"#;
            let mixed = resource("test://mixed-content-resource", "application/json", data);
            vec![text("Multiple content types test:"), image(), mixed]
        }
        "test_tool_with_logging" => log(),
        "test_tool_with_progress" => progress(&params["_meta"]["progressToken"]),
        "test_error_handling" => {
            let said = "This tool intentionally returns an error for testing";
            return Some(json!({ "isError": true, "content": [text(said)] }));
        }
        "test_sampling" => sample(&arguments["prompt"], line),
        "test_elicitation" => {
            let word = json!({ "type": "string" });
            let schema = json!({ "type": "object", "properties": { "username": word, "email": word },
                "required": ["username", "email"] });
            elicit(&arguments["message"], &schema, line)
        }
        "test_elicitation_sep1034_defaults" => elicit(&json!("Defaults?"), &defaults(), line),
        "test_elicitation_sep1330_enums" => elicit(&json!("Choices?"), &choices(), line),
        "json_schema_2020_12_tool" => vec![text("it was called")],
        _ => return None,
    };
    Some(json!({ "content": content }))
}

fn log() -> Vec<Value> {
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        notify("notifications/message", &json!({ "level": "info", "data": said }));
        std::thread::sleep(STEP);
    }
    vec![text("it has logged")]
}

fn progress(token: &Value) -> Vec<Value> {
    for progress in [0, 50, 100] {
        if !token.is_null() {
            let params = json!({ "progressToken": token, "progress": progress, "total": 100 });
            notify("notifications/progress", &params);
        }
        std::thread::sleep(STEP);
    }
    vec![text("it is done")]
}

fn sample(prompt: &Value, line: &mut Line) -> Vec<Value> {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    let params = json!({ "messages": [message], "maxTokens": 100 });
    let said = line.ask("sampling/createMessage", &params).unwrap_or_default();
    vec![text(&format!("LLM response: {}", said["content"]["text"]))]
}

fn elicit(message: &Value, schema: &Value, line: &mut Line) -> Vec<Value> {
    let params = json!({ "message": message, "requestedSchema": schema });
    let said = line.ask("elicitation/create", &params).unwrap_or_default();
    let (action, content) = (&said["action"], &said["content"]);
    vec![text(&format!("Elicitation completed: action={action}, content={content}"))]
}

fn defaults() -> Value {
    json!({ "type": "object", "required": [], "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

fn choices() -> Value {
    let titled = |word: &str| {
        let one = |value: &str, title: &str| json!({ "const": value, "title": format!("{title} {word}") });
        json!([one("value1", "First"), one("value2", "Second"), one("value3", "Third")])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({ "type": "object", "required": [], "properties": {
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    } })
}

pub(crate) fn text(said: &str) -> Value {
    json!({ "type": "text", "text": said })
}

pub(crate) fn image() -> Value {
    json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" })
}

pub(crate) fn resource(uri: &str, kind: &str, said: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": said } })
}
