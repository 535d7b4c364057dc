//! What is taken over from each client.

use ostler_clients::{Configuration, Outcome, Taking};

use crate::fixtures;
use crate::home::Home;

/// The entries in ostler.json after an import, as JSON on one line each, and the reasons for those that were left.
fn imported(client: &str) -> (serde_json::Value, Vec<String>) {
    let home = Home::with(client, fixtures::of(client));
    let mut configuration = home.configuration();
    let imports = home.import(client, &mut configuration);
    let left = imports.iter().filter_map(|import| match &import.outcome {
        Outcome::Left(reason) => Some(format!("{}: {reason}", import.name)),
        _ => None,
    });
    let left = left.collect();
    let text =
        configuration.edited(&|_| Ok(())).unwrap().unwrap_or("{\"mcpServers\": {}}".to_owned());
    (serde_json::from_str::<serde_json::Value>(&text).unwrap()["mcpServers"].clone(), left)
}

#[test]
fn each_clients_entries_become_ostlers() {
    let cases = [
        (
            "claude-desktop",
            "brave-search",
            r#"{"command":"npx","args":["-y","@modelcontextprotocol/server-brave-search"],"env":{"BRAVE_API_KEY":"BSA-s3cret"}}"#,
        ),
        (
            "claude-code",
            "github",
            r#"{"command":"docker","args":["run","-i","--rm","-e","GITHUB_PERSONAL_ACCESS_TOKEN","ghcr.io/github/github-mcp-server"],"env":{"GITHUB_PERSONAL_ACCESS_TOKEN":"${GITHUB_TOKEN}"}}"#,
        ),
        (
            "claude-code",
            "db",
            r#"{"command":"uvx","args":["mcp-server-sqlite","--db-path","${HOME}/a.db"]}"#,
        ),
        (
            "claude-code",
            "search",
            r#"{"url":"https://example.invalid/mcp","headers":{"Authorization":"Bearer ${SEARCH_TOKEN:-none}"}}"#,
        ),
        (
            "cursor",
            "notes",
            r#"{"command":"node","args":["${workspaceFolder}/notes.js"],"env":{"TOKEN":"${NOTES_TOKEN}"},"envFile":"${workspaceFolder}/.env","enabled":false}"#,
        ),
        ("vscode", "fetch", r#"{"command":"uvx","args":["mcp-server-fetch"]}"#),
        (
            "codex",
            "github",
            r#"{"command":"docker","args":["run","-i","--rm","-e","GITHUB_PERSONAL_ACCESS_TOKEN","ghcr.io/github/github-mcp-server"],"inheritEnv":["$default","GITHUB_PERSONAL_ACCESS_TOKEN"],"tools":{"allow":["search_code"]}}"#,
        ),
        (
            "codex",
            "figma",
            r#"{"url":"https://mcp.example.invalid/mcp","headers":{"Authorization":"Bearer ${FIGMA_TOKEN}","X-Region":"eu"}}"#,
        ),
        (
            "gemini",
            "py",
            r#"{"command":"python","args":["-m","my_mcp_server","--port","8080"],"env":{"API_KEY":"${API_KEY}","DATABASE_URL":"${DB_URL}"},"cwd":"${workspaceFolder}/./mcp-servers/python","tools":{"allow":["safe_tool"]}}"#,
        ),
        ("zed", "older", r#"{"command":"uvx","args":["mcp-server-time"],"env":{"TZ":"UTC"}}"#),
        (
            "windsurf",
            "remote",
            r#"{"url":"https://example.invalid/mcp","headers":{"API_KEY":"Bearer ${AUTH_TOKEN}"}}"#,
        ),
        (
            "openclaw",
            "files",
            r#"{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/home/ada/clawd"],"cwd":"/home/ada/clawd"}"#,
        ),
        (
            "opencode",
            "everything",
            r#"{"command":"npx","args":["-y","@modelcontextprotocol/server-everything"],"env":{"LOG":"${LOG_LEVEL:-}"}}"#,
        ),
        (
            "goose",
            "fetch",
            r#"{"command":"uvx","args":["mcp-server-fetch"],"inheritEnv":["$default","FETCH_TOKEN"]}"#,
        ),
        ("goose", "docs", r#"{"url":"https://example.invalid/mcp","headers":{"X-Key":"s3cret"}}"#),
        (
            "cline",
            "linear",
            r#"{"command":"npx","args":["-y","linear-mcp"],"env":{"LINEAR_API_KEY":"lin-s3cret"}}"#,
        ),
        (
            "copilot",
            "context7",
            r#"{"url":"https://mcp.example.invalid/mcp","headers":{"CONTEXT7_API_KEY":"${CONTEXT7_API_KEY}"},"tools":{"allow":["get-library-docs"]}}"#,
        ),
        ("lmstudio", "time", r#"{"command":"uvx","args":["mcp-server-time"]}"#),
        ("amp", "semgrep", r#"{"command":"semgrep","args":["mcp"],"tools":{"allow":["scan*"]}}"#),
        (
            "kiro",
            "aws-docs",
            r#"{"command":"uvx","args":["awslabs.aws-documentation-mcp-server@latest"],"env":{"AWS_PROFILE":"${AWS_PROFILE}","FASTMCP_LOG_LEVEL":"ERROR"},"tools":{"deny":["recommend"]}}"#,
        ),
        (
            "qwen",
            "files",
            r#"{"command":"node","args":["server.js"],"env":{"TOKEN":"${FILES_TOKEN}"}}"#,
        ),
        (
            "crush",
            "github",
            r#"{"url":"https://api.example.invalid/mcp/","headers":{"Authorization":"Bearer ${GH_PAT}"}}"#,
        ),
    ];
    for (client, name, expected) in cases {
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(imported(client).0[name], expected, "{client} {name}");
    }
}

#[test]
fn what_only_the_client_can_do_is_left_with_the_reason() {
    let cases = [
        ("vscode", "asks: only the client can fill in ${input:token}"),
        ("opencode", "secret: only the client can fill in {file:~/.secret}"),
        ("crush", "filesystem: only the client can fill in $(…)"),
    ];
    for (client, reason) in cases {
        assert_eq!(imported(client).1, [reason]);
    }
    for (client, _) in fixtures::FIXTURES {
        if cases.iter().all(|(other, _)| other != client) {
            assert_eq!(imported(client).1, [""; 0], "{client}");
        }
    }
}

fn outcome(configuration: &mut Configuration, client: &str, text: &str) -> (String, Taking) {
    let home = Home::with(client, text);
    let imports = home.import(client, configuration);
    match &imports[0].outcome {
        Outcome::Taken { name, taking, .. } => (name.clone(), taking.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_server_of_two_clients_is_one_and_another_with_its_name_gets_a_new_one() {
    let mut configuration = Home::empty().configuration();
    let take = &mut |client: &str, text: &str| outcome(&mut configuration, client, text);
    let plain = r#"{"mcpServers": {"a": {"command": "x", "args": ["1"], "env": {"T": "${T}"}}}}"#;
    assert_eq!(take("claude-code", plain), ("a".into(), Taking::Added));
    let editor = plain.replace("${T}", "${env:T}").replace("\"a\"", "\"b\"");
    assert_eq!(take("cursor", &editor), ("a".into(), Taking::Known));
    let other = plain.replace("${T}", "literal");
    assert_eq!(take("claude-desktop", &other), ("a-claude-desktop".into(), Taking::Renamed));
    assert_eq!(take("claude-desktop", &other), ("a-claude-desktop".into(), Taking::Known));
}

#[test]
fn docker_names_its_enabled_servers_and_keeps_its_secrets() {
    let home = Home::empty();
    let directory = home.machine.home.join(".docker/mcp");
    std::fs::create_dir_all(directory.join("catalogs")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    write(
        "registry.yaml",
        "registry:\n  brave:\n    ref: \"\"\n  notion:\n    ref: \"\"\n  files:\n    ref: \"\"\n",
    );
    write(
        "catalogs/docker-mcp.yaml",
        "registry:\n  brave:\n    type: server\n    image: mcp/brave-search@sha256:0123\n    secrets:\n    - name: brave.api_key\n      env: BRAVE_API_KEY\n    env:\n    - name: BRAVE_MCP_TRANSPORT\n      value: stdio\n  notion:\n    type: remote\n    remote:\n      url: https://example.invalid/mcp\n      transport_type: streamable-http\n  files:\n    image: mcp/filesystem\n    volumes:\n    - '{{filesystem.paths|volume|into}}'\n  off:\n    image: mcp/off\n",
    );
    let mut configuration = home.configuration();
    let source = ostler_clients::Source::Docker;
    let imports =
        ostler_clients::import(&home.machine, &source, false, &mut configuration, &|_| Ok(()))
            .unwrap();
    assert_eq!(imports.len(), 3);
    assert!(matches!(imports[2].outcome, Outcome::Left(_)));
    let text = configuration.edited(&|_| Ok(())).unwrap().unwrap();
    let servers = &serde_json::from_str::<serde_json::Value>(&text).unwrap()["mcpServers"];
    let brave = serde_json::json!({
        "command": "docker",
        "args": ["run", "-i", "--rm", "--init", "-e", "BRAVE_API_KEY", "-e", "BRAVE_MCP_TRANSPORT", "mcp/brave-search@sha256:0123"],
        "env": { "BRAVE_API_KEY": "${BRAVE_API_KEY}", "BRAVE_MCP_TRANSPORT": "stdio" },
    });
    assert_eq!(servers["brave"], brave);
    assert_eq!(servers["notion"], serde_json::json!({ "url": "https://example.invalid/mcp" }));
}
