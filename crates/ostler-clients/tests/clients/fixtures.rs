//! A real-shaped file of each client.

/// Files by client.
pub(crate) const FIXTURES: &[(&str, &str)] = &[
    ("claude-desktop", include_str!("../fixtures/claude-desktop.json")),
    ("claude-code", include_str!("../fixtures/claude-code.json")),
    ("cursor", include_str!("../fixtures/cursor.json")),
    ("vscode", include_str!("../fixtures/vscode.json")),
    ("codex", include_str!("../fixtures/codex.toml")),
    ("gemini", include_str!("../fixtures/gemini.json")),
    ("zed", include_str!("../fixtures/zed.json")),
    ("windsurf", include_str!("../fixtures/windsurf.json")),
    ("openclaw", include_str!("../fixtures/openclaw.json5")),
    ("opencode", include_str!("../fixtures/opencode.json")),
    ("goose", include_str!("../fixtures/goose.yaml")),
    ("cline", include_str!("../fixtures/cline.json")),
    ("copilot", include_str!("../fixtures/copilot.json")),
    ("lmstudio", include_str!("../fixtures/lmstudio.json")),
    ("amp", include_str!("../fixtures/amp.json")),
    ("kiro", include_str!("../fixtures/kiro.json")),
    ("qwen", include_str!("../fixtures/qwen.json")),
    ("crush", include_str!("../fixtures/crush.json")),
];

/// The file of a client.
pub(crate) fn of(client: &str) -> &'static str {
    FIXTURES.iter().find(|(name, _)| *name == client).unwrap().1
}

#[test]
fn every_client_has_a_fixture() {
    let clients: Vec<&str> = ostler_clients::CLIENTS.iter().map(|client| client.id).collect();
    let fixtures: Vec<&str> = FIXTURES.iter().map(|(client, _)| *client).collect();
    assert_eq!(clients, fixtures);
}
