//! Configurations of other clients, pasted unchanged.

use std::path::Path;

use super::super::{Reach, Share, parse};
use super::{environment, file, notices};

/// Command lines of all enabled servers of a configuration.
fn commands(text: &str) -> Vec<String> {
    let file = file(text);
    let (environment, cwd) =
        (environment(&[("HOME", "/home/u"), ("TOKEN", "t")]), Path::new("/work"));
    let described = file.servers.values().map(|entry| {
        let description = super::super::describe(entry, &environment, cwd);
        let state = description.disabled.map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{}: {}{state}", description.name, description.command.join(" "))
    });
    described.collect()
}

#[test]
fn claude_desktop() {
    let text = r#"{
      "mcpServers": {
        "filesystem": {
          "command": "npx",
          "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/u/Documents"]
        },
        "weather": { "command": "uvx", "args": ["weather-server"], "env": { "API_KEY": "0000" } }
      }
    }"#;
    let expected = [
        "filesystem: npx -y @modelcontextprotocol/server-filesystem /home/u/Documents",
        "weather: uvx weather-server",
    ];
    assert_eq!(commands(text), expected);
    assert_eq!(notices(&file(text)), [""; 0]);
}

#[test]
fn claude_code() {
    let text = r#"{ "mcpServers": {
      "db": { "type": "stdio", "command": "${PYTHON:-python3}", "args": ["-m", "db_server"], "env": { "DSN": "${TOKEN}" },
              "timeout": 600000, "alwaysLoad": true }
    } }"#;
    assert_eq!(commands(text), ["db: ${PYTHON:-…} -m db_server"]);
    let file = file(text);
    assert_eq!(file.servers["db"].limits.call.as_secs(), 600);
    let expected = [
        "mcpServers.db.timeout: taken as `callTimeout`: \"600000ms\"",
        "mcpServers.db.alwaysLoad: ignored: only another client uses it",
    ];
    assert_eq!(notices(&file), expected);
}

#[test]
fn cursor() {
    let text = r#"{ "mcpServers": { "local": {
      "command": "${workspaceFolder}/bin/server", "args": ["--home", "${userHome}"], "env": { "KEY": "${env:TOKEN}" }
    } } }"#;
    assert_eq!(commands(text), ["local: ${workspaceFolder}/bin/server --home ${HOME}"]);
}

#[test]
fn vs_code() {
    let text = r#"{
      "inputs": [{ "type": "promptString", "id": "key", "description": "API key", "password": true }],
      "servers": {
        // a comment
        "perplexity": { "type": "stdio", "command": "npx", "args": ["-y", "perplexity"], "env": { "KEY": "${input:key}" } },
        "plain": { "command": "node", "args": ["${workspaceFolder}/x.js"], "dev": { "watch": "*.js" } },
      }
    }"#;
    let expected = [
        "perplexity: npx -y perplexity (only another client can fill in ${input:key}; use variables instead)",
        "plain: node ${workspaceFolder}/x.js",
    ];
    assert_eq!(commands(text), expected);
    assert_eq!(commands(&format!(r#"{{"mcp": {text}}}"#)), expected);
}

#[test]
fn windsurf_and_antigravity() {
    let file = file(
        r#"{ "mcpServers": { "remote": { "serverUrl": "https://example.invalid/mcp", "headers": { "A": "b" },
             "disabled": true, "disabledTools": ["x"] } } }"#,
    );
    let entry = &file.servers["remote"];
    assert!(!entry.enabled && !entry.tools.permit("x"));
    let Reach::Remote(remote) = &entry.reach else { panic!("expected a url") };
    assert_eq!(remote.url.to_string(), "https://example.invalid/mcp");
}

#[test]
fn gemini() {
    let text = r#"{
      "mcp": { "allowed": ["a", "b"], "excluded": ["b"] },
      "mcpServers": {
        "a": { "command": "python", "args": ["s.py"], "cwd": "./tools", "timeout": 15000, "trust": false,
               "includeTools": ["read"], "excludeTools": ["write"], "env": { "KEY": "$KEY" } },
        "b": { "command": "x" },
        "c": { "command": "x" }
      }
    }"#;
    let file = file(text);
    let enabled = file.servers.values().filter(|entry| entry.enabled).map(|entry| &*entry.name);
    assert_eq!(enabled.collect::<Vec<_>>(), ["a"]);
    let a = &file.servers["a"];
    assert_eq!(a.limits.call.as_secs(), 15);
    assert!(a.tools.permit("read") && !a.tools.permit("write") && !a.tools.permit("other"));
    assert_eq!(file.notices.len(), 3, "timeout, trust and $KEY: {:?}", notices(&file));
}

#[test]
fn cline_and_kiro() {
    let text = r#"{ "mcpServers": { "s": { "command": "node", "args": ["s.js"], "disabled": true,
      "autoApprove": ["a"], "alwaysAllow": ["b"], "timeout": 60, "disabledTools": ["c"] } } }"#;
    let file = file(text);
    let s = &file.servers["s"];
    assert!(!s.enabled && !s.tools.permit("c"));
    assert_eq!(s.limits.call.as_secs(), 60);
    assert_eq!(s.share, Share::Agent);
}

#[test]
fn zed() {
    let text = r#"{ "context_servers": {
      "new": { "command": "some-command", "args": ["a"], "env": {} },
      "old": { "source": "custom", "enabled": true, "command": "other", "args": [] }
    } }"#;
    assert_eq!(commands(text), ["new: some-command a", "old: other"]);
}

#[test]
fn openclaw() {
    let text = r#"{ "mcp": { "servers": { "s": {
      "command": "x", "workingDirectory": "/w", "requestTimeoutMs": 2000, "connectionTimeoutMs": 1500,
      "toolFilter": { "include": ["a*"], "exclude": ["ab"] }, "supportsParallelToolCalls": true
    } } } }"#;
    let file = file(text);
    let s = &file.servers["s"];
    assert_eq!((s.limits.call.as_millis(), s.limits.start.as_millis()), (2000, 1500));
    assert!(s.tools.permit("aa") && !s.tools.permit("ab") && !s.tools.permit("b"));
    let Reach::Process(launch) = &s.reach else { panic!("expected a process") };
    assert_eq!(launch.cwd.as_ref().unwrap().to_string(), "/w");
}

#[test]
fn opencode_and_crush() {
    let text = r#"{ "mcp": {
      "local": { "type": "local", "command": ["npx", "-y", "thing"], "environment": { "A": "b" }, "enabled": true },
      "crush": { "type": "stdio", "command": "node", "args": ["x.js"] }
    } }"#;
    assert_eq!(commands(text), ["crush: node x.js", "local: npx -y thing"]);
}

#[test]
fn copilot_and_amp() {
    let text = r#"{
      "mcpServers": { "s": { "type": "local", "command": "x", "args": [], "tools": ["*"] } },
      "amp.mcpServers": { "t": { "command": "y" } }
    }"#;
    assert_eq!(commands(text), ["s: x", "t: y"]);
    assert!(file(text).servers["s"].tools.permit("any"));
}

#[test]
fn codex_as_json() {
    let text = r#"{ "mcp_servers": { "s": { "command": "x", "env_vars": ["TOKEN"], "startup_timeout_sec": 20,
      "tool_timeout_sec": 45.5, "enabled_tools": ["a"], "disabled_tools": ["b"], "required": true } } }"#;
    let file = file(text);
    let s = &file.servers["s"];
    assert_eq!((s.limits.start.as_secs(), s.limits.call.as_millis()), (20, 45_500));
    assert!(file.variables().contains("TOKEN") && file.variables().contains("PATH"));
}

/// The examples of the documentation.
#[test]
fn the_examples_of_the_documentation_are_valid() {
    let guide = include_str!("../../../../../docs/configuration.md");
    let examples: Vec<&str> =
        guide.split("```jsonc\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        parse(example, Path::new("docs/configuration.md")).unwrap_or_else(|said| panic!("{said}"));
    }
}
