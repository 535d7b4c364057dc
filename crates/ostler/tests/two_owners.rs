//! A process may have several owners; the end of one does not affect the others.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::time::Duration;

use ostler_testkit::{Stage, is_alive, pids_in, rows, wait_until, zombies_of};
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
const NOTHING: &str = "nothing to reap: no dead owner has left anything\n";

/// The running servers in `ostler ps`: pids, and ids of their owners.
fn running(stage: &Stage) -> Vec<(u64, String)> {
    let shown = stage.ostler_json(&["ps", "--json"]);
    let is_running = |view: &&Value| view["state"] == "running";
    let name = |view: &Value| {
        (view["pid"].as_u64().unwrap(), view["owner"]["id"].as_str().unwrap().to_owned())
    };
    let mut all: Vec<_> = shown.as_array().unwrap().iter().filter(is_running).map(name).collect();
    all.sort();
    all
}

rows! {
    fn one_of_two_owners_is_dropped(stage) {
        let files = ["first", "second"].map(|name| stage.sandbox.file(name));
        let switches = files.clone().map(|file| format!("--setsid-child --pid-file {}", file.display()));
        let mut host = stage.host(4, &[&switches[0], &switches[1]], &["--owners", "2"]);
        wait_until("all are up", PATIENCE, || files.iter().all(|file| pids_in(file).len() == 4));
        let [first, second] = files.map(|file| pids_in(&file));
        let before = running(&stage);
        assert_eq!((before.len(), stage.ledgers().len()), (4, 2));

        host.obey("drop-first-owner");
        wait_until("the first owner's servers are gone", PATIENCE, || {
            !first.iter().any(|pid| is_alive(*pid)) && stage.ledgers().len() == 1
        });
        wait_until("no zombie is left of them", PATIENCE, || zombies_of(host.0.pid()).is_empty());
        assert!(second.iter().all(|pid| is_alive(*pid)));
        let kept: Vec<_> = before
            .into_iter()
            .filter(|(pid, _)| second.contains(&u32::try_from(*pid).unwrap()))
            .collect();
        assert_eq!(kept.len(), 2);
        assert_eq!(running(&stage), kept);

        // Its lock still holds, so no sweep takes it for dead.
        assert_eq!(stage.ostler(&["reap", "--yes"]), NOTHING);
        assert_eq!(running(&stage), kept);
        assert!(second.iter().all(|pid| is_alive(*pid)));
        assert!(host.obey("stop").starts_with("gone: 2 "));
        assert!(stage.ledgers().is_empty());
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.assert_empty_now();
    }

    fn a_host_with_two_owners_is_killed(stage) {
        let mut host = stage.host(6, &["--setsid-child", "--ignore-term"], &["--owners", "2"]);
        assert_eq!(stage.ledgers().len(), 2);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
        assert!(stage.ledgers().is_empty());
    }

    /// The lock of one owner must survive the creation and removal of the other's directory.
    fn two_owners_come_and_go_side_by_side(stage) {
        let mut host = stage.host(2, &[""], &["--owners", "2"]);
        for _ in 0..5 {
            host.obey("cycle");
            assert_eq!(stage.ostler(&["reap", "--yes"]), NOTHING);
            assert_eq!(running(&stage).len(), 2);
        }
        assert!(host.obey("stop").starts_with("gone: 2 "));
    }
}
