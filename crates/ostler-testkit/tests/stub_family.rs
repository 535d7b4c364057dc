//! Descendants of the stub.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Sandbox, is_alive, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(30);

/// Starts the stub, and returns it with its descendants once all are up.
fn start(sandbox: &Sandbox, switches: &[&str]) -> (Launched, Vec<Process>) {
    let stub = Launched::start(sandbox.stub().args(switches));
    sandbox.wait_ready(LIMIT);
    let pids = sandbox.pids();
    assert_eq!(pids[0], stub.pid());
    (stub, pids[1..].iter().map(|pid| Process::read(*pid).unwrap()).collect())
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_child_is_in_the_group_of_the_server() {
    let sandbox = Sandbox::new();
    let (stub, family) = start(&sandbox, &["--child"]);
    let server = Process::read(stub.pid()).unwrap();
    assert_eq!(family.len(), 1);
    assert_eq!((family[0].ppid, family[0].pgid), (stub.pid(), server.pgid));
}

#[test]
fn a_setsid_child_leads_a_session() {
    let sandbox = Sandbox::new();
    let (stub, family) = start(&sandbox, &["--setsid-child"]);
    assert_eq!(family.len(), 1);
    assert_eq!((family[0].ppid, family[0].sid), (stub.pid(), family[0].pid));
}

#[test]
fn daemons_have_another_parent_and_session() {
    let sandbox = Sandbox::new();
    let (stub, family) = start(&sandbox, &["--double-fork", "--daemons", "3"]);
    let server = Process::read(stub.pid()).unwrap();
    assert_eq!(family.len(), 4);
    for daemon in &family {
        assert!(daemon.ppid != stub.pid() && daemon.sid != server.sid && daemon.sid != daemon.pid);
    }
    assert!(ostler_testkit::zombies_of(stub.pid()).is_empty());
}

#[test]
fn a_hopper_changes_its_pid() {
    let sandbox = Sandbox::new();
    let mut stub = Launched::start(sandbox.stub().args(["--hop-ms", "10", "--exit-at-once"]));
    assert!(stub.wait_exit(LIMIT).success());
    assert_eq!(sandbox.pids().len(), 2);
    let mut seen = BTreeSet::new();
    wait_until("it has hopped", LIMIT, || {
        seen.extend(sandbox.survivors().pids());
        seen.len() > 3
    });
}

#[test]
fn descendants_have_the_environment_unless_it_is_emptied() {
    let environ = |process: &Process| fs::read(format!("/proc/{}/environ", process.pid)).unwrap();
    let sandbox = Sandbox::new();
    let (_stub, family) = start(&sandbox, &["--child", "--double-fork"]);
    assert!(family.iter().all(|process| sandbox.token().is_carried_by(process.pid)));

    let sandbox = Sandbox::new();
    let switches = ["--child", "--double-fork", "--setsid-child", "--nested", "--empty-env"];
    let (_stub, family) = start(&sandbox, &switches);
    assert_eq!(family.len(), 7);
    assert!(family.iter().all(|process| environ(process).is_empty()));
}

#[test]
fn descendants_can_survive_a_term() {
    let sandbox = Sandbox::new();
    let (_stub, family) = start(&sandbox, &["--child", "--descendants-ignore-term"]);
    let pid = family[0].pid;
    signal(pid, Signal::TERM);
    wait_until("the signal is delivered", LIMIT, || {
        fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| status.contains("ShdPnd:\t0000000000000000"))
    });
    assert!(is_alive(pid));
}

#[test]
fn descendants_die_of_a_term_by_default() {
    let sandbox = Sandbox::new();
    let (_stub, family) = start(&sandbox, &["--child"]);
    signal(family[0].pid, Signal::TERM);
    wait_until("it is dead", LIMIT, || !is_alive(family[0].pid));
}

#[test]
fn a_nested_server_has_a_group_and_descendants_of_its_own() {
    let sandbox = Sandbox::new();
    let (mut stub, family) = start(&sandbox, &["--nested"]);
    assert_eq!(family.len(), 4);
    let nested = &family[0];
    assert_eq!((nested.ppid, nested.pgid), (stub.pid(), nested.pid));
    assert!(family[1..].iter().any(|process| process.ppid == nested.pid));

    stub.close_stdin();
    stub.wait_exit(LIMIT);
    let left = BTreeSet::from_iter(sandbox.survivors().pids());
    assert_eq!(left, family.iter().map(|process| process.pid).collect(), "all of it lives on");
}

#[test]
fn a_descendant_keeps_stdout_open() {
    let sandbox = Sandbox::new();
    let (mut stub, family) = start(&sandbox, &["--hold-stdout"]);
    stub.close_stdin();
    assert!(stub.wait_exit(LIMIT).success());
    let error = stub.line(Duration::from_millis(100)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    signal(family[0].pid, Signal::KILL);
    assert_eq!(stub.line(LIMIT).unwrap(), None);
}

#[test]
fn other_descendants_do_not_keep_stdout_open() {
    let sandbox = Sandbox::new();
    let switches = ["--child", "--setsid-child", "--double-fork", "--nested", "--hop-ms", "20"];
    let mut stub = Launched::start(sandbox.stub().args(switches));
    sandbox.wait_ready(LIMIT);
    stub.close_stdin();
    assert_eq!(stub.line(LIMIT).unwrap(), None);
}
