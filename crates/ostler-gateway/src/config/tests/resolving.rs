//! Resolution of entries for a client's environment and working directory.

use std::fs;
use std::path::Path;

use ostler::keeper::{Server, Sharing};
use ostler::{Containment, Level};

use super::super::{Disabled, describe, parse, resolve};
use super::{environment, server};
use crate::reason::why;

const CWD: &str = "/work";

fn resolved(body: &str, variables: &[(&str, &str)]) -> Result<Server, Disabled> {
    let resolved = resolve(&server(body), &environment(variables), Path::new(CWD));
    resolved.map(|resolved| resolved.server)
}

/// Command line, environment and working directory of a server.
fn seen(server: &Server) -> (Vec<String>, Vec<String>, Option<&str>) {
    let spec = server.spec().unwrap();
    let words = std::iter::once(&spec.program).chain(&spec.args);
    let words = words.map(|word| word.to_str().unwrap().to_owned()).collect();
    let env = spec.env.iter();
    let env = env.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
    (words, env, spec.cwd.as_ref().map(|cwd| cwd.to_str().unwrap()))
}

#[test]
fn variables_are_filled_in_everywhere() {
    let server = resolved(
        r#"{"command": "${BIN:-/bin}/x", "args": ["${A}", "-${env:A}-"], "env": {"TOKEN": "${SECRET}"},
            "cwd": "${workspaceFolder}/${A}"}"#,
        &[("A", "1"), ("SECRET", "s3cret"), ("OTHER", "x"), ("PATH", "/bin")],
    );
    let server = server.unwrap();
    let (words, env, cwd) = seen(&server);
    assert_eq!(words, ["/bin/x", "1", "-1-"]);
    assert_eq!(env, ["PATH=/bin", "TOKEN=s3cret"]);
    assert_eq!(cwd, Some("/work/1"));
    assert!(!format!("{server:?}").contains("s3cret"));
}

#[test]
fn only_the_default_variables_are_inherited() {
    let variables = [
        ("HOME", "/h"),
        ("PATH", "/bin"),
        ("https_proxy", "p"),
        ("SSL_CERT_FILE", "f"),
        ("LC_ALL", "C"),
        ("TERM", "() { :; }"),
        ("GITHUB_TOKEN", "s3cret"),
        ("AWS_REGION", "r"),
    ];
    let inherited = |keys: &str| {
        let server = resolved(&format!(r#"{{"command": "x"{keys}}}"#), &variables).unwrap();
        seen(&server).1.join(" ")
    };
    let usual = "HOME=/h LC_ALL=C PATH=/bin SSL_CERT_FILE=f https_proxy=p";
    assert_eq!(inherited(""), usual);
    assert_eq!(inherited(r#", "inheritEnv": []"#), "");
    assert_eq!(inherited(r#", "inheritEnv": ["PATH", "AWS_*"]"#), "AWS_REGION=r PATH=/bin");
    let more = format!("AWS_REGION=r {usual}");
    assert_eq!(inherited(r#", "inheritEnv": ["$default", "AWS_*"]"#), more);
    assert_eq!(inherited(r#", "env_vars": ["AWS_REGION"]"#), more);
    assert_eq!(inherited(r#", "inheritEnv": ["PATH"], "env": {"PATH": "/own"}"#), "PATH=/own");
}

#[test]
fn tokens_are_not_inherited_but_can_be_passed_explicitly() {
    let text = r#"{"tokens": {"ci": {"token": "${CI_TOKEN}"}}, "mcpServers": {
        "all": {"command": "x", "inheritEnv": ["*"]},
        "given": {"command": "x", "inheritEnv": ["*"], "env": {"OSTLER_TOKEN": "${OSTLER_TOKEN}"}}}}"#;
    let file = parse(text, Path::new("/etc/ostler.json")).unwrap();
    let variables = environment(&[
        ("A", "1"),
        ("CI_TOKEN", "2"),
        ("OSTLER_TOKEN", "3"),
        ("OSTLER_CONFIG", "4"),
    ]);
    let env = |name: &str| {
        seen(&resolve(&file.servers[name], &variables, Path::new(CWD)).unwrap().server).1.join(" ")
    };
    assert_eq!(env("all"), "A=1");
    assert_eq!(env("given"), "A=1 OSTLER_TOKEN=3");
}

#[test]
fn a_missing_variable_disables_only_its_server() {
    for (body, expected) in [
        (r#"{"command": "x", "enabled": false}"#, "the configuration says `enabled: false`"),
        (r#"{"command": "${A}", "env": {"X": "${NONE}"}}"#, "NONE is not set"),
        (r#"{"command": "${NO}", "args": ["${NONE}"]}"#, "NO, NONE are not set"),
        (
            r#"{"command": "x", "args": ["${input:token}"]}"#,
            "only another client can fill in ${input:token}; use variables instead",
        ),
        (r#"{"command": "${EMPTY}"}"#, "its command is empty"),
        (r#"{"command": "x", "env": {"X": "${NUL}"}}"#, "one of its variables contains a NUL byte"),
    ] {
        let variables = [("A", "1"), ("EMPTY", ""), ("NUL", "\0")];
        let disabled = resolved(body, &variables).unwrap_err();
        assert_eq!(disabled.to_string(), expected, "{body}");
    }
}

#[test]
fn a_server_runs_in_the_clients_directory_unless_all_share_it() {
    for (keys, expected) in [
        ("", Some("/work")),
        (r#", "share": "session""#, Some("/work")),
        (r#", "share": "all""#, None),
        (r#", "share": "all", "cwd": "${workspaceFolder}""#, Some("/work")),
        (r#", "cwd": "sub""#, Some("/work/sub")),
        (r#", "cwd": "/abs""#, Some("/abs")),
    ] {
        let server = resolved(&format!(r#"{{"command": "x"{keys}}}"#), &[]).unwrap();
        assert_eq!(seen(&server).2, expected, "{keys}");
    }
}

#[test]
fn the_terms_are_those_of_the_configuration() {
    let body = r#"{"command": "/usr/bin/docker", "args": ["run", "x"], "share": "all", "grace": "3s",
        "containment": "leaf", "limits": {"pids": 7}, "maxInstances": 1, "idleTimeout": "1m"}"#;
    let server = resolved(body, &[]).unwrap();
    assert_eq!(server.sharing, Sharing::All);
    assert_eq!(server.terms.limits.grace.as_secs(), 3);
    assert_eq!(server.terms.containment, Containment::AtLeast(Level::Leaf));
    assert_eq!(server.terms.resources.pids.unwrap().get(), 7);
    assert_eq!((server.max_instances.get(), server.containers), (1, 1));
    assert_eq!(server.limits.idle.unwrap().as_secs(), 60);
}

#[test]
fn a_file_of_variables_is_read_from_beside_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ostler.json");
    fs::write(directory.path().join("own.env"), "A=file\nB=file\n").unwrap();
    let text =
        r#"{"mcpServers": {"s": {"command": "x", "env": {"B": "own"}, "envFile": "${NAME}.env"}}}"#;
    let entry = parse(text, &path).unwrap().servers.remove("s").unwrap();
    let with = |name| {
        let resolved = resolve(&entry, &environment(&[("NAME", name)]), Path::new(CWD));
        resolved.map(|resolved| resolved.server)
    };
    assert_eq!(seen(&with("own").unwrap()).1, ["A=file", "B=own"]);

    fs::write(directory.path().join("bad.env"), "A=1\ns3cret\n").unwrap();
    let variables = environment(&[("NAME", "bad")]);
    let said = describe(&entry, &variables, Path::new(CWD)).disabled.unwrap();
    assert!(said.ends_with("bad.env: line 2: expected NAME=value"), "{said}");
    assert!(matches!(with("none"), Err(Disabled::EnvFile { .. })));
}

#[test]
fn a_description_holds_no_secret() {
    let entry = server(
        r#"{"command": "npx", "args": ["--token", "s3cret", "-H", "A: s3cret", "${SECRET}", "${X:-s3cret}"],
            "env": {"TOKEN": "s3cret", "OTHER": "${SECRET}"}, "share": "call"}"#,
    );
    let variables = environment(&[("SECRET", "s3cret"), ("PATH", "/bin")]);
    let description = describe(&entry, &variables, Path::new(CWD));
    assert_eq!(description.command.join(" "), "npx --token … -H A:… ${SECRET} ${X:-…}");
    assert_eq!(description.env, ["OTHER", "PATH", "TOKEN"]);
    assert_eq!(description.disabled, None);
    assert!(!serde_json::to_string(&description).unwrap().contains("s3cret"));
}

#[test]
fn a_remote_server_with_other_credentials_has_another_fingerprint() {
    let body =
        r#"{"url": "https://x.invalid/${P}", "headers": {"Authorization": "Bearer ${T:-none}"}}"#;
    let of = |variables: &[(&str, &str)]| resolved(body, variables).unwrap().fingerprint();
    let base = of(&[("P", "mcp"), ("T", "1")]);
    assert_eq!(base, of(&[("P", "mcp"), ("T", "1"), ("OTHER", "2")]));
    for others in [
        [("P", "mcp"), ("T", "2")],
        [("P", "other"), ("T", "1")],
        [("P", "mcp"), ("HTTPS_PROXY", "http://x.invalid")],
    ] {
        assert_ne!(base, of(&others));
    }
    assert_eq!(resolved(body, &[]).unwrap_err().to_string(), "P is not set");
    let broken = resolved(body, &[("P", "mcp"), ("T", "s3cret\n")]).unwrap_err().to_string();
    assert_eq!(broken, "the header Authorization has a value that can't be sent");
    let server = resolved(body, &[("P", "mcp"), ("T", "s3cret")]).unwrap();
    assert!(!format!("{server:?}").contains("s3cret"), "{server:?}");
}

#[test]
fn a_token_from_a_file_is_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ostler.json");
    let text =
        r#"{"mcpServers": {"s": {"url": "https://x.invalid/s3cret", "bearerTokenFile": "token"}}}"#;
    let entry = parse(text, &path).unwrap().servers.remove("s").unwrap();
    let resolve =
        || resolve(&entry, &environment(&[]), Path::new(CWD)).map(|resolved| resolved.server);
    let refusal = why(&resolve().unwrap_err());
    assert!(refusal.contains("/token"), "{refusal}");
    fs::write(directory.path().join("token"), "s3cret\n").unwrap();
    let server = resolve().unwrap();
    fs::write(directory.path().join("token"), "s3cret-2\n").unwrap();
    assert_ne!(server.fingerprint(), resolve().unwrap().fingerprint());
    let described = describe(&entry, &environment(&[]), Path::new(CWD));
    assert_eq!(described.url.as_deref(), Some("https://x.invalid"));
    assert!(!format!("{server:?} {described:?}").contains("s3cret"));
}

#[test]
fn the_identity_of_a_server_depends_only_on_the_variables_that_its_entry_names() {
    let body = r#"{ "command": "server", "args": ["${WORD}"], "env": { "KEY": "${KEY}" } }"#;
    let entry = server(body);
    let identity = |variables: &[(&str, &str)], cwd: &str| {
        resolve(&entry, &environment(variables), Path::new(cwd)).unwrap().identity
    };
    let usual = [("WORD", "w"), ("KEY", "k"), ("PATH", "/bin"), ("TERM", "xterm"), ("HOME", "/h")];
    let one = identity(&usual, "/here");
    let elsewhere = [("WORD", "w"), ("KEY", "k"), ("PATH", "/other"), ("TERM", "dumb")];
    assert_eq!(identity(&elsewhere, "/here"), one);
    let there = identity(&usual, "/there");
    assert_eq!(there.fingerprint, one.fingerprint);
    assert_ne!(there.directory, one.directory);
    for changed in [[("WORD", "x"), ("KEY", "k")], [("WORD", "w"), ("KEY", "other")]] {
        assert_ne!(identity(&changed, "/here").fingerprint, one.fingerprint, "{changed:?}");
    }
}
