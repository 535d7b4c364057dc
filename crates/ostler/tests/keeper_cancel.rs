//! Cancelled starts: whatever the moment, no process starts late and exclusive instances never overlap.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

fn one(stage: &Stage, share: &str, switches: &[&str]) -> Value {
    json!({"servers": {"a": {"switches": stage.watched(switches), "share": share}}})
}

/// Makes the handshake slow, so that a start can be cancelled at many moments.
const SLOW: [&str; 4] = ["--answer", "slow", "--slow-ms", "15"];
const SILENT: [&str; 2] = ["--answer", "never"];

/// Waits until no instance is live.
fn await_nothing(host: &mut KeeperHost) {
    wait_until("what was started has gone", PATIENCE, || host.books()["live"] == 0);
}

rows! {
    fn l31_a_caller_gives_up_in_the_middle_of_a_handshake(stage) {
        let mut host = stage.keeper_host(&one(&stage, "agent", &SILENT));
        for cycle in 1..=10 {
            host.ask("session s --agent ann");
            host.later("start", "acquire s a");
            wait_until("the handshake has begun", PATIENCE, || stage.inits() == cycle);
            // Drop the request, close the session, close the agent, stop the server.
            match cycle % 3 {
                0 => drop(host.ask("cancel start")),
                1 => drop(host.ask("close s")),
                _ => drop(host.ask("end-agent ann")),
            }
            await_nothing(&mut host);
            stage.assert_servers(&host, 0);
        }
        assert_eq!((host.started(), stage.most_alive()), (10, 1));
        stage.shut_down(host);
    }

    fn l31_a_start_goes_on_as_long_as_one_caller_waits(stage) {
        let mut host = stage.keeper_host(&one(&stage, "all", &["--answer", "slow", "--slow-ms", "300"]));
        host.ask("session s1");
        host.ask("session s2");
        host.later("first", "acquire s1 a");
        host.later("second", "acquire s2 a");
        wait_until("the handshake has begun", PATIENCE, || stage.inits() == 1);
        host.ask("cancel first");
        assert!(host.result("second").is_ok());
        assert_eq!((host.started(), stage.births().len()), (1, 1));
        stage.assert_servers(&host, 1);
        stage.shut_down(host);
    }

    fn l31_a_queued_start_is_dropped_with_its_caller(stage) {
        let mut config = one(&stage, "session", &SILENT);
        config["caps"] = json!({"starting": 1});
        let mut host = stage.keeper_host(&config);
        host.ask("session s1");
        host.later("first", "acquire s1 a");
        wait_until("the handshake has begun", PATIENCE, || stage.inits() == 1);
        for number in 2..=5 {
            host.ask(&format!("session s{number}"));
            host.later(&format!("next{number}"), &format!("acquire s{number} a"));
        }
        wait_until("all wait", PATIENCE, || host.ask("snapshot")["waiting"] == 5);
        host.ask("cancel next2");
        host.ask("close s3");
        host.ask("cancel next4");
        host.ask("cancel next5");
        host.ask("close s1");
        stage.assert_servers(&host, 0);
        assert_eq!((host.started(), stage.births().len()), (1, 1));
        stage.shut_down(host);
    }

    fn l31_a_handshake_that_fails_leaves_nothing(stage) {
        let failing = [
            (vec!["--answer", "wrong"], "it speaks \"1789-07-14\", not"),
            (vec!["--answer", "garbage"], "it was not ready within"),
            (vec!["--answer", "garbage", "--setsid-child", "--ignore-term"], "it was not ready within"),
            (vec!["--exit-at-once", "--exit-code", "7", "--double-fork"], "exit status: 7"),
            (vec!["--kill-self", "ABRT"], "signal: 6"),
            (vec!["--never-read"], "it was not ready within"),
            (vec!["--stop-self"], "it was not ready within"),
        ];
        for (switches, expected) in failing {
            let mut config = one(&stage, "agent", &switches);
            // Only a server that never becomes ready takes the whole start limit.
            let limit = if expected.contains("ready") { 300 } else { 60_000 };
            config["servers"]["a"]["limits"] = json!({"startMs": limit});
            let mut host = stage.keeper_host(&config);
            host.ask("session s");
            let error = host.failing_call("s a");
            assert!(error.contains(expected), "{switches:?}: {error}");
            await_nothing(&mut host);
            stage.assert_servers(&host, 0);
            assert_eq!(host.started(), 1);
            stage.shut_down(host);
        }
    }

    fn l32_progress_does_not_keep_a_start_alive(stage) {
        let mut config = one(&stage, "all", &["--answer", "progress"]);
        config["servers"]["a"]["limits"] = json!({"startMs": 1000, "backoffMs": [1, 1, 60_000]});
        let mut host = stage.keeper_host(&config);
        for attempt in 1..=3 {
            host.ask("session s");
            let error = host.failing_call("s a");
            assert!(error.contains("it was not ready within 1s"), "{error}");
            await_nothing(&mut host);
            stage.assert_servers(&host, 0);
            assert_eq!(host.started(), attempt);
        }
        assert!(host.books()["heard"].as_u64() > Some(10));
        assert_eq!(stage.most_alive(), 1);
        stage.shut_down(host);
    }

    /// The queue timeout does not apply to a start under way.
    fn l32_a_start_may_take_longer_than_the_queue_timeout(stage) {
        let mut config = one(&stage, "all", &["--answer", "slow", "--slow-ms", "600"]);
        config["caps"] = json!({"queueMs": 100});
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        host.call("s a");
        assert_eq!(host.started(), 1);
        stage.shut_down(host);
    }
}

mod alone {
    use super::*;

    /// From before the start to after the handshake.
    fn moments(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |step| step * 50_000 / count)
    }

    rows! {
        fn l30_l31_s07_a_caller_gives_up_at_any_moment(stage) {
            let mut host = stage.keeper_host(&one(&stage, "agent", &SLOW));
            for moment in moments(100) {
                host.ask("session s --agent ann");
                host.later("start", "acquire s a");
                host.ask(&format!("pause {moment}"));
                host.ask("cancel start");
                // Another caller requests at once: it gets the instance, or waits until that is gone.
                host.call("s a");
                stage.assert_servers(&host, 1);
                host.ask("end-agent ann");
                stage.assert_servers(&host, 0);
            }
            assert_eq!(stage.most_alive(), 1);
            stage.shut_down(host);
        }

        fn l30_s07_a_server_is_stopped_or_replaced_at_any_moment_of_its_start(stage) {
            let mut config = one(&stage, "agent", &SLOW);
            let mut host = stage.keeper_host(&config);
            host.ask("session s --agent ann");
            for (cycle, moment) in moments(100).enumerate() {
                host.later("start", "call s a");
                host.ask(&format!("pause {moment}"));
                if cycle % 2 == 0 {
                    assert_eq!(host.ask("stop a")["left"], json!([]));
                } else {
                    config["servers"]["a"]["env"] = json!({"VERSION": cycle.to_string()});
                    assert_eq!(host.ask(&format!("replace {config}"))["left"], json!([]));
                }
                // A waiting caller gets a new instance; a call under way may have failed with the old one.
                let _ = host.result("start");
                host.ask("stop a");
                stage.assert_servers(&host, 0);
            }
            assert_eq!(stage.most_alive(), 1);
            stage.shut_down(host);
        }

        fn f10_l30_a_session_closes_at_any_moment_after_its_first_call(stage) {
            let mut host = stage.keeper_host(&one(&stage, "session", &SLOW));
            for moment in moments(200) {
                host.ask("session s");
                host.later("first", "call s a");
                host.ask(&format!("pause {moment}"));
                assert_eq!(host.ask("close s")["left"], json!([]));
                stage.assert_servers(&host, 0);
                let _ = host.result("first");
            }
            stage.shut_down(host);
        }

        fn l30_the_keeper_is_shut_down_at_any_moment_of_four_starts(stage) {
            let server = json!({"switches": stage.watched(&SLOW)});
            let config = json!({"servers": {"a": server, "b": server, "c": server, "d": server}});
            for moment in moments(20) {
                let mut host = stage.keeper_host(&config);
                host.ask("session s");
                for name in ["a", "b", "c", "d"] {
                    host.later(name, &format!("call s {name}"));
                }
                host.ask(&format!("pause {moment}"));
                stage.shut_down(host);
            }
        }
    }
}
