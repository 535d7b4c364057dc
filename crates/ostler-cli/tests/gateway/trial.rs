//! `ostler doctor SERVER`: one server is tried in a fence of its own, and nothing of it is left.

use ostler_testkit::{Launched, STUBBORN, Stage, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// `ostler doctor SERVER`, with the configuration.
fn doctor(test_gateway: &TestGateway, words: &[&str]) -> std::process::Command {
    let mut command = test_gateway.command(test_gateway.program());
    command.arg("doctor").args(words).arg("--config").arg(test_gateway.config());
    command
}

/// The object that `--json` prints, and the exit code.
fn tried(test_gateway: &TestGateway, server: &str) -> (Value, Option<i32>) {
    let output = doctor(test_gateway, &[server, "--json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    (report, output.status.code())
}

fn steps(report: &Value) -> Vec<&str> {
    report["steps"].as_array().unwrap().iter().map(|row| row["step"].as_str().unwrap()).collect()
}

/// A server that ignores the end of its input and SIGTERM, has children, and never answers the handshake.
fn hanging(test_gateway: &TestGateway) -> Value {
    let never = ["--answer", "never", "--daemons", "2", "--setsid-child"];
    test_gateway.stub("hanging", &[&never, STUBBORN].concat(), &json!({}))
}

#[test]
fn a_working_server_passes_all_steps_and_nothing_of_it_is_left() {
    for (stage, level) in [(Stage::leaf(), "leaf"), (Stage::tree(), "tree")] {
        let test_gateway =
            TestGateway::with(stage, &["a"], &json!({ "tools": { "deny": ["echo"] } }));
        let (report, code) = tried(&test_gateway, "a");
        assert_eq!((code, &report["ok"]), (Some(0), &json!(true)), "{report}");
        let all = ["configuration", "program", "start", "handshake", "tools", "stop"];
        assert_eq!(steps(&report), all);
        let of = |step: usize, field: &str| report["steps"][step][field].clone();
        assert_eq!(of(2, "containment"), level);
        assert_eq!(of(2, "pid"), json!(test_gateway.starts("a")[0]));
        assert_eq!(of(3, "name"), "ostler-stub 0.1.0");
        assert_eq!(of(4, "hidden"), json!(1), "{report}");
        test_gateway.assert_empty_now();
    }
}

#[test]
fn a_trial_does_not_touch_the_instance_of_a_gateway() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    let mut client = test_gateway.client(&["a"]);
    client.echo();
    let (before, (report, _)) = (test_gateway.starts("a"), tried(&test_gateway, "a"));
    assert_eq!(report["ok"], json!(true), "{report}");
    client.echo();
    let after = test_gateway.starts("a");
    assert_eq!(after.len(), before.len() + 1, "the trial starts one of its own");
    let instances = test_gateway.instances();
    assert_eq!(instances.len(), 1, "{instances:?}");
    assert_eq!(instances[0]["gateway"]["pid"], json!(before.last()));
    client.end();
    test_gateway.down_with(&mut gateway);
}

#[test]
fn an_interrupted_trial_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let test_gateway = TestGateway::new(Stage::leaf());
        test_gateway.configure(&[("hanging", hanging(&test_gateway))]);
        let mut trial = Launched::start(&mut doctor(&test_gateway, &["hanging"]));
        wait_until("it runs", PATIENCE, || !test_gateway.starts("hanging").is_empty());
        trial.signal(signal);
        let status = trial.wait_exit(PATIENCE);
        if signal == Signal::KILL {
            test_gateway.expect_no_process();
            continue;
        }
        assert_eq!(status.code(), Some(128 + signal.as_raw()), "{}", trial.stderr());
        assert!(trial.stderr().contains("interrupted"), "{}", trial.stderr());
        test_gateway.assert_empty_now();
    }
}

#[test]
fn a_server_that_is_not_configured_is_not_found() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let output = doctor(&test_gateway, &["b"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("ostler: there is no server 'b'; "), "{said}");
    test_gateway.write("{ \"mcpServers\": { \"a\": { \"comand\": \"x\" } } }");
    let output = doctor(&test_gateway, &["a"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("comand"));
}
