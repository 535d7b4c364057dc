//! `check` and `schema`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use ostler_testkit::binary;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory with a configuration, in which the command runs with little in its environment.
struct Desk {
    directory: TempDir,
}

impl Desk {
    fn with(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ostler.json"), text).unwrap();
        Self { directory }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn ostler(&self, words: &[&str]) -> Output {
        let mut command = Command::new(binary("ostler"));
        let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/none"), ("TOKEN", "s3cret")];
        command.args(words).current_dir(self.root()).env_clear().envs(variables);
        command.output().unwrap()
    }
}

/// The exit code, stdout and stderr.
fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const GOOD: &str = r#"{
  // Two valid servers and two disabled ones.
  "mcpServers": {
    "everything": { "command": "npx", "args": ["-y", "everything", "--token", "s3cret", "${TOKEN}"], "trust": true },
    "shared": { "command": "/bin/x", "env": { "KEY": "${TOKEN}" }, "share": "all" },
    "lacking": { "command": "x", "args": ["${MISSING}"] },
    "off": { "command": "x", "disabled": true }
  }
}"#;

#[test]
fn check_lists_the_command_of_each_server() {
    let desk = Desk::with(GOOD);
    let path = desk.root().join("ostler.json").display().to_string();
    let (code, stdout, stderr) = said(&desk.ostler(&["check"]));
    assert_eq!(
        stdout,
        format!(
            "{path}: 4 servers, 2 disabled\n\
             NAME        SHARE  RUNS OR REACHES\n\
             everything  agent  npx -y everything --token … ${{TOKEN}}\n\
             lacking     agent  disabled: MISSING is not set\n\
             off         agent  disabled: the configuration says `enabled: false`\n\
             shared      all    /bin/x\n"
        )
    );
    let notice = format!(
        "ostler: {path}:4:102: mcpServers.everything.trust: ignored: only another client uses it\n  4 |"
    );
    assert!(stderr.starts_with(&notice), "{stderr}");
    assert_eq!(code, 0);
}

#[test]
fn check_prints_json() {
    let desk = Desk::with(GOOD);
    let (code, stdout, stderr) = said(&desk.ostler(&["check", "--json"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(!stdout.contains("s3cret"));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["config"], json!(desk.root().join("ostler.json")));
    assert_eq!(report["errors"], json!([]));
    assert_eq!(report["notices"][0]["line"], 4);
    assert_eq!(
        report["servers"][3],
        json!({
            "name": "shared", "disabled": null, "command": ["/bin/x"], "env": ["HOME", "KEY", "PATH"],
            "url": null, "headers": [], "cwd": null, "share": "all", "containment": "auto",
            "warnings": ["there is no program at /bin/x"],
        })
    );
}

#[test]
fn check_points_at_each_mistake() {
    let desk = Desk::with(
        "{ \"mcpServers\": { \"a\": { \"comand\": \"x\", \"env\": { \"T\": \"s3cret\" } } },\n  \"caps\": 1 }",
    );
    let path = desk.root().join("ostler.json").display().to_string();
    let (code, stdout, stderr) = said(&desk.ostler(&["check"]));
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(
        stderr,
        format!(
            "{path}:1:26: mcpServers.a.comand: unknown key; did you mean `command`?\n  \
             1 | {{ \"mcpServers\": {{ \"a\": {{ \"comand\": \"…\", \"env\": {{ \"T\": \"…\" }} }} }},\n    \
               |                          ^^^^^^^^\n\
             {path}:2:11: caps: expected an object, found a number\n  \
             2 |   \"caps\": … }}\n    \
               |           ^\n"
        )
    );
    let (code, stdout, stderr) = said(&desk.ostler(&["check", "--json"]));
    assert_eq!((code, stderr.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["errors"].as_array().unwrap().len(), 2);
    assert_eq!(
        report["errors"][1],
        json!({"line": 2, "column": 11, "message": "caps: expected an object, found a number"})
    );
}

#[test]
fn check_lists_the_places_that_it_searched() {
    let desk = Desk::with("{}");
    assert_eq!(said(&desk.ostler(&["check"])).0, 0);
    let (code, _, stderr) = said(&desk.ostler(&["check", "--config", "/none.json"]));
    assert_eq!(code, 1);
    let expected = "ostler: cannot read the configuration /none.json: No such file or directory";
    assert!(stderr.starts_with(expected), "{stderr}");
    fs::remove_file(desk.root().join("ostler.json")).unwrap();
    let (code, _, stderr) = said(&desk.ostler(&["check"]));
    let here = desk.root().join("ostler.json").display().to_string();
    let expected = format!(
        "ostler: no configuration found; looked for {here}, /none/.config/ostler/ostler.json\n"
    );
    assert_eq!((code, stderr), (1, expected));
}

#[test]
fn schema_prints_a_json_schema() {
    let (code, stdout, _) = said(&Desk::with("").ostler(&["schema"]));
    let schema: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    assert_eq!(schema["title"], "ostler.json");
    assert!(schema["properties"]["mcpServers"]["additionalProperties"]["$ref"].is_string());
}

/// A server and tokens that can't work here, each for another reason.
const DOUBTFUL: &str = r#"{
  "mcpServers": {
    "typo": { "command": "no-such-program" },
    "gone": { "command": "/no/such/program" },
    "data": { "command": "/etc/passwd" },
    "lost": { "command": "true", "cwd": "/no/such/directory" },
    "fine": { "command": "true", "cwd": "/" }
  },
  "tokens": {
    "short": { "token": "${TOKEN}" },
    "unset": { "token": "${MISSING}" },
    "strange": { "token": "0123456789abcdef", "servers": ["fine", "fin", "x-*"] },
    "twice": { "token": "0123456789abcdef" }
  }
}"#;

#[test]
fn check_warns_of_commands_and_tokens_that_cannot_work() {
    let desk = Desk::with(DOUBTFUL);
    let (code, _, stderr) = said(&desk.ostler(&["check"]));
    for expected in [
        "typo: the program 'no-such-program' is not on the PATH: /usr/bin:/bin",
        "gone: there is no program at /no/such/program",
        "data: /etc/passwd is not executable",
        "lost: its working directory /no/such/directory does not exist",
        "tokens.short: a token has at least 16 characters, and no spaces",
        "tokens.unset: MISSING is not set",
        "tokens.strange.servers: no server is called 'fin'",
        "tokens.strange.servers: no server is called 'x-*'",
        "tokens.twice: another token is the same",
    ] {
        assert!(stderr.contains(expected), "{expected}: {stderr}");
    }
    assert!(!stderr.contains("fine:") && !stderr.contains("s3cret"), "{stderr}");
    assert_eq!(code, 0);
    let (_, stdout, _) = said(&desk.ostler(&["check", "--json"]));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let warned = |name: &str| {
        let mut all = report["servers"].as_array().unwrap().iter();
        all.find(|server| server["name"] == name).unwrap()["warnings"].as_array().unwrap().len()
    };
    assert_eq!(["typo", "gone", "data", "lost", "fine"].map(warned), [1, 1, 1, 1, 0]);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 5);
}

#[test]
fn a_configuration_at_another_place_is_mentioned() {
    let desk = Desk::with("{}");
    let near = desk.root().join("ostler.json").display().to_string();
    let meant = desk.root().join("ostler/ostler.json").display().to_string();
    let mut command = Command::new(binary("ostler"));
    command.arg("check").current_dir("/").env_clear().env("XDG_CONFIG_HOME", desk.root());
    let (code, _, stderr) = said(&command.output().unwrap());
    let hint = format!("{near} is not read; move it to {meant}");
    assert!(stderr.contains(&hint), "{stderr}");
    assert!(stderr.contains(&format!("looked for /ostler.json, {meant}")), "{stderr}");
    assert_eq!(code, 1);
}
