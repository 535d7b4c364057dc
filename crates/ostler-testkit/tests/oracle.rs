//! The oracle finds every planted process, and nothing else.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::{Launched, Sandbox, Survivor, binary, wait_until, zombies_of};

const LIMIT: Duration = Duration::from_secs(30);

/// Runs the stub with the switches until it has left its descendants alone.
fn leave_behind(sandbox: &Sandbox, switches: &[&str]) {
    let mut stub = Launched::start(sandbox.stub().args(switches).arg("--exit-at-once"));
    assert!(stub.wait_exit(LIMIT).success(), "{}", stub.stderr());
}

fn the_one(sandbox: &Sandbox) -> Survivor {
    let survivors = sandbox.survivors();
    assert_eq!(survivors.processes.len(), 1, "{survivors}");
    survivors.processes.into_iter().next().unwrap()
}

#[test]
fn nothing_is_reported_where_nothing_is_left() {
    let sandbox = Sandbox::new();
    assert!(sandbox.survivors().is_none());

    let mut stub = Launched::start(&mut sandbox.stub());
    stub.initialize();
    assert_eq!(sandbox.survivors().pids(), [stub.pid()]);
    stub.close_stdin();
    assert!(stub.wait_exit(LIMIT).success());

    assert!(sandbox.survivors().is_none(), "{}", sandbox.survivors());
    assert_eq!(sandbox.survivors().to_string(), "nothing\n");
}

#[test]
fn a_plain_child_is_found() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--child"]);
    let left = the_one(&sandbox);
    assert_eq!(left.process.pid, sandbox.pids()[1]);
    assert_eq!(left.process.comm, "ostler-stub");
    assert!(left.cmdline.contains("ostler-stub idle"), "{left}");
    assert!(left.in_cgroup && left.has_token, "{left}");
}

#[test]
fn a_session_leader_is_found() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--setsid-child"]);
    let left = the_one(&sandbox);
    assert_eq!(left.process.sid, left.process.pid);
    assert_eq!(left.process.pid, sandbox.pids()[1]);
}

#[test]
fn a_daemon_with_an_empty_environment_is_found() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--double-fork", "--empty-env"]);
    let left = the_one(&sandbox);
    assert_eq!(left.process.pid, sandbox.pids()[1]);
    assert!(left.in_cgroup && !left.has_token, "{left}");
    assert_ne!(left.process.sid, left.process.pid);
}

#[test]
fn a_carrier_of_the_token_outside_of_the_cgroup_is_found_and_ended() {
    let sandbox = Sandbox::new();
    let (name, value) = sandbox.token().env();
    let mut stranger = Command::new(binary("ostler-stub"))
        .arg("--ignore-eof")
        .env(name, value)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is found", LIMIT, || sandbox.survivors().pids() == [stranger.id()]);
    let left = the_one(&sandbox);
    assert!(!left.in_cgroup && left.has_token, "{left}");
    drop(sandbox);
    assert!(!stranger.wait().unwrap().success());
}

#[test]
fn a_hopper_is_found_by_every_scan() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--hop-ms", "0", "--empty-env"]);
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let survivors = sandbox.survivors();
        assert!(!survivors.is_none());
        seen.extend(survivors.pids());
    }
    wait_until("it has changed its pid", LIMIT, || {
        seen.extend(sandbox.survivors().pids());
        seen.len() > 3
    });
}

#[test]
fn a_hopper_at_full_speed_is_found_by_every_scan() {
    let sandbox = Sandbox::new();
    let mut reaper = sandbox.command(binary("ostler-stub"));
    reaper.args(["reap", "--"]).arg(binary("ostler-stub"));
    reaper.args(["--hop-ms", "0", "--empty-env", "--exit-at-once", "--ready"]);
    let mut reaper = Launched::start(reaper.arg(sandbox.file("ready")));
    sandbox.wait_ready(LIMIT);
    for _ in 0..100 {
        let survivors = sandbox.survivors();
        assert!(survivors.is_populated, "{survivors}");
    }
    // Without the reaper the hopper continues, now as a child of init.
    reaper.signal(rustix::process::Signal::KILL);
    reaper.wait_exit(LIMIT);
    assert!(!sandbox.survivors().is_none());
}

#[test]
fn zombies_are_found_by_cgroup_and_by_parent() {
    let sandbox = Sandbox::new();
    let stub = Launched::start(sandbox.stub().args(["--zombies", "2"]));
    sandbox.wait_ready(LIMIT);
    let survivors = sandbox.survivors();
    assert_eq!(survivors.zombies.len(), 2, "{survivors}");
    assert_eq!(zombies_of(stub.pid()), survivors.zombies);
    assert!(survivors.to_string().contains(&format!("of parent {}", stub.pid())));
}

#[test]
fn a_zombie_is_the_only_thing_left() {
    let sandbox = Sandbox::new();
    let mut stub = Launched::start(&mut sandbox.stub());
    sandbox.wait_ready(LIMIT);
    stub.close_stdin();
    wait_until("it is a zombie of the test", LIMIT, || sandbox.survivors().zombies.len() == 1);
    let survivors = sandbox.survivors();
    assert!(!survivors.is_none() && survivors.processes.is_empty(), "{survivors}");
    stub.wait_exit(LIMIT);
    assert!(sandbox.survivors().is_none());
}

#[test]
fn orphans_that_die_leave_nothing_of_the_test() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.stub();
    let stub = Launched::start(command.args(["--orphan-zombies", "2", "--orphan-ms", "200"]));
    sandbox.wait_ready(LIMIT);
    assert_eq!(sandbox.pids().len(), 3);
    wait_until("the orphans have died", LIMIT, || sandbox.survivors().pids() == [stub.pid()]);
    assert!(zombies_of(stub.pid()).is_empty(), "another process adopted them");
}

#[test]
fn a_stopped_process_is_found() {
    let sandbox = Sandbox::new();
    let stub = Launched::start(sandbox.stub().arg("--stop-self"));
    wait_until("it has stopped", LIMIT, || {
        let left = sandbox.survivors().processes;
        left.iter().any(|left| left.process.pid == stub.pid() && left.process.state == 'T')
    });
}

#[test]
fn files_and_cgroups_are_found() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.state().join("ostler/ledger")).unwrap();
    assert!(sandbox.survivors().is_none(), "an empty directory is no residue");
    let files = [sandbox.state().join("ostler/ledger/1"), sandbox.runtime().join("socket")];
    for file in &files {
        fs::write(file, "").unwrap();
    }
    let leaf = sandbox.cgroup().path().join("leaf");
    fs::create_dir_all(leaf.join("deeper")).unwrap();

    let survivors = sandbox.survivors();
    assert!(!survivors.is_none());
    assert!(survivors.has_no_process());
    assert_eq!(survivors.files, files);
    assert_eq!(survivors.cgroups, [leaf.clone(), leaf.join("deeper")]);
    let text = survivors.to_string();
    assert!(text.contains("ledger/1") && text.contains("socket") && text.contains("deeper"));
}

#[test]
fn a_process_in_a_cgroup_below_is_found() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--child", "--empty-env"]);
    let left = the_one(&sandbox);
    let leaf = sandbox.cgroup().path().join("leaf");
    fs::create_dir(&leaf).unwrap();
    fs::write(leaf.join("cgroup.procs"), left.process.pid.to_string()).unwrap();
    assert_eq!(the_one(&sandbox).process.pid, left.process.pid);
}

#[test]
#[should_panic(expected = "(ostler-stub) state ")]
fn the_failure_message_names_the_remaining_process() {
    let sandbox = Sandbox::new();
    leave_behind(&sandbox, &["--child"]);
    sandbox.expect_no_survivors(Duration::from_millis(50));
}

#[test]
#[should_panic(expected = "not within 20ms: the impossible")]
fn a_timed_out_wait_names_its_condition() {
    wait_until("the impossible", Duration::from_millis(20), || None::<()>);
}
