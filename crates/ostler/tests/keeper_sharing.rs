//! Sharing: one process and one handshake for each key, however many callers there are.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long to watch for events that must not come.
const SHORT: u64 = 300_000;

/// One watched server with this sharing policy.
fn one(stage: &Stage, share: &str) -> Value {
    json!({"servers": {"a": {"switches": stage.watched(&[]), "share": share}}})
}

fn owners_of(host: &mut KeeperHost, server: &str) -> Vec<String> {
    let views = host.instances(server);
    views.iter().map(|view| view["whose"].as_str().unwrap_or_default().to_owned()).collect()
}

rows! {
    fn s05_s06_l33_the_runs_of_an_agent_share_one_process_and_one_handshake(stage) {
        let mut host = stage.keeper_host(&one(&stage, "agent"));
        for run in ["first", "second", "third"] {
            host.ask(&format!("session {run} --agent ann"));
            host.call(&format!("{run} a"));
            stage.assert_servers(&host, 1);
        }
        let pids = host.pids("a");
        for run in ["first", "second", "third"] {
            host.ask(&format!("close {run}"));
            stage.assert_servers(&host, 1);
        }
        for _ in 0..10 {
            host.ask("session next --agent ann");
            host.call("next a --times 100");
            host.ask("close next");
            stage.assert_servers(&host, 1);
            assert_eq!(host.pids("a"), pids);
        }
        assert_eq!((stage.inits(), stage.births()), (1, pids));
        host.ask("end-agent ann");
        stage.assert_servers(&host, 0);
        stage.shut_down(host);
    }

    fn s08_the_sharing_policy_decides_isolation_and_is_visible(stage) {
        let server = |share: &str| json!({"share": share});
        let mut host = stage.keeper_host(&json!({"servers": {
            "all": server("all"), "agent": server("agent"),
            "session": server("session"), "call": server("call"),
        }}));
        for (session, agent) in [("s1", "ann"), ("s2", "ann"), ("s3", "bob")] {
            host.ask(&format!("session {session} --agent {agent}"));
            for server in ["all", "agent", "session", "call"] {
                host.call(&format!("{session} {server} --times 2"));
            }
        }
        assert_eq!(owners_of(&mut host, "all"), ["all"]);
        assert_eq!(owners_of(&mut host, "agent"), ["agent ann", "agent bob"]);
        let sessions = owners_of(&mut host, "session");
        assert_eq!(sessions.len(), 3);
        assert!(sessions.iter().all(|whose| whose.starts_with("session ")), "{sessions:?}");
        // Each call had its own instance, which stopped with the call.
        wait_until("those of calls are gone", PATIENCE, || host.instances("call").is_empty());
        assert_eq!(host.started(), 1 + 2 + 3 + 6);
        stage.assert_servers(&host, 6);
        let sharing = host.ask("snapshot")["servers"].clone();
        assert!(sharing.as_array().into_iter().flatten().all(|s| s["sharing"] == s["name"]));
        stage.shut_down(host);
    }

    fn s08_credentials_of_two_users_never_share_a_process(stage) {
        let mut config = one(&stage, "all");
        let mut host = stage.keeper_host(&config);
        host.ask("session s");
        host.call("s a");
        let first = host.pids("a");
        config["servers"]["a"]["credentials"] = "another user's".into();
        host.ask(&format!("replace {config}"));
        host.call("s a");
        stage.assert_servers(&host, 1);
        assert_ne!(host.pids("a"), first);
        stage.shut_down(host);
    }

    fn l29_a_hundred_first_callers_get_one_process_and_one_handshake(stage) {
        let mut host = stage.keeper_host(&one(&stage, "all"));
        for number in 0..10 {
            host.ask(&format!("session s{number} --agent ann"));
            host.later(&format!("c{number}"), &format!("call s{number} a --callers 10"));
        }
        for number in 0..10 {
            assert_eq!(host.answered(&format!("c{number}")), 10);
        }
        stage.assert_servers(&host, 1);
        assert_eq!((stage.inits(), stage.births().len(), host.started()), (1, 1, 1));
        stage.shut_down(host);
    }

    fn l34_instances_of_a_session_stop_with_it(stage) {
        let server = |share: &str| json!({"share": share, "limits": {"neverIdle": true}});
        let mut host = stage.keeper_host(&json!({"servers": {
            "all": server("all"), "agent": server("agent"),
            "session": server("session"), "call": server("call"),
        }}));
        for number in 0..20 {
            host.ask(&format!("session s{number} --agent agent{}", number % 2));
            for server in ["all", "agent", "session", "call"] {
                host.call(&format!("s{number} {server}"));
            }
        }
        wait_until("those of calls are gone", PATIENCE, || host.instances("call").is_empty());
        stage.assert_servers(&host, 1 + 2 + 20);
        for number in 0..20 {
            host.ask(&format!("close s{number}"));
            stage.assert_servers(&host, 1 + 2 + 19 - number);
        }
        host.ask("end-agent agent0");
        stage.assert_servers(&host, 2);
        host.ask("end-agent agent1");
        stage.assert_servers(&host, 1);
        stage.shut_down(host);
    }

    fn the_keeper_names_the_agent_that_a_process_runs_for(stage) {
        let mut host = stage.keeper_host(&json!({"servers": {
            "a": {"switches": ["--setsid-child", "--double-fork", "--pid-file", stage.sandbox.file("pids")]},
            "b": {},
        }}));
        host.ask("session s --agent ann");
        host.call("s a");
        host.call("s b");
        let pids = stage.sandbox.pids();
        assert_eq!(pids.len(), 3);
        for pid in pids {
            let why = host.ask(&format!("why {pid}"));
            assert_eq!((&why["server"], &why["whose"]), (&json!("a"), &json!("agent ann")));
        }
        let own = host.0.pid();
        assert_eq!(host.ask(&format!("why {own}")), Value::Null);
        stage.shut_down(host);
    }
}

mod alone {
    use super::*;

    rows! {
        fn l34_twenty_sessions_with_four_servers_each(stage) {
            let server = json!({"share": "session"});
            let mut host = stage.keeper_host(&json!({
                "servers": {"a": server, "b": server, "c": server, "d": server},
                "caps": {"instances": 80},
            }));
            for number in 0..20 {
                host.ask(&format!("session s{number}"));
                for server in ["a", "b", "c", "d"] {
                    host.later(&format!("{server}{number}"), &format!("call s{number} {server}"));
                }
            }
            for number in 0..20 {
                for server in ["a", "b", "c", "d"] {
                    assert_eq!(host.answered(&format!("{server}{number}")), 1);
                }
            }
            stage.assert_servers(&host, 80);
            for number in 0..20 {
                host.ask(&format!("close s{number}"));
                stage.assert_servers(&host, 4 * (19 - number));
            }
            stage.shut_down(host);
        }

        fn s09_s13_ten_agents_with_a_thousand_calls_each_over_nine_servers(stage) {
            let names: Vec<String> = (0..9).map(|number| format!("w{number}")).collect();
            let share = |number: usize| if number < 5 { "all" } else { "agent" };
            let servers: serde_json::Map<String, Value> = names
                .iter()
                .enumerate()
                .map(|(n, name)| (name.clone(), json!({"switches": stage.watched(&[]), "share": share(n)})))
                .collect();
            let mut host = stage.keeper_host(&json!({"servers": servers}));
            let keys = 5 + 4 * 10;
            for agent in 0..10 {
                host.ask(&format!("session s{agent} --agent agent{agent}"));
                for (number, name) in names.iter().enumerate() {
                    let times = if number == 0 { 112 } else { 111 };
                    let order = format!("call s{agent} {name} --times {times}");
                    host.later(&format!("{agent}-{name}"), &order);
                }
            }
            let mut answered = 0;
            for agent in 0..10 {
                for name in &names {
                    answered += host.answered(&format!("{agent}-{name}"));
                }
                // Instances of the next agents may still be starting.
                let there = stage.named("ostler-stub").len();
                assert!(there <= keys, "{there} servers for {keys} keys");
            }
            stage.assert_servers(&host, keys);
            assert_eq!(answered, 10 * 1000);
            assert_eq!((stage.inits(), stage.births().len()), (keys, keys));
            // Without calls, nothing starts and nothing stops.
            host.ask(&format!("pause {SHORT}"));
            assert_eq!(host.started(), keys as u64);
            stage.assert_servers(&host, keys);
            assert!(stage.births().into_iter().all(is_alive));
            stage.shut_down(host);
        }
    }
}
