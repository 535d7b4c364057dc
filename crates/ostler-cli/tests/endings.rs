//! One wrapped server, ended in every way: nothing is left, and bystanders are not touched.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use ostler_testkit::{BEHAVIOURS, Launched, STUBBORN, Stage, rounds, rows, wait_until, zombies_of};
use rustix::process::Signal;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

/// `words` as one line of a shell.
fn shell(script: &str, words: &[String]) -> Vec<String> {
    let head = ["sh", "-c", script, "sh"].map(String::from);
    head.into_iter().chain(words.iter().cloned()).collect()
}

fn close_and_expect_nothing(stage: &Stage, switches: &[&str]) {
    let mut run = stage.wrap(switches);
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.assert_empty_now();
}

rows! {
    fn l01_a_wrapper_and_the_real_server_behind_it(stage) {
        let words = shell(r#""$@" <&0 & wait"#, &stage.stub_words(&["--ignore-eof"]));
        let mut run = stage.wrap_words(&words);
        run.signal(Signal::TERM);
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn l01_the_wrapper_is_killed_first(stage) {
        let words = shell(r#""$@" <&0 & echo $$ > "$5.wrapper"; wait"#, &stage.stub_words(STUBBORN));
        let mut run = stage.wrap_words(&words);
        let wrapper = wait_until("the wrapper's pid", PATIENCE, || {
            fs::read_to_string(stage.sandbox.file("pids.wrapper")).ok()?.trim().parse().ok()
        });
        stage.signal(wrapper, Signal::KILL);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
        stage.assert_empty_now();
    }

    fn l02_the_leader_exits_and_its_helper_stays(stage) {
        close_and_expect_nothing(&stage, &["--child", "--descendants-ignore-term"]);
    }

    fn l02_the_leader_crashes_and_its_helper_stays(stage) {
        let mut run = stage.wrap(&["--child", "--kill-self", "ABRT"]);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(6));
        stage.assert_empty_now();
    }

    fn l03_new_sessions_and_double_forks(stage) {
        close_and_expect_nothing(&stage, &["--setsid-child", "--double-fork", "--empty-env"]);
    }

    fn l04_forks_race_the_kill(stage) {
        close_and_expect_nothing(&stage, &["--hop-ms", "0", "--empty-env"]);
    }

    fn l05_the_server_is_itself_a_host(stage) {
        close_and_expect_nothing(&stage, &["--nested", "--descendants-ignore-term"]);
    }

    fn l05_the_server_is_itself_wrapped(stage) {
        let words = [stage.run_words(), stage.stub_words(&["--nested"])].concat();
        let mut run = stage.wrap_words(&words);
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn l06_the_group_of_the_client_is_never_hit(stage) {
        // The client of this test has a bystander in its own process group.
        close_and_expect_nothing(&stage, STUBBORN);
    }

    fn l08_end_of_input_and_term_are_ignored(stage) {
        let mut run = stage.wrap(STUBBORN);
        run.signal(Signal::TERM);
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn l09_a_stopped_server(stage) {
        close_and_expect_nothing(&stage, &["--stop-self", "--child"]);
    }

    fn l13_hang_up_and_interrupt_end_it_as_term_does(stage) {
        for signal in [Signal::HUP, Signal::INT] {
            let mut run = stage.wrap(&["--ignore-eof", "--setsid-child"]);
            run.signal(signal);
            assert_eq!(stage.wait_exit(&mut run).signal(), Some(Signal::TERM.as_raw()));
            stage.assert_empty_now();
        }
    }

    fn l14_fifty_one_shot_runs(stage) {
        for _ in 0..50 {
            let mut run = stage.wrap(&["--setsid-child", "--exit-after-init", "--exit-code", "5"]);
            run.call("initialize", &json!({}));
            assert_eq!(stage.wait_exit(&mut run).code(), Some(5));
            stage.assert_empty_now();
        }
    }

    fn l45_zombies_and_orphans_that_die_later(stage) {
        let mut run = stage.wrap(&["--zombies", "5", "--orphan-zombies", "20", "--orphan-ms", "50"]);
        let guardian = stage.guardians()[0];
        wait_until("the guardian buries orphans", PATIENCE, || {
            zombies_of(guardian).is_empty()
        });
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
        stage.assert_empty_now();
    }

    fn l51_a_grandchild_keeps_stdout(stage) {
        let mut run = stage.wrap(&["--hold-stdout", "--exit-code", "6"]);
        run.close_stdin();
        assert_eq!(stage.wait_exit(&mut run).code(), Some(6));
        assert_eq!(run.line(PATIENCE).unwrap(), None);
        stage.assert_empty_now();
    }

    fn l52_s24_a_server_that_spins_when_its_input_ends(stage) {
        close_and_expect_nothing(&stage, &["--spin-on-eof", "--ignore-term"]);
    }

    fn f1_each_behaviour_and_the_client_leaves(stage) {
        for behaviour in BEHAVIOURS {
            close_and_expect_nothing(&stage, behaviour);
        }
    }

    fn f2_each_behaviour_and_the_owner_is_killed(stage) {
        for behaviour in BEHAVIOURS {
            if behaviour.contains(&"--exit-at-once") {
                continue; // Its owner ends with it: there is nothing left to kill.
            }
            let mut run = stage.wrap(behaviour);
            run.signal(Signal::KILL);
            stage.wait_exit(&mut run);
            stage.expect_empty();
        }
    }

    fn f6_the_server_kills_its_guardian(stage) {
        let mut run = stage.wrap(&["--kill-parent", "--child", "--setsid-child", "--double-fork"]);
        stage.wait_exit(&mut run);
        assert!(run.stderr().contains("its guardian was killed"), "{}", run.stderr());
        stage.expect_empty();
    }

    fn f6_the_server_kills_its_own_group(stage) {
        let mut run = stage.wrap_words(&stage.stub_words(&["--kill-group", "--setsid-child"]));
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
        stage.assert_empty_now();
    }

    fn f7_the_owner_is_stopped_and_then_killed(stage) {
        let mut run = stage.wrap(&["--ignore-eof", "--setsid-child"]);
        run.signal(Signal::STOP);
        run.close_stdin();
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn a_second_signal_skips_a_step(stage) {
        let asked = stage.sandbox.file("asked");
        let script = r#"trap ': > "$0"' TERM; : > "$0.up"; while :; do sleep 0.02; done"#;
        let mut command = stage.command(&stage.run_words()[0]);
        // Longer than the test: only a skipped step can end the server in time.
        command.args(["run", "--grace", "20h", "--", "sh", "-c", script]).arg(&asked);
        let mut run = Launched::start(&mut command);
        wait_until("the server is up", PATIENCE, || asked.with_extension("up").exists());
        run.signal(Signal::TERM);
        wait_until("TERM has reached the server", PATIENCE, || asked.exists());
        run.signal(Signal::TERM);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
        stage.assert_empty_now();
    }
}

/// Without the guardian, only a leaf finds processes without a mark in their environment.
#[test]
fn f4_the_guardian_is_killed_at_leaf() {
    rounds(|| {
        let stage = Stage::leaf();
        for behaviour in BEHAVIOURS.iter().filter(|b| !b.contains(&"--exit-at-once")) {
            let mut run = stage.wrap(behaviour);
            stage.signal(stage.guardians()[0], Signal::KILL);
            stage.wait_exit(&mut run);
            stage.assert_empty_now();
        }
    });
}

/// At `tree` every marked process ends, and the rest is reported as possibly left.
#[test]
fn f4_the_guardian_is_killed_at_tree() {
    rounds(|| {
        let stage = Stage::tree();
        let mut run = stage.wrap(&["--child", "--setsid-child", "--daemons", "5", "--ignore-term"]);
        stage.signal(stage.guardians()[0], Signal::KILL);
        stage.wait_exit(&mut run);
        assert!(run.stderr().contains("cleared their environment"), "{}", run.stderr());
        stage.expect_empty();
    });
}
