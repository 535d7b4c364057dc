//! However a host that embeds the library ends, nothing of its servers is left.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_testkit::{Host, RUDE, Stage, rows, wait_until, zombies_of};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);

/// Sends the command that ends the host, and waits for its exit.
fn end_by(stage: &Stage, host: &mut Host, order: &str) {
    host.order(order);
    stage.wait_exit(&mut host.0);
    stage.expect_empty();
}

/// A cgroup with a memory limit, in the hierarchy that has the memory controller.
struct SmallMemory(PathBuf);

impl SmallMemory {
    const LIMIT: &str = "268435456";

    fn create(stage: &Stage) -> Self {
        let name = format!("ostler-test-{}", stage.sandbox.token().hex());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let v1 = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let has_memory = fields[3].split(',').any(|option| option == "memory");
            (fields[2] == "cgroup" && has_memory).then(|| PathBuf::from(fields[1]))
        });
        let (parent, file) = match v1 {
            Some(parent) => (parent, "memory.limit_in_bytes"),
            None => (stage.sandbox.cgroup().path().parent().unwrap().into(), "memory.max"),
        };
        let path = parent.join(format!("{name}-memory"));
        fs::create_dir(&path).unwrap();
        fs::write(path.join(file), Self::LIMIT).unwrap();
        Self(path)
    }

    fn add(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallMemory {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.path());
    }
}

rows! {
    fn s25_fifty_rude_servers_and_the_owner_is_killed(stage) {
        let mut host = stage.host(50, &RUDE, &[]);
        assert_eq!(stage.guardians().len(), 50);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    fn fifty_rude_servers_are_stopped_with_proof(stage) {
        let mut host = stage.host(50, &RUDE, &[]);
        assert!(host.obey("stop").starts_with("gone: 50 "));
        // The host lives on, without children or zombies.
        let left = stage.sandbox.survivors();
        assert_eq!(left.pids(), [host.0.pid()], "{left}");
        end_by(&stage, &mut host, "exit");
    }

    fn f5_the_owner_exits_without_cleaning_up(stage) {
        let mut host = stage.host(8, &RUDE, &[]);
        end_by(&stage, &mut host, "exit");
    }

    fn f5_the_owner_aborts(stage) {
        let mut host = stage.host(8, &RUDE, &[]);
        end_by(&stage, &mut host, "abort");
    }

    fn f5_a_task_of_the_owner_panics(stage) {
        let mut host = stage.host(8, &RUDE, &[]);
        host.obey("panic");
        wait_until("only the host is left, without zombies", PATIENCE, || {
            stage.sandbox.survivors().pids() == [host.0.pid()] && zombies_of(host.0.pid()).is_empty()
        });
        end_by(&stage, &mut host, "exit");
    }

    fn f5_a_fence_is_dropped_in_a_living_host(stage) {
        let mut host = stage.host(8, &RUDE, &[]);
        host.obey("drop");
        wait_until("only the host is left, without zombies", PATIENCE, || {
            stage.sandbox.survivors().pids() == [host.0.pid()] && zombies_of(host.0.pid()).is_empty()
        });
        end_by(&stage, &mut host, "exit");
    }

    fn f7_an_unrelated_process_holds_the_control_sockets_of_a_killed_owner(stage) {
        let mut host = stage.host(4, &RUDE, &[]);
        host.obey("leak-control");
        host.0.signal(Signal::STOP);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        wait_until("only the stranger is left", PATIENCE, || {
            stage.sandbox.survivors().processes.iter().all(|p| p.process.comm == "sleep")
        });
    }
}

#[test]
fn f5_the_owner_is_killed_for_its_memory() {
    let stage = Stage::leaf();
    let small = SmallMemory::create(&stage);
    let mut host = stage.host(4, &RUDE, &[]);
    small.add(host.0.pid());
    host.order("oom");
    stage.wait_exit(&mut host.0);
    stage.expect_empty();
}
