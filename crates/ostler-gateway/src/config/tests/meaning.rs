//! Meaning of the settings.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use ostler::keeper::{Caps, ServerLimits};
use ostler::{Limits, Resources};
use serde_json::Value;

use super::super::{Carrier, Engine, Era, Hold, Launch, Names, Reach, Share, schema};
use super::{file, server};

fn launch(body: &str) -> Launch {
    match server(body).reach {
        Reach::Process(launch) => launch,
        Reach::Remote(_) => panic!("expected a process"),
    }
}

#[test]
fn a_command_is_enough() {
    let entry = server(r#"{"command": "x"}"#);
    assert!(entry.enabled && entry.tools.permit("anything"));
    assert_eq!((entry.share, entry.era), (Share::Agent, Era::Auto));
    assert_eq!((entry.max_instances, entry.max_concurrency), (None, None));
    assert_eq!(entry.limits, ServerLimits::default());
    let launch = launch(r#"{"command": "x"}"#);
    assert_eq!(launch.grace, Limits::default().grace);
    assert_eq!(launch.resources, Resources::default());
    assert_eq!((launch.engine, launch.containment), (Engine::Auto, Hold::Auto));
    assert_eq!(*launch.inherit.names(), Names::inherited());
}

#[test]
fn every_setting_has_its_effect() {
    let body = r#"{
        // JSON with comments,
        "command": "x", "args": ["a"], "env": {"A": "1"}, "envFile": ".env", "cwd": "/tmp",
        "inheritEnv": ["PATH", "AWS_*"], "enabled": false, "tools": {"allow": ["read_*"], "deny": ["read_all"]},
        "share": "session", "maxInstances": 2, "maxConcurrency": 1, "idleTimeout": "never", "startTimeout": "90s",
        "callTimeout": "1h", "drainTimeout": "500ms", "grace": "3s", "engine": "off", "containment": "strict",
        "limits": {"memory": "512MiB", "cpus": 1.5, "pids": 100, "containers": 4}, "era": "legacy", /* and commas: */
    }"#;
    let entry = server(body);
    assert!(!entry.enabled);
    let permitted = ["read_one", "read_all", "write"].map(|tool| entry.tools.permit(tool));
    assert_eq!(permitted, [true, false, false]);
    assert_eq!((entry.share, entry.era), (Share::Session, Era::Legacy));
    assert_eq!(
        (entry.max_instances.map(NonZeroUsize::get), entry.max_concurrency),
        (Some(2), Some(NonZeroUsize::MIN))
    );
    let expected = ServerLimits {
        idle: None,
        start: Duration::from_secs(90),
        call: Duration::from_hours(1),
        drain: Duration::from_millis(500),
        ..ServerLimits::default()
    };
    assert_eq!(entry.limits, expected);
    let launch = launch(body);
    assert_eq!(launch.grace, Duration::from_secs(3));
    assert_eq!((launch.engine, launch.containment), (Engine::Off, Hold::Strict));
    let expected = Resources {
        memory: Some("512m".parse().unwrap()),
        cpus: Some("1.5".parse().unwrap()),
        pids: NonZeroU64::new(100),
        containers: NonZeroUsize::new(4),
    };
    assert_eq!(launch.resources, expected);
    assert!(launch.inherit.contains("AWS_REGION") && !launch.inherit.contains("HOME"));
    assert_eq!(launch.cwd.unwrap().to_string(), "/tmp");
    assert_eq!(launch.env_file.unwrap().to_string(), ".env");
}

#[test]
fn caps_have_defaults_that_a_file_can_change() {
    assert_eq!(file("{}").caps, Caps::default());
    let caps = file(r#"{"caps": {"instances": 3, "containers": 0, "queueTimeout": "1m"}}"#).caps;
    let queue_timeout = Duration::from_mins(1);
    assert_eq!(caps, Caps { instances: 3, containers: 0, queue_timeout, ..Caps::default() });
}

#[test]
fn null_means_the_default() {
    assert!(server(r#"{"command": "x", "env": null, "enabled": null, "disabled": null}"#).enabled);
}

#[test]
fn the_variables_that_it_names_are_known() {
    let file = file(
        r#"{"mcpServers": {
            "a": {"command": "${BIN}/x", "args": ["${env:ARG}"], "env": {"A": "${TOKEN:-x}"}, "envFile": "${E}",
                  "cwd": "${userHome}/${D}", "inheritEnv": ["AWS_*"]},
            "off": {"command": "${OFF}", "enabled": false}
        }}"#,
    );
    let names = file.variables();
    let all: Vec<&str> = names.iter().collect();
    assert_eq!(all, ["ARG", "AWS_*", "BIN", "D", "E", "HOME", "TOKEN"]);
}

#[test]
fn nothing_that_is_shown_holds_a_secret() {
    let file = file(
        r#"{"mcpServers": {"a": {"command": "x", "args": ["--token", "s3cret", "s3cret"], "cwd": "/s3cret",
            "env": {"TOKEN": "s3cret", "OTHER": "${X:-s3cret}"}, "envFile": "/s3cret"}}}"#,
    );
    assert!(!format!("{file:?}").contains("s3cret"));
}

/// Parses a server with a URL.
fn remote(body: &str) -> super::super::Remote {
    match server(body).reach {
        Reach::Remote(remote) => remote,
        Reach::Process(_) => panic!("expected a url"),
    }
}

#[test]
fn remote_servers_are_read() {
    for (body, carrier, headers) in [
        (r#"{"url": "https://x.invalid"}"#, Carrier::Any, ""),
        (r#"{"type": "sse", "url": "https://x.invalid"}"#, Carrier::Sse, ""),
        (r#"{"type": "streamable-http", "url": "http://x.invalid"}"#, Carrier::Http, ""),
        (r#"{"httpUrl": "https://x.invalid"}"#, Carrier::Http, ""),
        (r#"{"serverUrl": "${URL}", "headers": {"A": "b"}}"#, Carrier::Any, "A: b"),
        (
            r#"{"url": "https://x.invalid", "bearer_token_env_var": "T", "env_http_headers": {"X": "Y"}}"#,
            Carrier::Any,
            "Authorization: Bearer ${T}, X: ${Y}",
        ),
    ] {
        let remote = remote(body);
        assert_eq!(remote.carrier, carrier, "{body}");
        let said = remote.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        assert_eq!(said.collect::<Vec<_>>().join(", "), headers, "{body}");
    }
}

#[test]
fn a_remote_server_is_shared_only_if_its_entry_says_so() {
    assert_eq!(server(r#"{"url": "https://x.invalid"}"#).share, Share::Session);
    assert_eq!(server(r#"{"url": "https://x.invalid", "share": "all"}"#).share, Share::All);
    assert_eq!(server(r#"{"command": "x"}"#).share, Share::Agent);
}

#[test]
fn the_schema_knows_every_key() {
    let schema = schema();
    let properties = schema["properties"].as_object().unwrap();
    for key in ["$schema", "mcpServers", "caps", "detachTimeout", "servers", "inputs"] {
        assert!(properties.contains_key(key), "{key}");
    }
    let server = &schema["$defs"]["Server"];
    for key in ["command", "idleTimeout", "limits", "share", "disabled", "autoApprove"] {
        assert!(server["properties"].get(key).is_some(), "{key}");
    }
    assert_eq!(server["additionalProperties"], Value::Bool(false));
    assert_eq!(server["properties"]["idleTimeout"]["examples"][0], "10m");
    assert_eq!(server["properties"]["limits"]["additionalProperties"], Value::Bool(false));
}

#[test]
fn every_key_that_the_schema_allows_is_known_to_the_reader() {
    let schema = schema();
    for key in schema["$defs"]["Server"]["properties"].as_object().unwrap().keys() {
        let text = format!(r#"{{"mcpServers": {{"s": {{"command": "x", "{key}": []}}}}}}"#);
        let said = super::super::parse(&text, std::path::Path::new("x"));
        assert!(said.map_or_else(|p| !p.to_string().contains("unknown"), |_| true), "{key}");
    }
}

#[test]
fn a_server_that_keeps_state_is_not_shared_unless_its_entry_says_so() {
    let text = r#"{ "mcpServers": {
        "browser": { "command": "npx", "args": ["-y", "@playwright/mcp@latest"] },
        "shared": { "command": "npx", "args": ["-y", "@playwright/mcp"], "share": "agent" },
        "other": { "command": "npx", "args": ["-y", "some-server"] } } }"#;
    let file = file(text);
    let share = |name: &str| file.servers[name].share;
    assert_eq!((share("browser"), share("shared")), (Share::Session, Share::Agent));
    assert_eq!(share("other"), Share::default());
    let notices: Vec<String> = file.notices.iter().map(|notice| notice.message.clone()).collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("keeps state between calls"), "{notices:?}");
}
