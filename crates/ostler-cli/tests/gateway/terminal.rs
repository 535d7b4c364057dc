//! Untrusted text cannot control the terminal.

use ostler_testkit::{FakeHttp, FakeIssuer, Launched, Manners, Stage, standard, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway};

/// Erases the line, begins another one, goes up, and writes from right to left.
const HOSTILE: &str =
    "nice\u{1b}[2K\r\nforged  row\u{9b}1A\u{85}\u{202e}evil\u{200b}\u{2028}\u{7f}";

/// Lines of text, and nothing else.
fn assert_plain(what: &str, text: &str) {
    let steers = |c: char| {
        let reorders =
            "\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}";
        (c.is_control() && c != '\n') || reorders.contains(c)
    };
    assert!(!text.contains(steers), "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{what}: {text}");
}

fn hostile_client(test_gateway: &TestGateway) -> Client {
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a", "--agent", HOSTILE]));
    let info = json!({ "name": HOSTILE, "version": HOSTILE });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    client.call("initialize", &params);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    Client(client)
}

#[test]
fn a_client_and_a_server_cannot_forge_lines_of_a_listing() {
    let test_gateway = TestGateway::new(Stage::leaf());
    // Part of its command line, which ps and why show.
    let init_log = test_gateway.sandbox.file(&HOSTILE.replace('/', "")).display().to_string();
    test_gateway
        .configure(&[("a", test_gateway.stub("a", &["--init-log", &init_log], &json!({})))]);
    let mut gateway = test_gateway.serve(&[]);
    let mut client = hostile_client(&test_gateway);
    client.echo();
    let pid = test_gateway.starts("a")[0].to_string();

    let sessions = test_gateway.ostler(&["sessions"]);
    assert_plain("sessions", &sessions);
    assert_eq!(sessions.lines().count(), 2, "{sessions}");
    let ps = test_gateway.ostler(&["ps"]);
    assert_plain("ps", &ps);
    assert_eq!(ps.lines().count(), 2, "{ps}");
    assert_plain("ps --tree", &test_gateway.ostler(&["ps", "--tree"]));
    let why = test_gateway.ostler(&["why", &pid]);
    assert_plain("why", &why);
    assert_eq!(why.lines().count(), 11, "{why}");

    client.begin(7, "echo", &json!({ "complain": HOSTILE, "exit": true }));
    wait_until("its end is known", PATIENCE, || {
        test_gateway.ostler(&["events"]).contains("stderr: ")
    });
    let events = test_gateway.ostler(&["events"]);
    assert_plain("events", &events);
    let is_ours = |line: &str| {
        let is_detail = ["    stderr: ", "    what to do: ", "    command: "]
            .iter()
            .any(|start| line.starts_with(start));
        is_detail || line.starts_with(|c: char| c.is_ascii_digit())
    };
    assert!(events.lines().all(is_ours), "{events}");
    assert_plain("ps", &test_gateway.ostler(&["ps"]));
    assert_plain("ps --wide", &test_gateway.ostler(&["ps", "--wide"]));
    client.end();
    test_gateway.down_with(&mut gateway);
    assert_plain("serve", &gateway.stderr());
}

#[test]
fn json_output_has_no_raw_control_character() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut client = hostile_client(&test_gateway);
    client.echo();
    for words in [&["sessions", "--json"][..], &["ps", "--json"], &["events", "--json"]] {
        assert_plain(&words.join(" "), &test_gateway.ostler(words));
    }
    let sessions = test_gateway.ostler_json(&["sessions", "--json"]);
    assert_eq!((&sessions[0]["client"], &sessions[0]["agent"]), (&json!(HOSTILE), &json!(HOSTILE)));
    client.end();
    test_gateway.down();
}

#[test]
fn an_error_shows_hostile_input_escaped() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let config = test_gateway.sandbox.file(HOSTILE);
    std::fs::write(
        &config,
        format!(r#"{{"mcpServers": {{"b": {{"command": "x", "{HOSTILE}": 1}}}}}}"#),
    )
    .unwrap();
    let config = config.display().to_string();
    for words in [
        &["run", "--", HOSTILE][..],
        &["run", "--name", HOSTILE, "--", "/no/such/program"],
        &["stop", HOSTILE],
        &["restart", HOSTILE],
        &["why", HOSTILE],
        &[HOSTILE],
        &["check", "--config", &config],
        &["check", "--config", HOSTILE],
        &["serve", "--config", &config],
        &["serve", "--socket", HOSTILE, "--config", HOSTILE],
        &["connect", HOSTILE, "--config", &config],
        &["login", HOSTILE, "--config", &config],
        &["call", HOSTILE, "x", "--config", &config],
        &["call", "a", "echo", HOSTILE],
        &["tools", HOSTILE, "--socket", HOSTILE],
        &["ps", "--socket", HOSTILE],
    ] {
        let said = test_gateway.try_ostler(words);
        assert!(!said.status.success(), "{words:?}: {said:?}");
        let (out, err) =
            (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
        assert_plain(&words.join(" "), &format!("{out}{err}"));
        assert!(!err.is_empty(), "{words:?}");
    }
    test_gateway.expect_no_process();
}

#[test]
fn a_login_shows_remote_text_escaped() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let refused = |says: &[(&'static str, &str)]| {
        let says = says.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let issuer = FakeIssuer::new(Manners { says, ..Manners::default() });
        let fake = FakeHttp::new(issuer.guard(standard));
        test_gateway.configure(&[("far", json!({ "url": fake.url("/mcp") }))]);
        let config = test_gateway.config().display().to_string();
        let said = test_gateway.try_ostler(&[
            "login",
            "far",
            "--no-browser",
            "--timeout",
            "1s",
            "--config",
            &config,
        ]);
        assert!(!said.status.success(), "{said:?}");
        String::from_utf8(said.stderr).unwrap() + &String::from_utf8(said.stdout).unwrap()
    };
    assert_plain("issuer", &refused(&[("issuer", HOSTILE)]));
    for endpoint in
        ["http://127.0.0.1:1/\u{202e}x", "http://127.0.0.1:1/\u{1b}[2J", "http://127.0.0.1:1/a"]
    {
        assert_plain("endpoint", &refused(&[("authorization_endpoint", endpoint)]));
    }
}

#[test]
fn check_shows_a_hostile_configuration_escaped() {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway
        .configure(&[("a", json!({ "command": HOSTILE, "args": [HOSTILE], "share": "all" }))]);
    let config = test_gateway.config().display().to_string();
    let text = test_gateway.ostler(&["check", "--config", &config]);
    assert_plain("check", &text);
    assert_eq!(text.lines().count(), 3, "{text}");
    let json = test_gateway.ostler(&["check", "--json", "--config", &config]);
    assert_plain("check --json", &json);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["servers"][0]["command"][0], HOSTILE);
}
