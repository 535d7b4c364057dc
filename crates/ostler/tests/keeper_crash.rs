//! Servers that die, crash in a loop or hang: no start without a caller, and no caller waits for a dead server.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, is_alive, rows, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long to watch for events that must not come, in microseconds.
const SHORT: u64 = 300_000;

fn config(stage: &Stage, switches: &[&str], limits: &Value) -> Value {
    let server = json!({"switches": stage.watched(switches), "share": "all", "limits": limits});
    json!({"servers": {"a": server}})
}

/// Begins a call of `a` that is never answered.
fn begin_call(host: &mut KeeperHost, arguments: &str) {
    host.later("flight", &format!("call s a --callers 5 --arguments {arguments}"));
    wait_until("the calls are in flight", PATIENCE, || {
        host.instances("a").iter().any(|view| view["uses"] == 5)
    });
}

/// Errors of calls that must all fail.
fn errors(host: &mut KeeperHost, words: &str) -> Vec<String> {
    let tally = host.ask(&format!("call {words}"));
    assert_eq!(tally["answered"], 0, "{tally}");
    tally["failed"].as_object().into_iter().flatten().map(|(error, _)| error.clone()).collect()
}

fn await_nothing(host: &mut KeeperHost) {
    wait_until("it is known that all have gone", PATIENCE, || host.books()["live"] == 0);
}

rows! {
    fn s14_l43_a_purge_from_outside_starts_nothing_without_a_caller(stage) {
        let server = json!({"switches": stage.watched(&["--setsid-child"]), "share": "all"});
        let names = ["a", "b", "c", "d", "e", "f"];
        let servers = names.map(|name| (name.to_owned(), server.clone()));
        let mut host = stage.keeper_host(&json!({"servers": serde_json::Map::from_iter(servers)}));
        host.ask("session s");
        for name in names {
            host.call(&format!("s {name}"));
            host.ask(&format!("keep s {name} 2"));
        }
        for pid in stage.births() {
            stage.signal(pid, Signal::KILL);
        }
        await_nothing(&mut host);
        stage.assert_servers(&host, 0);
        host.ask(&format!("pause {SHORT}"));
        stage.assert_servers(&host, 0);
        assert_eq!((host.started(), stage.births().len()), (6, 6));
        // One caller causes one start.
        host.call("s c --callers 10");
        stage.assert_servers_and_children(&host, 1, 1);
        assert_eq!((host.started(), stage.births().len()), (7, 7));
        stage.shut_down(host);
    }

    fn s14_a_purge_with_calls_in_flight_starts_nothing(stage) {
        let mut host = stage.keeper_host(&config(&stage, &[], &json!({})));
        host.ask("session s");
        begin_call(&mut host, r#"{"never":true}"#);
        stage.signal(stage.births()[0], Signal::KILL);
        // A call that was sent is never repeated.
        let error = host.failed("flight");
        assert!(error.contains("signal: 9"), "{error}");
        await_nothing(&mut host);
        host.ask(&format!("pause {SHORT}"));
        stage.assert_servers(&host, 0);
        assert_eq!(host.started(), 1);
        stage.shut_down(host);
    }

    fn l44_calls_in_flight_fail_with_the_status_and_the_end_of_stderr(stage) {
        let limits = json!({"backoffMs": [1, 1, 1]});
        let mut host = stage.keeper_host(&config(&stage, &["--exit-code", "7"], &limits));
        host.ask("session s");
        let error = host.failing_call(r#"s a --arguments {"complain":"out-of-luck","exit":true}"#);
        for part in ["a: it has exited", "exit status: 7", "last lines of its stderr: out-of-luck"] {
            assert!(error.contains(part), "{error}");
        }
        await_nothing(&mut host);
        stage.assert_servers(&host, 0);
        host.call(r#"s a --arguments {"complain":"farewell"}"#);
        begin_call(&mut host, r#"{"never":true}"#);
        stage.signal(stage.births()[1], Signal::KILL);
        let error = host.failed("flight");
        assert!(error.contains("signal: 9") && error.contains("farewell"), "{error}");
        host.call("s a");
        stage.assert_servers(&host, 1);
        assert_eq!(host.started(), 3);
        stage.shut_down(host);
    }

    fn l44_a_stopped_server_fails_its_calls_and_is_replaced_on_demand(stage) {
        for share in ["all", "agent"] {
            let limits = json!({"callMs": 1500, "backoffMs": [1, 1, 1]});
            let mut config = config(&stage, &["--setsid-child"], &limits);
            config["servers"]["a"]["share"] = json!(share);
            let mut host = stage.keeper_host(&config);
            host.ask("session s --agent ann");
            host.call("s a");
            let pids = host.pids("a");
            stage.signal(pids[0], Signal::STOP);
            assert_eq!(host.failing_call("s a --callers 5"), "no answer within 1.5s");
            // Without a request, the keeper leaves it alone.
            host.ask(&format!("pause {SHORT}"));
            assert_eq!((host.pids("a"), host.started()), (pids.clone(), 1));
            host.call("s a --callers 5");
            wait_until("the old one is gone", PATIENCE, || host.books()["gone"] == 1);
            assert!(!is_alive(pids[0]));
            stage.assert_servers_and_children(&host, 1, 1);
            assert_eq!(host.started(), 2);
            stage.shut_down(host);
        }
    }

    fn l44_a_slow_server_that_sends_other_messages_is_not_replaced(stage) {
        let mut host = stage.keeper_host(&config(&stage, &[], &json!({"callMs": 1000})));
        host.ask("session s");
        host.call(r#"s a --arguments {"notifications":40,"everyMs":50}"#);
        assert_eq!(host.failing_call("s a"), "no answer within 1s");
        wait_until("all was heard", PATIENCE, || host.books()["heard"] == 40);
        host.call("s a");
        assert_eq!((host.started(), stage.births().len()), (1, 1));
        stage.shut_down(host);
    }

    fn l42_a_crash_loop_backs_off_for_all_sessions_together(stage) {
        let limits = json!({"backoffMs": [600_000, 600_000, 600_000]});
        let mut config = config(&stage, &["--exit-at-once", "--exit-code", "5"], &limits);
        config["caps"] = json!({"queueMs": 100});
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        // Some calls may arrive after the failure.
        assert!(errors(&mut host, "s a --callers 20").iter().all(|e| e.contains("exit status: 5")));
        await_nothing(&mut host);
        for number in 0..20 {
            host.ask(&format!("session s{number} --agent agent{number}"));
            let errors = errors(&mut host, &format!("s{number} a --callers 5"));
            let expected = ["failures in a row: 1", "exit status: 5"];
            let is_told = |error: &String| expected.iter().all(|part| error.contains(part));
            assert!(errors.iter().all(is_told), "{errors:?}");
            stage.assert_servers(&host, 0);
        }
        // The snapshot shows it.
        let server = host.ask("snapshot")["servers"][0].clone();
        assert_eq!((&server["failures"], &server["backing_off"]), (&json!(1), &json!(true)));
        assert_eq!((host.started(), stage.births().len()), (1, 1));
        // A changed configuration has no backoff.
        config["servers"]["a"]["switches"] = json!(stage.watched(&[]));
        host.ask(&format!("replace {config}"));
        host.call("s a");
        assert_eq!(host.started(), 2);
        stage.shut_down(host);
    }

    fn l42_a_good_start_does_not_reset_the_backoff(stage) {
        let limits = |sustained: u64| json!({"backoffMs": [20, 20, sustained]});
        let mut host = stage.keeper_host(&config(&stage, &["--exit-after-init"], &limits(600_000)));
        host.ask("session s");
        for failures in 1..=5 {
            let _ = host.try_ask("acquire s a");
            await_nothing(&mut host);
            stage.assert_servers(&host, 0);
            assert_eq!(host.ask("snapshot")["servers"][0]["failures"], failures);
        }
        assert_eq!((host.started(), stage.inits(), stage.most_alive()), (5, 5, 1));
        // A long enough uptime does.
        let mut config = config(&stage, &["--exit-after-init"], &limits(0));
        host.ask(&format!("replace {config}"));
        let _ = host.try_ask("acquire s a");
        await_nothing(&mut host);
        assert_eq!(host.ask("snapshot")["servers"][0]["failures"], 0);
        config["servers"] = json!({});
        host.ask(&format!("replace {config}"));
        stage.shut_down(host);
    }

    fn l43_the_guardian_of_a_server_is_killed(stage) {
        let limits = json!({"backoffMs": [1, 1, 1]});
        let switches = ["--setsid-child", "--ignore-term"];
        let mut host = stage.keeper_host(&config(&stage, &switches, &limits));
        host.ask("session s");
        begin_call(&mut host, r#"{"never":true}"#);
        for guardian in stage.guardians() {
            stage.signal(guardian, Signal::KILL);
        }
        let error = host.failed("flight");
        assert!(error.contains("its guardian was killed") || error.contains("it has exited"), "{error}");
        await_nothing(&mut host);
        stage.assert_servers(&host, 0);
        host.call("s a");
        assert_eq!(host.started(), 2);
        // Without a leaf cgroup, an instance without a guardian cannot be proven gone, and the books say so.
        let unverified = u64::from(stage.level() == "tree");
        let books = host.ask("shutdown");
        assert_eq!((&books["live"], &books["unverified"]), (&json!(0), &json!(unverified)), "{books}");
        stage.assert_servers(&host, 0);
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.expect_empty_but_for_the_ledger();
    }
}
