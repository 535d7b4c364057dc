//! Resources.

use serde_json::{Value, json};

use crate::PICTURE;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(crate) fn list() -> Value {
    let resource = |uri: &str| json!({ "uri": uri, "name": uri, "mimeType": kind(uri) });
    let resources = [TEXT, BINARY, WATCHED].map(resource);
    json!({ "resources": resources })
}

pub(crate) fn templates() -> Value {
    let template = json!({ "uriTemplate": "test://template/{id}/data", "name": "template" });
    json!({ "resourceTemplates": [template] })
}

pub(crate) fn read(uri: &str) -> Option<Value> {
    let content = match uri {
        TEXT => json!({ "text": "This is the content of the static text resource." }),
        BINARY => json!({ "blob": PICTURE }),
        WATCHED => json!({ "text": "Watched resource content" }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "text": data.to_string() })
        }
    };
    let mut content = content;
    (content["uri"], content["mimeType"]) = (json!(uri), json!(kind(uri)));
    Some(json!({ "contents": [content] }))
}

fn kind(uri: &str) -> &'static str {
    match uri {
        BINARY => "image/png",
        TEXT | WATCHED => "text/plain",
        _ => "application/json",
    }
}
