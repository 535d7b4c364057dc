//! What KILL cannot end at once is said to be left, and ended as soon as that is possible.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ostler_testkit::{is_alive, rows, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// A v1 freezer cgroup: a process frozen in it does not heed even SIGKILL until it is thawed, like
/// one in an uninterruptible wait.
struct Freezer(PathBuf);

impl Freezer {
    fn create(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let is_freezer = |fields: &Vec<&str>| {
            fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "freezer")
        };
        let mount = mounts.lines().map(|line| line.split(' ').collect()).find(is_freezer);
        let path = PathBuf::from(mount.expect("scripts/prepare mounts a v1 freezer")[1]).join(name);
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
        let freezer = Freezer::create(&format!("ostler-test-{}", stage.sandbox.token().hex()));
        let mut run = stage.wrap(&["--setsid-child"]);
        let server = stage.sandbox.pids()[0];
        let guardian = stage.guardians()[0];
        freezer.freeze(server);
        run.close_stdin();
        stage.wait_exit(&mut run);
        // The client is not kept waiting; the guardian stays with what is left.
        let said = run.stderr();
        assert!(said.contains(&format!("its guardian ({guardian}) goes on")), "{said}");
        assert!(is_alive(server) && is_alive(guardian));
        freezer.thaw();
        stage.expect_empty();
    }
}
