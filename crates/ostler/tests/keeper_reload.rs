//! Applying a configuration: unchanged servers keep their process, changed and removed ones drain and stop, and no
//! process of an earlier generation is left when that has settled.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, is_alive, rows, wait_until};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
/// Number of reloads that the daemon of the fourth bug report had seen.
const RELOADS: usize = 123;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Servers by version, with a short drain limit for calls that are never answered.
fn config(stage: &Stage, share: &str, versions: &BTreeMap<&str, usize>) -> Value {
    draining(stage, share, versions, 20)
}

/// Servers by version, with a long drain limit.
fn patient(stage: &Stage, share: &str, versions: &BTreeMap<&str, usize>) -> Value {
    draining(stage, share, versions, 600_000)
}

fn draining(stage: &Stage, share: &str, versions: &BTreeMap<&str, usize>, drain: u64) -> Value {
    let server = |version: &usize| {
        let (switches, limits) = (stage.watched(&[]), json!({"drainMs": drain}));
        let env = json!({"VERSION": version.to_string()});
        json!({"switches": switches, "share": share, "env": env, "limits": limits})
    };
    let servers = versions.iter().map(|(name, version)| ((*name).to_owned(), server(version)));
    json!({"servers": servers.collect::<serde_json::Map<_, _>>()})
}

fn replace(host: &mut KeeperHost, config: &Value) -> Value {
    let settled = host.ask(&format!("replace {config}"));
    assert_eq!(settled["left"], json!([]), "{settled}");
    settled["changes"].clone()
}

/// Calls each server once.
fn call_all<'a>(host: &mut KeeperHost, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        host.call(&format!("s {name}"));
    }
}

fn pids_of<'a>(host: &mut KeeperHost, names: impl IntoIterator<Item = &'a str>) -> Vec<u32> {
    names.into_iter().flat_map(|name| host.pids(name)).collect()
}

/// Begins a call of `a` that is never answered.
fn begin_call(host: &mut KeeperHost) {
    begin_call_with(host, &json!({"never": true}));
}

fn begin_call_with(host: &mut KeeperHost, arguments: &Value) {
    host.later("flight", &format!("call s a --arguments {arguments}"));
    wait_until("the call is in flight", PATIENCE, || {
        host.instances("a").iter().any(|view| view["state"] == "ready" && view["uses"] == 1)
    });
}

/// A file that a call in flight waits for.
struct Gate(PathBuf);

impl Gate {
    fn new(stage: &Stage) -> Self {
        Self(stage.sandbox.file("gate"))
    }

    /// Begins a call of `a` that is answered when the gate is opened.
    fn begin_call(&self, host: &mut KeeperHost) {
        let _ = fs::remove_file(&self.0);
        begin_call_with(host, &json!({"until": self.0}));
    }

    fn open(&self) {
        fs::write(&self.0, "").unwrap();
    }
}

rows! {
    fn l27_one_is_changed_one_removed_one_kept_one_added(stage) {
        let before = BTreeMap::from([("a", 1), ("b", 1), ("c", 1)]);
        let mut host = stage.keeper_host(&config(&stage, "all", &before));
        host.ask("session s");
        call_all(&mut host, ["a", "b", "c"]);
        let (old, kept) = (pids_of(&mut host, ["a", "b"]), host.pids("c"));
        let after = config(&stage, "all", &BTreeMap::from([("a", 2), ("c", 1), ("d", 1)]));
        let changes = replace(&mut host, &after);
        assert_eq!(changes, json!({"changed": ["a"], "removed": ["b"], "kept": ["c"], "added": ["d"]}));
        // Nothing is started before a request.
        stage.assert_servers(&host, 1);
        assert!(!old.into_iter().any(is_alive));
        call_all(&mut host, ["a", "c", "d"]);
        stage.assert_servers(&host, 3);
        assert_eq!(host.pids("c"), kept);
        assert_eq!(host.failing_call("s b"), "no server is called b");
        stage.shut_down(host);
    }

    fn l28_a_call_in_flight_keeps_the_old_instance_for_the_drain_limit_at_most(stage) {
        let versions = |version| BTreeMap::from([("a", version)]);
        let mut host = stage.keeper_host(&config(&stage, "all", &versions(1)));
        host.ask("session s");
        host.call("s a");
        let old = host.pids("a");
        begin_call(&mut host);
        replace(&mut host, &config(&stage, "all", &versions(2)));
        stage.assert_servers(&host, 0);
        let error = host.failed("flight");
        assert!(error.contains("its configuration has changed"), "{error}");
        host.call("s a");
        stage.assert_servers(&host, 1);
        assert_ne!(host.pids("a"), old);
        stage.shut_down(host);
    }

    fn l28_a_shared_server_starts_again_while_the_old_instance_drains(stage) {
        let slow = |version| patient(&stage, "all", &BTreeMap::from([("a", version)]));
        let mut host = stage.keeper_host(&slow(1));
        host.ask("session s");
        let gate = Gate::new(&stage);
        gate.begin_call(&mut host);
        host.later("swap", &format!("replace {}", slow(2)));
        host.call("s a");
        stage.assert_servers(&host, 2);
        // The call may finish.
        gate.open();
        assert_eq!(host.answered("flight"), 1);
        assert_eq!(host.ask("result swap")["left"], json!([]));
        stage.assert_servers(&host, 1);
        stage.shut_down(host);
    }

    fn s07_two_generations_of_an_agents_instance_never_overlap(stage) {
        let versions = |version| BTreeMap::from([("a", version)]);
        let gate = Gate::new(&stage);
        for share in ["agent", "session"] {
            let mut host = stage.keeper_host(&patient(&stage, share, &versions(0)));
            host.ask("session s --agent ann");
            for version in 1..=20 {
                gate.begin_call(&mut host);
                host.later("swap", &format!("replace {}", patient(&stage, share, &versions(version))));
                host.later("next", "call s a");
                wait_until("the next one waits", PATIENCE, || host.ask("snapshot")["waiting"] == 1);
                stage.assert_servers(&host, 1);
                gate.open();
                host.answered("next");
                stage.assert_servers(&host, 1);
                assert_eq!((host.answered("flight"), stage.most_alive()), (1, 1));
                assert_eq!(host.ask("result swap")["left"], json!([]));
            }
            stage.shut_down(host);
        }
    }

    fn s20_l26_a_probe_that_is_dropped_leaves_nothing(stage) {
        let mut host = stage.keeper_host(&json!({"servers": {
            "a": {"share": "session", "switches": stage.watched(&["--setsid-child"])},
        }}));
        for _ in 0..20 {
            assert_eq!(host.ask("probe a")[0]["name"], "echo");
            wait_until("it has gone without a word", PATIENCE, || host.books()["live"] == 0);
            stage.assert_servers(&host, 0);
        }
        // A peek starts nothing.
        host.ask("session s");
        for _ in 0..20 {
            assert_eq!(host.ask("probe a --running s"), Value::Null);
        }
        assert_eq!((host.started(), stage.births().len()), (20, 20));
        stage.shut_down(host);
    }
}

mod alone {
    use super::*;

    rows! {
        fn s18_s23_reloads_that_change_nothing_keep_four_processes(stage) {
            let config = config(&stage, "all", &NAMES.map(|name| (name, 0)).into());
            let mut host = stage.keeper_host(&config);
            host.ask("session s");
            call_all(&mut host, NAMES);
            let pids = pids_of(&mut host, NAMES);
            for _ in 0..RELOADS {
                assert_eq!(replace(&mut host, &config)["kept"], json!(NAMES));
                call_all(&mut host, NAMES);
                assert_eq!(pids_of(&mut host, NAMES), pids);
                stage.assert_servers(&host, 4);
            }
            assert_eq!(stage.births().len(), 4);
            stage.shut_down(host);
        }

        fn s18_s23_l26_reloads_that_change_all_leave_no_earlier_process(stage) {
            let versions = |version| NAMES.map(|name| (name, version)).into();
            let gate = Gate::new(&stage);
            let mut host = stage.keeper_host(&patient(&stage, "all", &versions(0)));
            host.ask("session s");
            call_all(&mut host, NAMES);
            for cycle in 1..=RELOADS {
                let old = pids_of(&mut host, NAMES);
                // The old instances drain while the new ones start.
                gate.begin_call(&mut host);
                host.later("swap", &format!("replace {}", patient(&stage, "all", &versions(cycle))));
                call_all(&mut host, NAMES);
                gate.open();
                assert_eq!(host.answered("flight"), 1);
                assert_eq!(host.ask("result swap")["left"], json!([]));
                assert!(!old.into_iter().any(is_alive));
                stage.assert_servers(&host, 4);
            }
            assert_eq!(stage.births().len(), 4 * (RELOADS + 1));
            assert!(stage.most_alive() <= 8, "{} lived at once", stage.most_alive());
            stage.shut_down(host);
        }

        fn s18_s23_l26_l27_reloads_that_change_keep_remove_and_add(stage) {
            let mut versions = BTreeMap::from(NAMES.map(|name| (name, 0)));
            let mut host = stage.keeper_host(&config(&stage, "all", &versions));
            host.ask("session s");
            call_all(&mut host, NAMES);
            for cycle in 1..=RELOADS {
                let before = versions.clone();
                let (changed, removed) = (NAMES[cycle % 4], NAMES[(cycle + 1) % 4]);
                versions = NAMES.map(|name| (name, before.get(name).copied().unwrap_or(cycle))).into();
                versions.insert(changed, cycle);
                versions.remove(removed);
                let kept = versions.keys().copied().filter(|name| before.get(name) == versions.get(name));
                let kept: Vec<&str> = kept.collect();
                let pids = pids_of(&mut host, kept.iter().copied());
                let old = pids_of(&mut host, [changed, removed]);
                replace(&mut host, &config(&stage, "all", &versions));
                assert!(!old.into_iter().any(is_alive));
                stage.assert_servers(&host, kept.len());
                call_all(&mut host, versions.keys().copied());
                assert_eq!(pids_of(&mut host, kept), pids);
                stage.assert_servers(&host, 3);
            }
            assert!(stage.most_alive() <= 8, "{} lived at once", stage.most_alive());
            stage.shut_down(host);
        }

        fn f08_two_hundred_reloads_with_a_call_in_flight_each(stage) {
            let versions = |version| BTreeMap::from([("a", version)]);
            let mut host = stage.keeper_host(&config(&stage, "all", &versions(0)));
            host.ask("session s");
            for cycle in 1..=200 {
                begin_call(&mut host);
                replace(&mut host, &config(&stage, "all", &versions(cycle)));
                stage.assert_servers(&host, 0);
                let error = host.failed("flight");
                assert!(error.contains("its configuration has changed"), "{error}");
            }
            assert_eq!(host.books()["gone"], 200);
            stage.shut_down(host);
        }
    }
}
