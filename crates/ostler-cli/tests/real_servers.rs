//! Servers as people start them: published ones, behind the wrappers that fetch them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::{Launched, Process, Stage};
use rustix::process::Signal;
use serde_json::json;

/// A registry may be slow; what is fetched stays in the build directory.
const FETCH: Duration = Duration::from_mins(3);

/// A published server.
struct Published {
    fetch: &'static [&'static str],
    start: &'static [&'static str],
    /// What the real server is called, behind its wrapper.
    process: &'static str,
}

const NPX: Published = Published {
    fetch: &["npx", "-y", "-p", "@modelcontextprotocol/server-everything", "true"],
    start: &["npx", "-y", "@modelcontextprotocol/server-everything"],
    process: "node",
};

const UVX: Published = Published {
    fetch: &["uvx", "--from", "mcp-server-time", "python", "-c", ""],
    start: &["uvx", "mcp-server-time"],
    process: "mcp-server-time",
};

fn cached(command: &mut Command) -> &mut Command {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    command.env("npm_config_cache", cache.join("npm")).env("UV_CACHE_DIR", cache.join("uv"))
}

fn fetch(stage: &Stage, words: &[&str]) {
    let mut command = stage.command(words[0]);
    let command = cached(command.args(&words[1..]));
    let mut fetch = Launched::start(command.stdin(Stdio::null()));
    let status = fetch.wait_exit(FETCH);
    assert!(status.success(), "{words:?} can't be fetched: {}", fetch.stderr());
}

/// The server behind `ostler run`, after a client has talked to it.
fn start(stage: &Stage, server: &Published) -> Launched {
    let mut run = Launched::start(cached(&mut stage.run(server.start)));
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
    fetch(&stage, server.fetch);
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
