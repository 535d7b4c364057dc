//! `ostler run --log`: the guardian keeps the server's stderr, whatever is killed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::{Launched, Stage, fds_of, rows, strict_rows, threads_of, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// Largest size of a log, in bytes: five files of 1 MiB, each with at most one more block.
const LARGEST_LOG: u64 = 5 * ((1 << 20) + (256 << 10));

/// Writes to stderr until it gets SIGTERM, which it answers with a last line and half a line.
const TALKING: &str = "trap 'echo last words >&2; printf bye >&2; exit 0' TERM
trap 'echo broken pipe > \"$0\"' PIPE
echo up >&2; while :; do echo again >&2; sleep 0.02; done";

/// `ostler run --log --name NAME -- sh -c SCRIPT ARGUMENT`.
fn start(stage: &Stage, name: &str, script: &str, argument: &str) -> Launched {
    let words = stage.run_words_with(&["--log", "--name", name]);
    let mut command = stage.command(&words[0]);
    Launched::start(command.args(&words[1..]).args(["sh", "-c", script, argument]))
}

fn logs(stage: &Stage) -> PathBuf {
    stage.sandbox.state().join("ostler/logs")
}

/// Texts of a log, with `*` in front of those of ostler.
fn texts(stage: &Stage, name: &str) -> Vec<String> {
    let lines = stage.try_ostler(&["logs", name, "--json"]).stdout;
    let lines = String::from_utf8(lines).unwrap();
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mark = |entry: &Value| if entry["source"] == "ostler" { "* " } else { "" };
    entries.map(|it| format!("{}{}", mark(&it), it["text"].as_str().unwrap())).collect()
}

/// Starts a server that writes, and waits until its log has lines.
fn start_talking(stage: &Stage) -> Launched {
    let broken = stage.sandbox.file("broken").display().to_string();
    let run = start(stage, "talking", TALKING, &broken);
    wait_until("its log has lines", PATIENCE, || texts(stage, "talking").len() > 3);
    // It has a log, so there is nothing to say about where its stderr goes.
    assert_eq!(stage.try_ostler(&["logs", "talking"]).stderr, b"");
    run
}

/// The log ends with the last words, and writing never failed.
fn expect_last_words(stage: &Stage) {
    let all = texts(stage, "talking");
    assert_eq!(all[0], "up");
    assert_eq!(all[all.len() - 2..], ["last words", "bye"], "{all:?}");
    assert!(!stage.sandbox.file("broken").exists());
}

fn kill_run(stage: &Stage) {
    let mut run = start_talking(stage);
    run.signal(Signal::KILL);
    stage.wait_exit(&mut run);
    stage.expect_empty();
    expect_last_words(stage);
}

fn kill_guardian(stage: &Stage) {
    let mut run = start_talking(stage);
    let [guardian] = stage.guardians()[..] else { panic!("not one guardian") };
    stage.signal(guardian, Signal::KILL);
    stage.wait_exit(&mut run);
    stage.expect_empty();
    assert_eq!(texts(stage, "talking")[0], "up");
}

fn stop(stage: &Stage) {
    let mut run = start_talking(stage);
    run.signal(Signal::TERM);
    stage.wait_exit(&mut run);
    stage.assert_empty_now();
    expect_last_words(stage);
}

rows! {
    fn a_killed_run_loses_no_line_and_leaves_nothing(stage) {
        kill_run(&stage);
    }

    fn a_killed_guardian_leaves_nothing(stage) {
        kill_guardian(&stage);
    }

    fn a_stopped_server_has_its_last_lines_in_the_log(stage) {
        stop(&stage);
    }

    fn stderr_goes_to_the_log_and_the_exit_status_to_the_client(stage) {
        let script = "printf 'using token=s3cret\\n\\033[31mbye' >&2; exit 7";
        let mut run = start(&stage, "../a", script, "");
        assert_eq!(stage.wait_exit(&mut run).code(), Some(7));
        stage.assert_empty_now();
        // The log is complete when the client sees the exit.
        let expected = ["using token=…", "\u{1b}[31mbye", "* it has exited (exit status: 7)"];
        assert_eq!(texts(&stage, "../a"), expected);
        assert!(!run.stderr().contains("token"), "{}", run.stderr());
        let text = stage.ostler(&["logs", "../a"]);
        assert!(text.contains("| \\u{1b}[31mbye"), "{text}");
        let file = logs(&stage).join("%2E.%2Fa.log");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(file).unwrap().contains("s3cret"));
    }

    fn a_flood_blocks_no_server_and_fills_no_disk(stage) {
        // Each of the four may write for a second.
        for _ in 0..4 {
            let script = "head -c 20000000 /dev/zero | tr '\\0' x | fold -w 99 >&2";
            let mut run = start(&stage, "flood", script, "");
            assert!(stage.wait_exit(&mut run).success());
        }
        stage.assert_empty_now();
        let sizes = fs::read_dir(logs(&stage)).unwrap().flatten();
        let size: u64 = sizes.map(|file| file.metadata().unwrap().len()).sum();
        assert!(size > 100_000 && size <= LARGEST_LOG, "{size}");
        let is_note = |line: &String| line.starts_with("* lines dropped: ");
        assert!(texts(&stage, "flood").iter().any(is_note));
    }

    fn a_command_that_is_not_found_is_in_the_log(stage) {
        let words = stage.run_words_with(&["--log", "--name", "a"]);
        let mut command = stage.command(&words[0]);
        let status = command.args(&words[1..]).arg("/no/such").stderr(Stdio::null()).status();
        assert_eq!(status.unwrap().code(), Some(127));
        let reason = "* it could not be started: /no/such: command not found";
        assert_eq!(texts(&stage, "a"), [reason]);
        stage.assert_empty_now();
    }

    fn the_server_and_its_guardian_hold_no_further_descriptor(stage) {
        let list = stage.sandbox.file("fds");
        let switches = ["--list-fds", list.to_str().unwrap()];
        let begin = |options: &[&str]| {
            let _ = fs::remove_file(stage.sandbox.file("ready"));
            let words = stage.run_words_with(options);
            let mut command = stage.command(&words[0]);
            let run = Launched::start(command.args(&words[1..]).args(stage.stub_words(&switches)));
            stage.sandbox.wait_ready(PATIENCE);
            let numbers = fs::read_to_string(&list).unwrap();
            let numbers = numbers.lines().map(|line| line.split(' ').next().unwrap().to_owned());
            assert_eq!(numbers.collect::<Vec<_>>(), ["0", "1", "2"]);
            (run, stage.guardians()[0])
        };
        let ((mut plain, its_guardian), (mut logged, guardian)) =
            (begin(&[]), begin(&["--log", "--name", "a"]));
        let guardian = if guardian == its_guardian { stage.guardians()[1] } else { guardian };
        // The read end, and both ends of the pipe that ends the thread.
        wait_until("the guardian holds three more", PATIENCE, || {
            let more = fds_of(guardian).len() == fds_of(its_guardian).len() + 3;
            more && threads_of(guardian) == threads_of(its_guardian) + 1
        });
        // No process but the server holds the write end: closing it ends the stream.
        for run in [&mut plain, &mut logged] {
            run.close_stdin();
            assert!(stage.wait_exit(run).success());
        }
        stage.assert_empty_now();
    }

    fn a_log_that_cannot_be_kept_refuses_the_start(stage) {
        let state = stage.sandbox.state().join("ostler");
        let mut first = stage.wrap(&[]);
        first.close_stdin();
        stage.wait_exit(&mut first);
        fs::write(state.join("logs"), "").unwrap();
        let mut run = start(&stage, "a", "echo started > \"$0\"", "");
        assert_eq!(stage.wait_exit(&mut run).code(), Some(1));
        assert!(run.stderr().contains("a: cannot keep a log: "), "{}", run.stderr());
        fs::remove_file(state.join("logs")).unwrap();
        stage.assert_empty_now();
    }

    fn an_instance_without_a_log_is_named_beside_the_log_of_others(stage) {
        let mut logged = start(&stage, "ostler-stub", "echo one >&2", "");
        stage.wait_exit(&mut logged);
        let mut unlogged = stage.wrap(&[]);
        let said = stage.try_ostler(&["logs", "ostler-stub"]);
        let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
        assert!(said.status.success() && out.contains(" | one\n"), "{out}{err}");
        let pid = stage.sandbox.pids()[0];
        let remark = format!("ostler: ostler-stub: pid {pid} runs under `ostler run` without --log");
        assert!(err.starts_with(&remark), "{err}");
        unlogged.close_stdin();
        stage.wait_exit(&mut unlogged);
        stage.assert_empty_now();
    }
}

strict_rows! {
    fn a_killed_run_loses_no_line_at_strict(stage) {
        kill_run(&stage);
    }

    fn a_killed_guardian_leaves_nothing_at_strict(stage) {
        kill_guardian(&stage);
    }

    fn a_stopped_server_has_its_last_lines_in_the_log_at_strict(stage) {
        stop(&stage);
    }
}
