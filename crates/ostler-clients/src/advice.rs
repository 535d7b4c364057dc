//! Suggestions for servers that were taken over.

use crate::server::{Server, Target};

/// A key of ostler.json that suits a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The key with its value.
    pub setting: &'static str,
    /// Why it suits.
    pub reason: &'static str,
}

/// Packages and images of servers whose answers depend on no session and no directory.
const STATELESS: &[&str] = &[
    "@modelcontextprotocol/server-brave-search",
    "@modelcontextprotocol/server-github",
    "@modelcontextprotocol/server-google-maps",
    "@modelcontextprotocol/server-slack",
    "@notionhq/notion-mcp-server",
    "@upstash/context7-mcp",
    "ghcr.io/github/github-mcp-server",
    "mcp-server-fetch",
    "mcp-server-time",
    "mcp/brave-search",
    "mcp/context7",
    "mcp/fetch",
    "mcp/time",
    "tavily-mcp",
];

/// What suits a server, beside the defaults.
pub fn advice(server: &Server) -> Vec<Advice> {
    let Target::Process { command, .. } = &server.target else { return Vec::new() };
    let program = command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let has = |wanted: &str| command.iter().any(|word| word.contains(wanted));
    let mut advice = Vec::new();
    if command.iter().any(|word| STATELESS.iter().any(|package| is_of(word, package))) {
        let reason = "its answers depend on no session and no directory, so all agents can use one";
        advice.push(Advice { setting: "\"share\": \"all\"", reason });
    }
    if has("docker.sock") || has("podman.sock") {
        let reason = "it manages your own containers, which must not end with it";
        advice.push(Advice { setting: "\"engine\": \"off\"", reason });
    } else if program == "docker" {
        let reason = "it runs in a container of Docker, so no other engine is asked";
        advice.push(Advice { setting: "\"engine\": \"docker\"", reason });
    } else if program == "podman" {
        let reason = "it runs in a container of podman, so no other engine is asked";
        advice.push(Advice { setting: "\"engine\": \"podman\"", reason });
    }
    advice
}

/// Whether a word names a package or an image, with or without a version.
fn is_of(word: &str, package: &str) -> bool {
    word.strip_prefix(package)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', ':', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Vec<&'static str> {
        let words = line.split(' ').map(str::to_owned).collect();
        let server = Server::process(words, std::collections::BTreeMap::new());
        advice(&server).into_iter().map(|advice| advice.setting).collect()
    }

    #[test]
    fn suggestions_suit_the_command() {
        assert_eq!(settings("npx -y @upstash/context7-mcp@latest"), ["\"share\": \"all\""]);
        assert_eq!(settings("npx -y some-server"), [""; 0]);
        let both = ["\"share\": \"all\"", "\"engine\": \"docker\""];
        assert_eq!(settings("/usr/bin/docker run -i mcp/fetch:1"), both);
        assert_eq!(
            settings("docker run -v /var/run/docker.sock:/var/run/docker.sock x"),
            ["\"engine\": \"off\""]
        );
    }
}
