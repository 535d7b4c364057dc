//! Published servers, started through npx and uvx.

#[expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]
mod published;

use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage};
use rustix::process::Signal;
use serde_json::json;

use published::{NPX, Published, UVX, offline};

/// The server behind `ostler run`, after a client has talked to it.
fn start(stage: &Stage, server: &Published) -> Launched {
    let mut run = Launched::start(offline(&mut stage.run(server.start)));
    run.initialize();
    let tools = run.call("tools/list", &json!({}));
    assert!(tools["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{tools}");
    let real = stage.sandbox.cgroup().pids().into_iter().filter_map(Process::read);
    let real: Vec<String> = real.map(|process| process.cmdline()).collect();
    assert!(real.len() > 3 && real.iter().any(|line| line.contains(server.process)), "{real:?}");
    run
}

fn its_client_leaves_and_then_ostler_is_killed(server: &Published) {
    let stage = Stage::leaf();
    server.fetch(&stage);
    let mut run = start(&stage, server);
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.sandbox.expect_no_process_left(Duration::ZERO);

    let mut run = start(&stage, server);
    run.signal(Signal::KILL);
    stage.wait_exit(&mut run);
    stage.expect_empty();
}

#[test]
fn l01_a_server_behind_npx() {
    its_client_leaves_and_then_ostler_is_killed(&NPX);
}

#[test]
fn l01_a_server_behind_uvx() {
    its_client_leaves_and_then_ostler_is_killed(&UVX);
}
