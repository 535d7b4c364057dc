//! An edit of a file of any format does what it says, changes no other value, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ostler_clients::{Edit, Format, Value, preview};

const FORMATS: [Format; 4] = [Format::Json, Format::Json5, Format::Toml, Format::Yaml];

/// The members at the top of a text, without one of them.
fn others(format: Format, text: &str, key: &str) -> Vec<(String, Value)> {
    let Ok(Value::Object(members)) = format.read(text) else { return Vec::new() };
    members.into_iter().filter(|(name, _)| name != key).collect()
}

fn check(format: Format, text: &str, path: &[&str], value: Option<&Value>) {
    let keys: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    let edit = match value {
        Some(value) => Edit::Set(keys.clone(), value.clone()),
        None => Edit::Remove(keys.clone()),
    };
    let Ok(edited) = format.edit(text, &[edit]) else { return };
    assert!(format.read(&edited).expect("a readable result").at(&keys) == value);
    assert!(others(format, &edited, path[0]) == others(format, text, path[0]));
    preview(format, text, &edited, &|words| words.to_vec());
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let format = FORMATS[usize::from(*first) % FORMATS.len()];
    let entry = Value::object([("command", "x".into()), ("args", Value::strings(["--", "ü\n"]))]);
    for path in [&["a"][..], &["a", "b"], &["mcpServers", "x"], &["a", "b", "c"]] {
        check(format, text, path, Some(&entry));
        check(format, text, path, Some(&Value::from("x: #")));
        check(format, text, path, None);
    }
});
