//! A faulty server affects only its own callers: endless lines, full stderr, unread stdin.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, rows, rss_of, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
/// More than any buffer on the way holds, in KiB.
const SOME_MEMORY: u64 = 48 << 10;

/// A faulty server with these switches and limits, and a healthy one.
fn pair(stage: &Stage, switches: &[&str], limits: &Value) -> Value {
    json!({"servers": {
        "bad": {"switches": stage.watched(switches), "share": "all", "limits": limits},
        "good": {"share": "all"},
    }})
}

/// A host whose healthy server runs already.
fn host_with(stage: &Stage, config: &Value) -> KeeperHost {
    let mut host = stage.keeper_host(config);
    host.ask("session s");
    host.call("s good");
    host
}

/// Expects that the faulty server is stopped, the healthy one has answered meanwhile, and the next caller gets a new
/// instance.
fn assert_only_the_bad_one_is_hurt(
    stage: &Stage,
    host: &mut KeeperHost,
    tag: &str,
    expected: &str,
) {
    assert_eq!(host.call("s good --times 200"), 200);
    let error = host.failed(tag);
    assert!(error.contains(expected), "{error}");
    wait_until("the bad one is gone", PATIENCE, || host.instances("bad").is_empty());
    stage.assert_servers(host, 1);
}

rows! {
    fn l48_a_full_stderr_blocks_no_caller(stage) {
        let switches = ["--stderr-bytes", "262144"];
        let mut host = host_with(&stage, &pair(&stage, &switches, &json!({})));
        host.call("s bad");
        host.call(r#"s bad --times 20 --arguments {"stderrBytes":262144}"#);
        // The end of it is kept.
        let error = host.failing_call(r#"s bad --arguments {"stderrBytes":262144,"complain":"the-end","exit":true}"#);
        assert!(error.ends_with("eeethe-end"), "{}", &error[error.len().saturating_sub(80)..]);
        assert!(error.len() < 16 << 10, "{} bytes", error.len());
        wait_until("the bad one is gone", PATIENCE, || host.instances("bad").is_empty());
        stage.assert_servers(&host, 1);
        stage.shut_down(host);
    }

    fn l49_an_endless_line_ends_that_server_alone(stage) {
        let mut host = host_with(&stage, &pair(&stage, &[], &json!({"line": 1 << 20, "backoffMs": [1, 1, 1]})));
        host.call("s bad");
        let before = rss_of(host.0.pid());
        for cycle in 1..=5 {
            host.later("flight", r#"call s bad --arguments {"endlessLine":true}"#);
            let expected = "a line of its output is longer than 1048576 bytes";
            assert_only_the_bad_one_is_hurt(&stage, &mut host, "flight", expected);
            host.call("s bad");
            assert_eq!(stage.births().len(), cycle + 1);
        }
        let after = rss_of(host.0.pid());
        assert!(after < before + SOME_MEMORY, "{before} KiB before, {after} KiB after");
        stage.shut_down(host);
    }

    fn l49_a_hundred_megabytes_in_one_line_before_the_handshake(stage) {
        let mut host = host_with(&stage, &pair(&stage, &["--endless-line"], &json!({"line": 32 << 20})));
        let before = rss_of(host.0.pid());
        host.later("flight", "call s bad");
        assert_only_the_bad_one_is_hurt(&stage, &mut host, "flight", "longer than 33554432 bytes");
        wait_until("its memory is given back", PATIENCE, || rss_of(host.0.pid()) < before + SOME_MEMORY);
        stage.shut_down(host);
    }

    fn l49_noise_on_stdout_is_ignored(stage) {
        let mut host = host_with(&stage, &pair(&stage, &[], &json!({})));
        assert_eq!(host.call(r#"s bad --times 20 --arguments {"noise":50}"#), 20);
        assert_eq!(host.started(), 2);
        stage.shut_down(host);
    }

    fn l50_a_server_that_does_not_read_fails_its_callers_alone(stage) {
        let mut host = host_with(&stage, &pair(&stage, &[], &json!({"writeMs": 300, "backoffMs": [1, 1, 1]})));
        for _ in 0..3 {
            host.call(r#"s bad --arguments {"deaf":true}"#);
            host.later("flight", "call s bad --bulk 1048576");
            assert_only_the_bad_one_is_hurt(&stage, &mut host, "flight", "it has not read its input for 300ms");
        }
        stage.shut_down(host);
    }

    fn l50_unread_input_is_limited(stage) {
        // The limit allows three, because the pipe takes a part of the first.
        let limits = json!({"backlog": 3 << 18, "writeMs": 600_000, "drainMs": 20});
        let mut host = host_with(&stage, &pair(&stage, &[], &limits));
        host.call(r#"s bad --arguments {"deaf":true}"#);
        let before = rss_of(host.0.pid());
        host.later("flight", "call s bad --callers 3 --bulk 262144");
        wait_until("there is no room for more", PATIENCE, || {
            host.instances("bad").iter().any(|view| view["uses"] == 3)
        });
        for _ in 0..5 {
            let error = host.failing_call("s bad --bulk 262144");
            assert!(error.contains("bytes are queued already"), "{error}");
            host.call("s good --times 20");
        }
        host.ask("stop bad");
        let error = host.failed("flight");
        assert!(error.contains("an operator stopped it"), "{error}");
        stage.assert_servers(&host, 1);
        let after = rss_of(host.0.pid());
        assert!(after < before + SOME_MEMORY, "{before} KiB before, {after} KiB after");
        stage.shut_down(host);
    }

    fn l50_a_stop_needs_no_write(stage) {
        let mut host = host_with(&stage, &pair(&stage, &[], &json!({"writeMs": 600_000, "drainMs": 20})));
        for order in ["stop bad", "close s2"] {
            host.ask("session s2");
            host.call(r#"s2 bad --arguments {"deaf":true}"#);
            host.later("flight", "call s2 bad --bulk 1048576");
            wait_until("the call is in flight", PATIENCE, || {
                host.instances("bad").iter().any(|view| view["uses"] == 1)
            });
            host.ask(order);
            host.failed("flight");
            host.ask("stop bad");
            stage.assert_servers(&host, 1);
        }
        host.call(r#"s bad --arguments {"deaf":true}"#);
        host.later("flight", "call s bad --bulk 1048576");
        stage.shut_down(host);
    }
}
