//! Output of commands for an idle server, without a gateway, and with several gateways.

use std::fs;

use ostler_testkit::{Stage, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

#[test]
fn without_a_gateway_the_status_is_the_same_with_a_socket_and_without() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let nowhere = test_gateway.sandbox.file("none.sock").display().to_string();
    let commands = [&["sessions"][..], &["events"], &["reload"], &["down"], &["restart", "a"]];
    for words in commands {
        for socket in [&[][..], &["--socket", &nowhere]] {
            let output = test_gateway.try_ostler(&[words, socket].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{words:?} {socket:?}: {said}");
            assert!(said.contains("no gateway runs"), "{words:?} {socket:?}: {said}");
        }
    }
    for words in [&["stop", "a"][..], &["why", "4194304"]] {
        assert_eq!(test_gateway.try_ostler(words).status.code(), Some(3), "{words:?}");
    }
}

#[test]
fn stopping_an_idle_server_succeeds() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    assert_eq!(test_gateway.ostler(&["stop", "a"]), "a: not running\n");
    let verdicts = test_gateway.ostler_json(&["stop", "a", "--json"]);
    assert_eq!(verdicts, json!([{ "instance": null, "name": "a", "stopped": true }]));
    assert_eq!(test_gateway.try_ostler(&["stop", "b"]).status.code(), Some(3));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn reload_reports_changes_that_the_watcher_already_applied() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    assert!(!test_gateway.ostler(&["reload"]).contains("applied at"));
    test_gateway.configure(&[("a", test_gateway.stub("a", &["--child"], &json!({})))]);
    wait_until("it was seen", PATIENCE, || gateway.stderr().contains("applied the configuration"));
    let said = test_gateway.ostler(&["reload"]);
    assert!(said.contains("already applied at ") && said.contains("changed  a"), "{said}");
    let told = test_gateway.ostler_json(&["reload", "--json"]);
    assert_eq!((&told["changed"], &told["before"]["changed"]), (&json!([]), &json!(["a"])));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn down_all_ends_every_gateway() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let other = test_gateway.sandbox.runtime().join("ostler/gateway-other.sock");
    let mut first = test_gateway.client(&["a"]);
    let mut second = test_gateway.client(&["a", "--socket", other.to_str().unwrap()]);
    first.echo();
    second.echo();
    assert_eq!(test_gateway.try_ostler(&["down"]).status.code(), Some(1));
    let said = test_gateway.ostler(&["down", "--all"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("gateway-other.sock"), "{said}");
    drop((first, second));
    test_gateway.expect_no_process();
    assert_eq!(test_gateway.try_ostler(&["down", "--all"]).status.code(), Some(3));
}

#[test]
fn status_shows_servers_that_do_not_run_and_where_everything_is() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let off = test_gateway.stub("off", &[], &json!({ "enabled": false }));
    let lacking =
        test_gateway.stub("lacking", &[], &json!({ "env": { "X": "${NOT_SET_ANYWHERE}" } }));
    let idle = test_gateway.stub("idle", &[], &json!({}));
    test_gateway.configure(&[
        ("off", off),
        ("lacking", lacking),
        ("idle", idle),
        ("busy", test_gateway.stub("busy", &[], &json!({}))),
    ]);
    let mut client = test_gateway.client(&["busy"]);
    client.echo();
    let text = test_gateway.ostler(&["status"]);
    let config = test_gateway.config().canonicalize().unwrap().display().to_string();
    for expected in
        ["the configuration says `enabled: false`", "NOT_SET_ANYWHERE is not set", &config]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let status = test_gateway.ostler_json(&["status", "--json"]);
    let gateway = &status["gateways"][0];
    assert_eq!(gateway["configuration"], json!(config));
    assert!(gateway["log"].as_str().unwrap().contains("gateway"), "{gateway}");
    assert!(fs::exists(gateway["socket"].as_str().unwrap()).unwrap(), "{gateway}");
    let servers = gateway["servers"].as_array().unwrap();
    let of = |name: &str| servers.iter().find(|server| server["name"] == name).unwrap();
    let state = |name: &str| (of(name)["state"].clone(), of(name)["instances"].clone());
    assert_eq!(state("busy"), (json!("running"), json!(1)));
    assert_eq!(state("idle"), (json!("idle"), json!(0)));
    assert_eq!(state("off"), (json!("disabled"), json!(0)));
    assert_eq!(state("lacking"), (json!("unavailable"), json!(0)));
    client.end();
    test_gateway.down();
    let without = test_gateway.try_ostler(&["status"]);
    let said = String::from_utf8_lossy(&without.stdout).into_owned();
    assert!(said.contains("no gateway runs"), "{said}");
    assert_eq!(without.status.code(), Some(0), "{said}");
    let status: Value = test_gateway.ostler_json(&["status", "--json"]);
    assert_eq!(status["gateways"], json!([]));
}

#[test]
fn a_client_without_a_configuration_is_told_where_one_was_looked_for() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let home = test_gateway.sandbox.file("home");
    fs::create_dir_all(home.join(".config")).unwrap();
    fs::write(home.join(".config/ostler.json"), "{}").unwrap();
    let near = home.join(".config/ostler.json").display().to_string();
    for words in ["connect", "serve"] {
        let mut command = test_gateway.command(test_gateway.program());
        command.arg(words).env("HOME", &home).env_remove("XDG_CONFIG_HOME");
        let mut launched = ostler_testkit::Launched::start(&mut command);
        let hint = format!("{near} is not read");
        wait_until("it was said", PATIENCE, || launched.stderr().contains(&hint));
        assert!(launched.stderr().contains("looked for"), "{}", launched.stderr());
        launched.close_stdin();
        if words == "serve" {
            launched.signal(rustix::process::Signal::TERM);
        }
        test_gateway.wait_exit(&mut launched);
        let _ = test_gateway.try_ostler(&["down", "--all"]);
        // The gateway keeps its lock until its process has ended.
        test_gateway.expect_no_process();
    }
}
