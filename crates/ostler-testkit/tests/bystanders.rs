//! Bystanders detect signals and other interference.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::time::Duration;

use ostler_testkit::{Bystanders, Launched, Process, Sandbox, User, is_alive, wait_until};
use rustix::process::{Pid, Signal, getpgrp, kill_process};

const LIMIT: Duration = Duration::from_secs(30);

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn bystanders_are_untouched_by_a_test_that_ends_only_its_own_processes() {
    let sandbox = Sandbox::new();
    let bystanders = Bystanders::start_with(&sandbox, User::Root, &["--ignore-eof"]);
    assert!(sandbox.survivors().is_none(), "they are no survivors: {}", sandbox.survivors());

    let stub = Launched::start(sandbox.stub().args(["--ignore-eof", "--double-fork"]));
    sandbox.wait_ready(LIMIT);
    assert_eq!(sandbox.survivors().pids().len(), 2);
    drop(stub);
    bystanders.assert_untouched();
    drop(sandbox);
    bystanders.assert_untouched();
}

#[test]
fn bystanders_are_placed_in_their_groups_and_cgroups() {
    let sandbox = Sandbox::new();
    let bystanders = Bystanders::start(&sandbox, sandbox.nobody());
    let all: Vec<Process> =
        bystanders.pids().into_iter().map(|pid| Process::read(pid).unwrap()).collect();
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|process| process.comm == "ostler-stub"));
    let group = u32::try_from(getpgrp().as_raw_nonzero().get()).unwrap();
    assert!(all.iter().any(|process| process.pgid == group));
    assert!(all.iter().any(|process| process.sid == process.pid));
    assert!(all.iter().any(|process| process.pgid == process.pid && process.sid != process.pid));
    assert!(all.iter().any(|process| process.ppid != std::process::id()));
}

#[test]
fn each_death_is_noticed() {
    let sandbox = Sandbox::new();
    let bystanders = Bystanders::start(&sandbox, User::Root);
    for (index, pid) in bystanders.pids().into_iter().enumerate() {
        signal(pid, Signal::KILL);
        wait_until("the death is noticed", LIMIT, || bystanders.harm().len() == index + 1);
    }
}

#[test]
fn a_stop_is_noticed() {
    let sandbox = Sandbox::new();
    let bystanders = Bystanders::start(&sandbox, User::Root);
    let pid = bystanders.pids()[2];
    signal(pid, Signal::STOP);
    wait_until("the stop is noticed", LIMIT, || {
        bystanders.harm().iter().any(|line| line.contains("Stopped"))
    });
    signal(pid, Signal::CONT);
    wait_until("it goes on", LIMIT, || bystanders.harm().is_empty());
}

#[test]
#[should_panic(expected = "bystanders were touched")]
fn the_assertion_fails_for_a_dead_bystander() {
    let sandbox = Sandbox::new();
    let bystanders = Bystanders::start(&sandbox, User::Root);
    let pid = bystanders.pids()[0];
    signal(pid, Signal::KILL);
    wait_until("it is dead", LIMIT, || !is_alive(pid));
    bystanders.assert_untouched();
}

#[test]
fn bystanders_end_with_their_owner() {
    let sandbox = Sandbox::new();
    let bystanders =
        Bystanders::start_with(&sandbox, User::Root, &["--ignore-eof", "--ignore-term"]);
    let pids = bystanders.pids();
    drop(bystanders);
    assert!(pids.into_iter().all(|pid| !is_alive(pid)));
}
