//! Prompts.

use serde_json::{Value, json};

use crate::tools::{image, resource, text};

pub(crate) fn list() -> Value {
    let prompt = |name: &str, arguments: &[&str]| {
        let argument = |name: &&str| json!({ "name": name, "description": name, "required": true });
        let arguments: Vec<Value> = arguments.iter().map(argument).collect();
        json!({ "name": name, "description": name, "arguments": arguments })
    };
    json!({ "prompts": [
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
    ] })
}

pub(crate) fn get(params: &Value) -> Option<Value> {
    let argument = |name: &str| params["arguments"][name].as_str().unwrap_or_default();
    let contents = match params["name"].as_str()? {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            vec![text(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let said = "Embedded resource content for testing.";
            let embedded = resource(argument("resourceUri"), "text/plain", said);
            vec![embedded, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        _ => return None,
    };
    let message = |content: Value| json!({ "role": "user", "content": content });
    let messages: Vec<Value> = contents.into_iter().map(message).collect();
    Some(json!({ "messages": messages }))
}
