//! Tests of the configuration: meaning, messages and resolution.

mod anything;
mod clients;
mod errors;
mod meaning;
mod places;
mod resolving;

use std::path::Path;

use super::{Environment, File, ServerEntry, parse};

fn file(text: &str) -> File {
    parse(text, Path::new("/etc/ostler.json")).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Parses a configuration with one server, called `s`.
fn server(body: &str) -> ServerEntry {
    file(&format!(r#"{{"mcpServers": {{"s": {body}}}}}"#)).servers.remove("s").unwrap()
}

/// The message for an invalid configuration.
fn complaint(text: &str) -> String {
    parse(text, Path::new("ostler.json")).unwrap_err().to_string()
}

/// Messages of a configuration's notices.
fn notices(file: &File) -> Vec<&str> {
    file.notices.iter().map(|notice| notice.message.as_str()).collect()
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}
