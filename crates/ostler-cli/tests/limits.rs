//! Resource limits of servers: enforced by the kernel, reported, and removed with the server.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::{Launched, Stage, rounds, wait_until};
use rustix::process::Signal;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs each test at each level, and as a user with only the cgroups of limits delegated.
macro_rules! limit_rows {
    ($(fn $name:ident($stage:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn row($stage: Stage) $body

            #[test]
            fn leaf() {
                rounds(|| row(Stage::limited("leaf")));
            }

            #[test]
            fn strict() {
                rounds(|| row(Stage::limited("strict")));
            }

            #[test]
            fn user() {
                rounds(|| row(Stage::limited_user()));
            }
        }
    )*};
}

/// A wrapped stub with these limits and switches.
fn limited(stage: &Stage, limits: &[&str], switches: &[&str]) -> Launched {
    let _ = fs::remove_file(stage.sandbox.file("ready"));
    let words = [stage.run_words_with(limits), stage.stub_words(switches)].concat();
    let run = Launched::start(stage.command(&words[0]).args(&words[1..]));
    stage.sandbox.wait_ready(PATIENCE);
    run
}

fn born(stage: &Stage) -> u32 {
    let file = stage.sandbox.file("pids.born");
    wait_until("the bomb has gone off", PATIENCE, || {
        fs::read_to_string(&file).ok()?.strip_suffix('\n')?.parse().ok()
    })
}

/// One line on stderr, and nothing was started.
fn assert_refused(stage: &Stage, limits: &[&str], code: i32, complaint: &str) {
    let started = stage.sandbox.file("started");
    let words = stage.run_words_with(limits);
    let mut command = stage.command(&words[0]);
    command.args(&words[1..]).arg("touch").arg(&started).stdin(Stdio::null());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(complaint), "{stderr}");
    assert!(!started.exists());
    stage.assert_empty_now();
}

limit_rows! {
    fn a_server_over_its_memory_limit_is_killed_and_reported(stage) {
        let mut sibling = limited(&stage, &["--memory", "64m"], &["--eat-memory", "16"]);
        let mut run = limited(&stage, &["--memory", "64m"], &["--eat-memory", "256", "--double-fork"]);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
        assert!(run.stderr().contains("killed: over its memory limit of 64m"), "{}", run.stderr());
        // The sibling has its own limit and still answers.
        sibling.call("initialize", &json!({}));
        sibling.close_stdin();
        assert!(stage.wait_exit(&mut sibling).success());
        assert!(!sibling.stderr().contains("limit"), "{}", sibling.stderr());
        stage.assert_empty_now();
    }

    fn a_helper_that_needs_more_memory_is_reported_too(stage) {
        let words = stage.stub_words(&["--eat-memory", "256"]);
        let script = r#""$@" </dev/null; exit 7"#;
        let own = stage.run_words_with(&["--memory", "64m"]);
        let mut command = stage.command(&own[0]);
        command.args(&own[1..]).args(["sh", "-c", script, "sh"]).args(words);
        let mut run = Launched::start(&mut command);
        assert_eq!(stage.wait_exit(&mut run).code(), Some(7));
        assert!(run.stderr().contains("over its memory limit of 64m"), "{}", run.stderr());
        stage.assert_empty_now();
    }

    fn more_processes_than_allowed_cannot_be_started(stage) {
        let mut run = limited(&stage, &["--pids", "10"], &["--fork-bomb", "100"]);
        // The server itself is the tenth.
        assert_eq!(born(&stage), 9);
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
        assert!(run.stderr().contains("over its limit of 10 processes"), "{}", run.stderr());
        stage.assert_empty_now();
    }

    fn a_server_within_its_limits_is_not_reported(stage) {
        let limits = ["--memory", "256m", "--cpus", "1.5", "--pids", "100"];
        let mut run = limited(&stage, &limits, &["--fork-bomb", "20", "--eat-memory", "8"]);
        assert_eq!(born(&stage), 20);
        assert_eq!(["memory", "cpu", "pids"].map(|name| stage.sandbox.limited_by(name).len()), [1, 1, 1]);
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
        assert_eq!(run.stderr().lines().count(), 1, "{}", run.stderr());
        stage.assert_empty_now();
    }

    fn a_server_over_its_cpu_limit_is_throttled(stage) {
        let own = stage.run_words_with(&["--cpus", "0.2"]);
        let mut command = stage.command(&own[0]);
        command.args(&own[1..]).args(["sh", "-c", "while :; do :; done"]);
        let mut run = Launched::start(&mut command);
        wait_until("the kernel holds it back", PATIENCE, || {
            let cgroup = stage.sandbox.limited_by("cpu").pop()?;
            let statistics = fs::read_to_string(cgroup.join("cpu.stat")).ok()?;
            let held = statistics.lines().find_map(|line| line.strip_prefix("nr_throttled "))?;
            (held != "0").then_some(())
        });
        run.signal(Signal::TERM);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(15));
        stage.assert_empty_now();
    }

    fn the_owner_is_killed(stage) {
        let limits = ["--memory", "256m", "--cpus", "1", "--pids", "100"];
        let mut run = limited(&stage, &limits, &["--daemons", "3", "--setsid-child"]);
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn the_guardian_is_killed(stage) {
        let limits = ["--memory", "256m", "--cpus", "1", "--pids", "100"];
        let mut run = limited(&stage, &limits, &["--daemons", "3", "--setsid-child"]);
        stage.signal(stage.guardians()[0], Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn owner_and_guardian_are_killed_and_the_next_sweep_removes_all(stage) {
        let limits = ["--memory", "256m", "--cpus", "1", "--pids", "100"];
        let mut run = limited(&stage, &limits, &["--daemons", "3", "--setsid-child"]);
        let guardian = stage.guardians()[0];
        for signal in [Signal::STOP, Signal::KILL] {
            stage.signal(run.pid(), signal);
            stage.signal(guardian, signal);
        }
        stage.wait_exit(&mut run);
        assert_eq!(stage.sandbox.limited_by("memory").len(), 1);
        stage.ostler(&["reap", "--yes"]);
        stage.expect_empty();
    }

    fn there_is_no_such_command(stage) {
        let own = stage.run_words_with(&["--memory", "64m", "--pids", "9"]);
        let mut command = stage.command(&own[0]);
        command.args(&own[1..]).arg("no-such-command").stdin(Stdio::null());
        assert_eq!(command.output().unwrap().status.code(), Some(127));
        stage.assert_empty_now();
    }
}

#[test]
fn a_limit_that_cannot_be_enforced_is_refused_with_the_reason() {
    let stage = Stage::tree();
    for (flag, value, name) in
        [("--memory", "64m", "memory"), ("--cpus", "1", "cpu"), ("--pids", "9", "pids")]
    {
        let complaint = format!("a limit on {name} can't be enforced here: ");
        assert_refused(&stage, &[flag, value], 1, &complaint);
    }
}

#[test]
fn a_malformed_limit_is_refused() {
    let stage = Stage::leaf();
    assert_refused(&stage, &["--memory", "lots"], 2, "for example 512m");
    assert_refused(&stage, &["--cpus", "0"], 2, "for example 1.5");
    assert_refused(&stage, &["--pids", "0"], 2, "--pids");
}
