//! Caps: idle instances are evicted first, then callers queue in order, then they get a clear error.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

fn config(stage: &Stage, share: &str, caps: &Value) -> Value {
    json!({"servers": {"a": {"switches": stage.watched(&[]), "share": share}}, "caps": caps})
}

fn open_sessions(host: &mut KeeperHost, count: usize) {
    for number in 1..=count {
        host.ask(&format!("session s{number}"));
    }
}

/// Started servers and their callers, in order.
fn starts(host: &mut KeeperHost) -> Vec<String> {
    let events = host.ask("events");
    let whats = events.as_array().into_iter().flatten().filter_map(|event| event["what"].as_str());
    whats.filter(|what| what.starts_with("Starting")).map(ToOwned::to_owned).collect()
}

rows! {
    fn s11_a_burst_of_ten_times_the_cap_never_exceeds_it(stage) {
        let mut host = stage.keeper_host(&config(&stage, "session", &json!({"instances": 4})));
        open_sessions(&mut host, 40);
        for number in 1..=40 {
            host.later(&format!("c{number}"), &format!("call s{number} a --times 3"));
        }
        for number in 1..=40 {
            assert_eq!(host.answered(&format!("c{number}")), 3);
            assert!(host.books()["live"].as_u64() <= Some(4));
        }
        assert!(stage.most_alive() <= 4, "{} lived at once", stage.most_alive());
        assert!(host.started() >= 40);
        stage.shut_down(host);
    }

    fn s11_a_server_has_a_cap_of_its_own(stage) {
        let mut config = config(&stage, "session", &json!({}));
        config["servers"]["a"]["cap"] = json!(2);
        config["servers"]["b"] = json!({"share": "session"});
        let mut host = stage.keeper_host(&config);
        open_sessions(&mut host, 10);
        for number in 1..=10 {
            host.later(&format!("c{number}"), &format!("call s{number} a"));
        }
        // A caller that waits for a server's cap does not hold up others.
        for number in 1..=10 {
            host.call(&format!("s{number} b"));
        }
        for number in 1..=10 {
            host.answered(&format!("c{number}"));
        }
        assert!(stage.most_alive() <= 2, "{} lived at once", stage.most_alive());
        stage.shut_down(host);
    }

    fn s11_growth_stops_at_the_configured_limit(stage) {
        let mut config = config(&stage, "all", &json!({}));
        config["servers"]["a"]["maxInstances"] = json!(3);
        config["servers"]["a"]["maxConcurrency"] = json!(1);
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        let tally = host.call(r#"s a --callers 20 --times 5 --arguments {"delayMs":2}"#);
        assert_eq!(tally, 100);
        let births = stage.births().len();
        assert!((1..=3).contains(&births), "{births} were started");
        stage.assert_servers(&host, births);
        stage.shut_down(host);
    }

    fn l35_the_least_recently_used_idle_instance_is_evicted(stage) {
        let mut host = stage.keeper_host(&config(&stage, "session", &json!({"instances": 4})));
        open_sessions(&mut host, 6);
        let mut pids = Vec::new();
        for number in 1..=4 {
            host.call(&format!("s{number} a"));
            pids.push(stage.births()[number - 1]);
        }
        // The first instance is in use, the second was used last.
        host.ask("hold s1 a");
        host.call("s2 a");
        host.call("s5 a");
        stage.assert_servers(&host, 4);
        assert!(!is_alive(pids[2]));
        host.call("s6 a");
        stage.assert_servers(&host, 4);
        assert!(!is_alive(pids[3]));
        assert!(is_alive(pids[0]) && is_alive(pids[1]));
        // The session of the evicted instance gets a new one.
        host.call("s3 a");
        stage.assert_servers(&host, 4);
        assert!(is_alive(pids[0]));
        assert_eq!(stage.most_alive(), 4);
        stage.shut_down(host);
    }

    fn l35_an_instance_without_idle_limit_is_not_evicted(stage) {
        let mut config = config(&stage, "session", &json!({"instances": 1, "queueMs": 100}));
        config["servers"]["a"]["limits"] = json!({"neverIdle": true});
        config["servers"]["b"] = json!({"share": "session"});
        let mut host = stage.keeper_host(&config);
        open_sessions(&mut host, 2);
        host.call("s1 a");
        let error = host.failing_call("s2 b");
        assert!(error.contains("the cap on instances is reached; held by: a for session"), "{error}");
        stage.assert_servers(&host, 1);
        host.call("s1 a");
        assert_eq!(stage.births().len(), 1);
        stage.shut_down(host);
    }

    fn s11_l35_when_all_are_busy_callers_queue_in_order_and_with_a_deadline(stage) {
        let caps = json!({"instances": 2, "queue": 3, "queueMs": 600_000});
        let mut host = stage.keeper_host(&config(&stage, "session", &caps));
        open_sessions(&mut host, 6);
        host.ask("hold s1 a");
        host.ask("hold s2 a");
        starts(&mut host);
        for number in 3..=5 {
            host.later(&format!("c{number}"), &format!("call s{number} a"));
            wait_until("it waits", PATIENCE, || host.ask("snapshot")["waiting"] == number - 2);
        }
        let error = host.failing_call("s6 a");
        assert!(error.contains("the queue is full, 3 callers wait; held by: a for session"), "{error}");
        stage.assert_servers(&host, 2);
        host.ask("release");
        for number in 3..=5 {
            host.answered(&format!("c{number}"));
        }
        let order = starts(&mut host);
        let session = |text: &String| text.rsplit("session: ").next().and_then(|rest| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        });
        let order: Vec<_> = order.iter().map(session).collect();
        assert_eq!(order.len(), 3);
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(stage.most_alive(), 2);
        stage.shut_down(host);
    }

    fn s11_l35_a_timeout_names_the_holders_of_the_slots(stage) {
        let mut host = stage.keeper_host(&config(&stage, "agent", &json!({"instances": 2, "queueMs": 100})));
        for name in ["ann", "bob", "cid"] {
            host.ask(&format!("session {name} --agent {name}"));
        }
        host.ask("hold ann a");
        host.ask("hold bob a");
        let error = host.failing_call("cid a");
        for part in ["a: not started within", "the cap on instances is reached", "a for agent ann, used by agent ann"] {
            assert!(error.contains(part), "{error}");
        }
        stage.assert_servers(&host, 2);
        assert_eq!((host.started(), host.ask("snapshot")["waiting"].clone()), (2, json!(0)));
        stage.shut_down(host);
    }
}

mod alone {
    use super::*;

    rows! {
        fn f12_ten_agents_with_twenty_calls_at_once_under_a_cap(stage) {
            let mut config = config(&stage, "agent", &json!({"instances": 4}));
            config["servers"]["b"] = config["servers"]["a"].clone();
            let mut host = stage.keeper_host(&config);
            for agent in 0..10 {
                host.ask(&format!("session s{agent} --agent agent{agent}"));
            }
            for cycle in 0..5 {
                for agent in 0..10 {
                    let server = ["a", "b"][(agent + cycle) % 2];
                    let order = format!(r#"call s{agent} {server} --callers 20 --arguments {{"delayMs":1}}"#);
                    host.later(&format!("c{agent}"), &order);
                }
                for agent in 0..10 {
                    assert_eq!(host.answered(&format!("c{agent}")), 20);
                    let there = stage.sandbox.survivors();
                    let servers = there.processes.iter().filter(|p| p.process.comm == "ostler-stub");
                    assert!(servers.count() <= 4, "{there}");
                }
                // An instance that has just ended may still be visible, but none stays.
                wait_until("no zombie is left", PATIENCE, || stage.sandbox.survivors().zombies.is_empty());
            }
            assert!(stage.most_alive() <= 4, "{} lived at once", stage.most_alive());
            for agent in 0..10 {
                host.ask(&format!("end-agent agent{agent}"));
            }
            stage.assert_servers(&host, 0);
            stage.shut_down(host);
        }
    }
}
