//! What a configuration means, and what is wrong with those that mean nothing.

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

/// The only server of a configuration in which it is called `s`.
fn server(body: &str) -> ServerEntry {
    file(&format!(r#"{{"mcpServers": {{"s": {body}}}}}"#)).servers.remove("s").unwrap()
}

/// All that is said about a configuration that is wrong.
fn complaint(text: &str) -> String {
    parse(text, Path::new("ostler.json")).unwrap_err().to_string()
}

/// What is said about the notices of a configuration.
fn notices(file: &File) -> Vec<&str> {
    file.notices.iter().map(|notice| notice.message.as_str()).collect()
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().copied().collect()
}
