//! Instances that a host has dropped end independently of each other.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::time::Duration;

use ostler::{
    Event, GuardianProgram, Instance, Owner, Pipe, Places, ServerSpec, ServerStdio, Terms,
};
use ostler_testkit::{binary, is_alive, wait_until, zombies_of};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);

fn start(owner: &Owner) -> (Instance, Pipe, Pid) {
    let spec = ServerSpec {
        name: "echo".into(),
        program: "cat".into(),
        args: Vec::new(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    let terms = Terms { guardian: GuardianProgram::At(binary("ostler-host")), ..Terms::default() };
    let (stdio, pipe) = ServerStdio::piped().unwrap();
    let mut instance = owner.start(spec, stdio, &terms).unwrap();
    let started = instance.wait_event(PATIENCE).unwrap();
    assert!(matches!(started, Some(Event::Started { .. })), "{started:?}");
    let guardian = instance.whereabouts().unwrap().guardian().unwrap();
    (instance, pipe, Pid::from_raw(guardian.pid).unwrap())
}

fn is_there(guardian: Pid) -> bool {
    is_alive(guardian.as_raw_pid().cast_unsigned())
}

/// Whether the thread that reaps dropped instances is sleeping.
fn is_reaper_waiting() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut stats =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    stats.any(|stat| stat.contains("(ostler-reaper) S"))
}

/// A guardian may take long, because it was stopped as here or because an engine does not respond. It must not delay
/// the others.
#[test]
fn an_instance_that_does_not_end_delays_the_reaping_of_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let owner = Owner::new(Places::new([directory.path().to_owned()]), "dropped").unwrap();
    let (stuck, _pipe, stuck_guardian) = start(&owner);
    let others: Vec<_> = (0..3).map(|_| start(&owner)).collect();
    kill_process(stuck_guardian, Signal::STOP).unwrap();
    drop(stuck);
    wait_until("the reaper waits for the stuck guardian", PATIENCE, is_reaper_waiting);
    let guardians: Vec<Pid> = others.iter().map(|(_, _, guardian)| *guardian).collect();
    drop(others);
    wait_until("the guardians of the others have left", PATIENCE, || {
        guardians.iter().all(|guardian| !is_there(*guardian))
    });
    // The reaper thread has reaped each of them.
    wait_until("no guardian is a zombie", PATIENCE, || zombies_of(std::process::id()).is_empty());
    assert!(is_there(stuck_guardian));
    kill_process(stuck_guardian, Signal::CONT).unwrap();
    wait_until("the ledger is settled", PATIENCE, || {
        std::fs::read_dir(directory.path().join("owners")).unwrap().count() == 0
    });
    wait_until("the last guardian has left", PATIENCE, || !is_there(stuck_guardian));
}

#[test]
fn a_dropped_instance_that_loses_its_guardian_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let owner = Owner::new(Places::new([directory.path().to_owned()]), "dropped").unwrap();
    let (instance, _pipe, guardian) = start(&owner);
    let server = instance.whereabouts().unwrap().server().unwrap().pid.cast_unsigned();
    // A guardian that is stopped can't end its server before it is killed.
    kill_process(guardian, Signal::STOP).unwrap();
    drop(instance);
    kill_process(guardian, Signal::KILL).unwrap();
    wait_until("the ledger is settled", PATIENCE, || {
        std::fs::read_dir(directory.path().join("owners")).unwrap().count() == 0
    });
    wait_until("the server has ended", PATIENCE, || !is_alive(server));
    wait_until("the guardian has left", PATIENCE, || !is_there(guardian));
}
