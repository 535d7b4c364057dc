//! Processes that SIGKILL cannot end at once are reported, and ended as soon as possible.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ostler_testkit::{Stage, is_alive, rows, wait_until};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

/// A v1 freezer cgroup: a process frozen in it does not heed even SIGKILL until it is thawed, like
/// one in an uninterruptible wait.
struct Freezer(PathBuf);

impl Freezer {
    fn create(stage: &Stage) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let is_freezer = |fields: &Vec<&str>| {
            fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "freezer")
        };
        let mount = mounts.lines().map(|line| line.split(' ').collect()).find(is_freezer);
        let mount = PathBuf::from(mount.expect("scripts/prepare mounts a v1 freezer")[1]);
        let path = mount.join(format!("ostler-test-{}", stage.sandbox.token().hex()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn freeze(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
        fs::write(self.0.join("freezer.state"), "FROZEN").unwrap();
        wait_until("it is frozen", PATIENCE, || {
            fs::read_to_string(self.0.join("freezer.state")).unwrap() == "FROZEN\n"
        });
    }

    fn thaw(&self) {
        fs::write(self.0.join("freezer.state"), "THAWED").unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let empty = || fs::read_to_string(self.0.join("cgroup.procs")).is_ok_and(|p| p.is_empty());
        wait_until("the freezer is empty", PATIENCE, empty);
        let _ = fs::remove_dir(&self.0);
    }
}

rows! {
    fn l09_a_server_that_cannot_be_killed_is_named_and_goes_later(stage) {
        let freezer = Freezer::create(&stage);
        let mut run = stage.wrap(&["--setsid-child"]);
        let server = stage.sandbox.pids()[0];
        let guardian = stage.guardians()[0];
        freezer.freeze(server);
        run.close_stdin();
        stage.wait_exit(&mut run);
        // The client does not wait; the guardian stays with the remaining processes.
        let said = run.stderr();
        assert!(said.contains(&format!("its guardian ({guardian}) continues")), "{said}");
        assert!(is_alive(server) && is_alive(guardian));
        freezer.thaw();
        stage.expect_empty();
    }

    fn f3_remains_that_cannot_be_killed_delay_no_start_and_go_later(stage) {
        let freezer = Freezer::create(&stage);
        let mut run = stage.wrap(&["--setsid-child"]);
        stage.abandon(&mut run);
        let orphan = stage.sandbox.pids()[1];
        freezer.freeze(orphan);

        // The sweep of this start is still running when the server answers.
        let mut next = stage.wrap(&[]);
        next.initialize();
        assert!(is_alive(orphan));
        next.close_stdin();
        assert!(stage.wait_exit(&mut next).success());
        assert_left_and_then_gone(&stage, &freezer, orphan);
    }
}

/// `ostler reap` names the remaining processes as long as they exist.
fn assert_left_and_then_gone(stage: &Stage, freezer: &Freezer, orphan: u32) {
    for _ in 0..2 {
        let output = stage.try_ostler(&["reap", "--yes", "--json"]);
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert_eq!((said.as_array().unwrap().len(), &said[0]["outcome"]), (1, &json!("left")));
        let shown = stage.ostler_json(&["ps", "--json"]);
        assert_eq!(shown[0]["processes"][0]["pid"], orphan);
        assert_eq!(shown[0]["state"], "orphaned");
    }
    freezer.thaw();
    stage.ostler(&["reap", "--yes"]);
    stage.assert_empty_now();
}

/// The process has no mark in its environment, so only the leaf finds it.
#[test]
fn f3_unmarked_remains_that_cannot_be_killed_are_not_forgotten() {
    let stage = Stage::leaf();
    let freezer = Freezer::create(&stage);
    let mut run = stage.wrap(&["--setsid-child", "--empty-env"]);
    stage.abandon(&mut run);
    let orphan = stage.sandbox.pids()[1];
    freezer.freeze(orphan);
    assert_left_and_then_gone(&stage, &freezer, orphan);
}
