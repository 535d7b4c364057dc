//! JSON Schema of the configuration file, for editors.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::clients::{Adopt, ELSEWHERE};
use super::form::{FileForm, ServerForm};

/// The JSON Schema of a configuration. It contains the keys of other clients, so that editors accept pasted entries.
pub fn schema() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<FileForm>();
    allow(&mut schema, FileForm::OTHERS);
    let servers = [ServerForm::OTHERS, ELSEWHERE].concat();
    let server = schema.pointer_mut("/$defs/Server");
    if let Some(server) = server.and_then(|server| <&mut Schema>::try_from(server).ok()) {
        allow(server, &servers);
    }
    schema.to_value()
}

/// Adds keys with any value.
fn allow(schema: &mut Schema, keys: &[&str]) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for key in keys {
        properties.insert((*key).to_owned(), json!({"description": "A key of another client."}));
    }
}
