//! Uses an installed program, and kills each process of its launch.

use std::process::Command;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage, wait_until};
use rustix::process::Signal;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
/// A server that ignores everything it may ignore, and has detached children.
const RUDE: [&str; 4] = ["--ignore-eof", "--ignore-term", "--setsid-child", "--double-fork"];

/// Calls a tool through the program, then kills each process between the client and the program in both ways.
pub(crate) fn use_and_kill(stage: &Stage, launch: impl Fn() -> Command) {
    let mut run = start(stage, &launch);
    run.initialize();
    let tools = run.call("tools/list", &json!({}));
    assert!(tools["result"]["tools"].is_array(), "{tools}");
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.sandbox.expect_no_process_left(PATIENCE);

    let length = chain(stage, &start(stage, &launch)).len();
    for index in 0..length {
        for signal in [Signal::TERM, Signal::KILL] {
            let run = start(stage, &launch);
            let victims = chain(stage, &run);
            assert_eq!(victims.len(), length, "{victims:?}");
            stage.signal(victims[index].pid, signal);
            // Stdin stays open.
            let what = format!("nothing is left after {signal:?} to {}", victims[index].comm);
            wait_until(&what, PATIENCE, || stage.sandbox.cgroup().pids().is_empty());
        }
    }
    stage.sandbox.expect_no_process_left(PATIENCE);
}

/// The server behind `ostler run`, up and running.
fn start(stage: &Stage, launch: &impl Fn() -> Command) -> Launched {
    stage.sandbox.expect_no_process_left(PATIENCE);
    let _ = std::fs::remove_file(stage.sandbox.file("ready"));
    let mut command = launch();
    command.args(["run", "--grace", "300ms", "--"]).args(stage.stub_words(&RUDE));
    let run = Launched::start(&mut command);
    stage.sandbox.wait_ready(PATIENCE);
    run
}

/// The processes from the client's child down to `ostler run`.
fn chain(stage: &Stage, run: &Launched) -> Vec<Process> {
    let all: Vec<Process> =
        stage.sandbox.cgroup().pids().into_iter().filter_map(Process::read).collect();
    let find = |pid: u32| all.iter().find(|process| process.pid == pid).cloned();
    let ostler =
        all.iter().find(|process| ["ostler", "ostler-mcp"].contains(&&*process.comm)).cloned();
    let mut chain: Vec<Process> = std::iter::successors(ostler, |process| {
        (process.pid != run.pid()).then(|| find(process.ppid)).flatten()
    })
    .collect();
    chain.reverse();
    assert!(chain.first().is_some_and(|top| top.pid == run.pid()), "{chain:?}");
    chain
}
