//! Entries of a server in the hosts' configuration files.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{Host, Tuning};

/// The name of the entry, which the hosts put in front of the names of its tools.
pub(super) const NAME: &str = "ostler";
/// The variable that holds the bearer token, in the host's environment.
pub(super) const TOKEN_VARIABLE: &str = "OSTLER_TOKEN";

/// Configuration of a server in a host.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A command to start.
    Command {
        /// The program and its arguments.
        words: Vec<String>,
        /// Variables that it gets in addition to those that the host passes on.
        variables: BTreeMap<String, String>,
    },
    /// A server on HTTP.
    Url(String),
}

impl Entry {
    /// A command without variables.
    pub fn command(words: &[&str]) -> Self {
        let words = words.iter().map(ToString::to_string).collect();
        Self::Command { words, variables: BTreeMap::new() }
    }

    /// As text for a host's configuration file: a table in TOML for Codex, an object in JSON for the others.
    pub fn text(&self, host: Host, tuning: Tuning) -> String {
        match host {
            Host::Codex => self.in_codex(tuning),
            Host::ClaudeCode => object(&["mcpServers"], &self.in_claude_code()),
            Host::OpenCode => object(&["mcp"], &self.in_opencode()),
            Host::Gemini => object(&["mcpServers"], &self.in_gemini()),
            Host::OpenClaw => object(&["mcp", "servers"], &self.in_openclaw(tuning)),
        }
    }

    fn in_codex(&self, tuning: Tuning) -> String {
        let mut text = format!("[mcp_servers.{NAME}]\n");
        // A string takes all that is written to it. Strings and arrays of strings are the same in TOML as in JSON.
        let _ = match self {
            Self::Command { words, .. } => {
                writeln!(text, "command = {}\nargs = {}", json!(words[0]), list(&words[1..]))
            }
            Self::Url(url) => {
                let url = json!(url);
                writeln!(text, "url = {url}\nbearer_token_env_var = \"{TOKEN_VARIABLE}\"")
            }
        };
        if tuning == Tuning::Recommended {
            text.push_str("required = true\n");
        }
        for (name, value) in self.variables() {
            let _ = writeln!(text, "env.{name} = {}", json!(value));
        }
        text
    }

    fn in_claude_code(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Command { .. } => self.command_and_args("env"),
            Self::Url(url) => {
                let kind = ("type", quoted("http"));
                vec![kind, ("url", quoted(url)), authorization(&format!("${{{TOKEN_VARIABLE}}}"))]
            }
        }
    }

    fn in_opencode(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Command { words, .. } => {
                let fields = vec![("type", quoted("local")), ("command", list(words))];
                self.with_variables(fields, "environment")
            }
            Self::Url(url) => {
                let token = authorization(&format!("{{env:{TOKEN_VARIABLE}}}"));
                let fields = [("type", quoted("remote")), ("url", quoted(url)), token];
                fields.into_iter().chain([("oauth", "false".to_owned())]).collect()
            }
        }
    }

    fn in_gemini(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Command { .. } => self.command_and_args("env"),
            Self::Url(url) => {
                vec![("httpUrl", quoted(url)), authorization(&format!("${TOKEN_VARIABLE}"))]
            }
        }
    }

    fn in_openclaw(&self, tuning: Tuning) -> Vec<(&'static str, String)> {
        let mut fields = match self {
            Self::Command { .. } => self.command_and_args("env"),
            Self::Url(url) => {
                let token = authorization(&format!("${{{TOKEN_VARIABLE}}}"));
                vec![("url", quoted(url)), ("transport", quoted("streamable-http")), token]
            }
        };
        if tuning == Tuning::Recommended {
            fields.push(("requestTimeoutMs", "60000".to_owned()));
        }
        fields
    }

    fn command_and_args(&self, variables: &'static str) -> Vec<(&'static str, String)> {
        let Self::Command { words, .. } = self else { return Vec::new() };
        let fields = vec![("command", quoted(&words[0])), ("args", list(&words[1..]))];
        self.with_variables(fields, variables)
    }

    fn with_variables(
        &self,
        mut fields: Vec<(&'static str, String)>,
        name: &'static str,
    ) -> Vec<(&'static str, String)> {
        let variables: Value = self.variables().collect();
        if self.variables().next().is_some() {
            fields.push((name, variables.to_string()));
        }
        fields
    }

    fn variables(&self) -> impl Iterator<Item = (&String, &str)> {
        let variables = match self {
            Self::Command { variables, .. } => Some(variables),
            Self::Url(_) => None,
        };
        variables.into_iter().flatten().map(|(name, value)| (name, value.as_str()))
    }
}

/// Below these keys, an object with the entry. Written by hand, so that the fields stay in the order in which people read them.
fn object(keys: &[&str], fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("    \"{name}\": {value}")).collect();
    let (mut before, mut after) = (String::new(), String::new());
    for key in keys {
        let _ = write!(before, "{{ \"{key}\": ");
        after.push_str(" }");
    }
    format!("{before}{{ \"{NAME}\": {{\n{}\n}} }}{after}\n", fields.join(",\n"))
}

fn authorization(token: &str) -> (&'static str, String) {
    ("headers", format!("{{ \"Authorization\": \"Bearer {token}\" }}"))
}

fn quoted(text: &str) -> String {
    json!(text).to_string()
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_json_are_json() {
        for host in Host::ALL.into_iter().filter(|host| *host != Host::Codex) {
            for entry in [Entry::command(&["ostler", "connect"]), Entry::Url("http://x/".into())] {
                let text = entry.text(host, Tuning::Recommended);
                serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            }
        }
    }
}
