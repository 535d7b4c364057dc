//! Kills the owner at each step of starting, its own steps and its guardian's.
//!
//! A tracer forces the moment: it delivers a signal when a process enters a given system call, so the product needs no
//! test hooks.

use std::fs;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage, rows, wait_until};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);

/// The process that takes a step of starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Guardian,
    /// The guardian's child, before it executes the server; at `strict`, the init.
    Child,
    /// The init's child, before it executes the server.
    Grandchild,
}

/// The processes that are killed at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victims {
    Owner,
    OwnerAndGuardian,
}

/// The steps of starting that other processes than the owner take, in order.
const STEPS: [(Who, &str); 9] = [
    (Who::Guardian, "setsid"),
    (Who::Guardian, "prctl"),
    (Who::Guardian, "mkdir"),
    (Who::Guardian, "pipe2"),
    (Who::Guardian, "clone3"),
    (Who::Child, "setsid"),
    (Who::Child, "prctl"),
    (Who::Child, "execve"),
    (Who::Guardian, "chdir"),
];

/// The same at `strict`, where the guardian's child is the init.
const STRICT_STEPS: [(Who, &str); 10] = [
    (Who::Guardian, "socketpair"),
    (Who::Guardian, "clone3"),
    // The last call before it sets its parent-death signal.
    (Who::Child, "rt_sigaction"),
    (Who::Child, "prctl"),
    (Who::Child, "setsid"),
    (Who::Child, "mount"),
    (Who::Child, "pipe2"),
    (Who::Grandchild, "prctl"),
    (Who::Grandchild, "execve"),
    (Who::Child, "close_range"),
];

/// Starts `ostler run` under a tracer that delivers a signal at the nth `call` of a process.
fn traced(stage: &Stage, options: &[&str], call: &str, signal: &str, nth: usize) -> Launched {
    for file in ["ready", "trace"] {
        let _ = fs::remove_file(stage.sandbox.file(file));
    }
    let mut command = stage.command("strace");
    command.args(options).arg("-o").arg(stage.sandbox.file("trace"));
    command.args([
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:signal={signal}:when={nth}"),
    ]);
    command.arg("--").args(stage.run_words());
    command.args(stage.stub_words(&["--setsid-child", "--double-fork"]));
    Launched::start(&mut command)
}

/// Kills the owner at its nth system call; `false` once the server is up before that.
fn is_killed_at(stage: &Stage, nth: usize) -> bool {
    let mut run = traced(stage, &[], "all", "SIGKILL", nth);
    let ready = stage.sandbox.file("ready");
    let killed = wait_until("killed, or up", PATIENCE, || {
        if run.try_exit().is_some() { Some(true) } else { ready.exists().then_some(false) }
    });
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.expect_empty_but_for_the_ledger();
    killed
}

/// Kills the owner at its nth `call` while it removes its ledger; `false` if it makes fewer.
fn is_killed_while_settling(stage: &Stage, call: &str, nth: usize) -> bool {
    let mut run = traced(stage, &[], call, "SIGKILL", nth);
    stage.sandbox.wait_ready(PATIENCE);
    run.close_stdin();
    let killed = !stage.wait_exit(&mut run).success();
    // No sweep is needed: the guardian has not been dismissed yet and settles the ledger.
    stage.expect_empty();
    assert_eq!(stage.ledgers().len(), 0);
    killed
}

/// Kills the victims while another process is stopped at the entry of a system call.
fn kill_while_at(stage: &Stage, victims: Victims, who: Who, call: &str) {
    let mut run = traced(stage, &["--follow-forks"], call, "SIGSTOP", 1);
    // For a moment the tracer has further children, which are not named ostler.
    let is_owner = |pid: &u32| Process::read(*pid).is_some_and(|p| p.comm == "ostler");
    let owner = wait_until("the owner", PATIENCE, || child_of(stage, run.pid()).filter(is_owner));
    wait_until(&format!("{who:?} is at {call}"), PATIENCE, || {
        let guardian = child_of(stage, owner);
        let wanted = match who {
            Who::Guardian => guardian,
            Who::Child => guardian.and_then(|guardian| child_of(stage, guardian)),
            Who::Grandchild => guardian
                .and_then(|guardian| child_of(stage, guardian))
                .and_then(|init| child_of(stage, init)),
        };
        held(stage).into_iter().any(|pid| {
            if Some(pid) != wanted {
                stage.signal_if_there(pid, Signal::CONT);
            }
            Some(pid) == wanted
        })
    });
    let guardian = child_of(stage, owner);
    stage.signal(owner, Signal::KILL);
    if let (Victims::OwnerAndGuardian, Some(guardian)) = (victims, guardian) {
        stage.signal(guardian, Signal::KILL);
    }
    wait_until("all processes continue and exit", PATIENCE, || {
        for pid in held(stage) {
            stage.signal_if_there(pid, Signal::CONT);
        }
        run.try_exit().is_some() && stage.sandbox.survivors().has_no_process()
    });
    stage.expect_empty_but_for_the_ledger();
}

fn child_of(stage: &Stage, parent: u32) -> Option<u32> {
    let is_child = |pid: &u32| Process::read(*pid).is_some_and(|p| p.ppid == parent);
    stage.sandbox.cgroup().pids().into_iter().find(is_child)
}

/// The processes that were stopped, according to the tracer's log.
fn held(stage: &Stage) -> Vec<u32> {
    let trace = fs::read_to_string(stage.sandbox.file("trace")).unwrap_or_default();
    let stopped = trace.lines().filter(|line| line.ends_with("--- stopped by SIGSTOP ---"));
    let pids = stopped.filter_map(|line| line.split(' ').next()?.parse().ok());
    pids.filter(|pid| stage.sandbox.cgroup().contains(*pid)).collect()
}

mod alone {
    use super::*;

    #[test]
    fn owner_and_guardian_are_killed_at_each_step_of_a_namespace() {
        let stage = Stage::strict_user();
        for victims in [Victims::Owner, Victims::OwnerAndGuardian] {
            for (who, call) in STRICT_STEPS {
                kill_while_at(&stage, victims, who, call);
            }
        }
    }

    #[test]
    fn the_owner_is_killed_at_each_system_call_of_a_strict_start() {
        for stage in [Stage::strict(), Stage::strict_user()] {
            let reached = (1..2000).take_while(|nth| is_killed_at(&stage, *nth)).count();
            assert!((50..1999).contains(&reached), "killed at {reached} places");
        }
    }

    rows! {
        fn the_owner_is_killed_at_each_system_call_of_starting(stage) {
            let reached = (1..2000).take_while(|nth| is_killed_at(&stage, *nth)).count();
            assert!((50..1999).contains(&reached), "killed at {reached} places");
        }

        fn the_owner_is_killed_at_each_step_of_settling_its_ledger(stage) {
            let steps_by = |call: &&str| {
                (1..20).take_while(|nth| is_killed_while_settling(&stage, call, *nth)).count()
            };
            let steps: usize = ["unlink", "unlinkat", "rmdir"].iter().map(steps_by).sum();
            assert!((3..19).contains(&steps), "killed at {steps} places");
        }

        fn the_owner_is_killed_at_each_step_of_its_guardian(stage) {
            let has_leaf = stage.level() == "leaf";
            for (who, call) in STEPS.into_iter().filter(|(_, call)| has_leaf || *call != "mkdir") {
                kill_while_at(&stage, Victims::Owner, who, call);
            }
        }
    }
}
