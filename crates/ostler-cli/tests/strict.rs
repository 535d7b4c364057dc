//! Level `strict`: one server in a PID namespace, ended in every way.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use ostler_testkit::{
    BEHAVIOURS, Launched, STUBBORN, Stage, fds_of, strict_rows, wait_until, zombies_of,
};
use rustix::process::Signal;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

fn close_and_expect_nothing(stage: &Stage, switches: &[&str]) {
    let mut run = stage.wrap(switches);
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.assert_empty_now();
}

/// Behaviours of servers that still run when their owner is killed.
fn lasting() -> impl Iterator<Item = &'static [&'static str]> {
    BEHAVIOURS.into_iter().filter(|behaviour| !behaviour.contains(&"--exit-at-once"))
}

strict_rows! {
    fn f1_each_behaviour_and_the_client_leaves(stage) {
        for behaviour in BEHAVIOURS {
            close_and_expect_nothing(&stage, behaviour);
        }
    }

    fn f2_each_behaviour_and_the_owner_is_killed(stage) {
        for behaviour in lasting() {
            let mut run = stage.wrap(behaviour);
            run.signal(Signal::KILL);
            stage.wait_exit(&mut run);
            stage.expect_empty();
        }
    }

    fn f4_each_behaviour_and_the_guardian_is_killed(stage) {
        for behaviour in lasting() {
            let mut run = stage.wrap(behaviour);
            stage.signal(stage.guardians()[0], Signal::KILL);
            assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
            assert!(run.stderr().ends_with("so the server was ended\n"), "{}", run.stderr());
            stage.assert_empty_now();
        }
    }

    fn l02_the_leader_crashes_and_its_helper_stays(stage) {
        let mut run = stage.wrap(&["--child", "--kill-self", "ABRT"]);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(6));
        stage.assert_empty_now();
    }

    fn l02_orphans_get_sigterm_before_sigkill(stage) {
        let asked = stage.sandbox.file("asked");
        let helper = r#"trap ': > "$0"; exit' TERM; : > "$0.up"; while :; do sleep 0.02; done"#;
        let leader = r#"sh -c "$1" "$0" & while ! [ -e "$0.up" ]; do sleep 0.02; done; exit 5"#;
        let mut command = stage.run(&["sh", "-c", leader]);
        command.arg(&asked).arg(helper);
        let mut run = Launched::start(&mut command);
        assert_eq!(stage.wait_exit(&mut run).code(), Some(5));
        assert!(asked.exists());
        stage.assert_empty_now();
    }

    fn l05_the_server_is_itself_wrapped(stage) {
        let words = [stage.run_words(), stage.stub_words(&["--nested"])].concat();
        let mut run = stage.wrap_words(&words);
        run.signal(Signal::KILL);
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }

    fn l08_end_of_input_and_term_are_ignored(stage) {
        let mut run = stage.wrap(STUBBORN);
        run.signal(Signal::TERM);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(9));
        stage.assert_empty_now();
    }

    fn l09_a_stopped_server(stage) {
        close_and_expect_nothing(&stage, &["--stop-self", "--child"]);
    }

    fn l13_term_reaches_the_server(stage) {
        let mut run = stage.wrap(&["--ignore-eof", "--setsid-child"]);
        run.signal(Signal::TERM);
        assert_eq!(stage.wait_exit(&mut run).signal(), Some(15));
        stage.assert_empty_now();
    }

    fn l14_twenty_one_shot_runs(stage) {
        for code in 0..20 {
            let code = code.to_string();
            let mut run = stage.wrap(&["--setsid-child", "--exit-after-init", "--exit-code", &code]);
            run.call("initialize", &json!({}));
            assert_eq!(stage.wait_exit(&mut run).code().unwrap().to_string(), code);
            stage.assert_empty_now();
        }
    }

    fn l45_zombies_and_orphans_that_die_later(stage) {
        let mut run = stage.wrap(&["--zombies", "5", "--orphan-zombies", "20", "--orphan-ms", "50"]);
        let (guardian, init) = (stage.guardians()[0], stage.named("ostler-init")[0]);
        wait_until("the init reaps orphans", PATIENCE, || {
            zombies_of(guardian).is_empty() && zombies_of(init).is_empty()
        });
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
        stage.assert_empty_now();
    }

    fn l47_only_the_server_holds_its_descriptors(stage) {
        let list = stage.sandbox.file("fds");
        let mut run = stage.wrap(&["--list-fds", list.to_str().unwrap()]);
        let numbers: Vec<String> = fs::read_to_string(list).unwrap().lines()
            .map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        let (guardian, init) = (stage.guardians()[0], stage.named("ostler-init")[0]);
        // The standard streams and the channel to the guardian.
        wait_until("the init has closed the descriptors", PATIENCE, || fds_of(init).len() == 4);
        let server: Vec<_> = fds_of(stage.named("ostler-stub")[0]).into_iter().collect();
        for (number, target) in [fds_of(guardian), fds_of(init)].concat() {
            assert!(server.iter().all(|(_, held)| *held != target), "{number}: {}", target.display());
        }
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
    }

    fn f6_the_server_cannot_reach_its_parent(stage) {
        let mut run = stage.wrap(&["--kill-parent", "--setsid-child", "--exit-code", "6"]);
        run.call("initialize", &json!({}));
        run.close_stdin();
        assert_eq!(stage.wait_exit(&mut run).code(), Some(6));
        stage.assert_empty_now();
    }
}

/// Owner and guardian are both killed, and the kernel kills the rest.
mod alone {
    use super::*;

    /// Kills owner and guardian with `kill`, and expects that no process is left.
    fn kill_both(stage: &Stage, behaviour: &[&str], kill: impl Fn(u32, u32)) {
        let mut run = stage.wrap(behaviour);
        kill(run.pid(), stage.guardians()[0]);
        stage.wait_exit(&mut run);
        stage.sandbox.expect_no_process_left(PATIENCE);
        // The ledger and an empty leaf stay until the next sweep.
        stage.ostler(&["reap", "--yes"]);
        stage.expect_empty();
    }

    strict_rows! {
        fn f3_one_after_the_other(stage) {
            for behaviour in lasting() {
                for pause in [0, 1, 10, 100].map(Duration::from_millis) {
                    let one_by_one = |first, second| {
                        stage.signal(first, Signal::KILL);
                        std::thread::sleep(pause);
                        // The second process may have exited by itself after the death of the first.
                        stage.signal_if_there(second, Signal::KILL);
                    };
                    kill_both(&stage, behaviour, one_by_one);
                    kill_both(&stage, behaviour, |owner, guardian| one_by_one(guardian, owner));
                }
            }
        }

        fn f3_both_at_once(stage) {
            for behaviour in lasting() {
                kill_both(&stage, behaviour, |owner, guardian| {
                    // From here on neither can act.
                    for signal in [Signal::STOP, Signal::KILL] {
                        stage.signal(owner, signal);
                        stage.signal(guardian, signal);
                    }
                });
            }
        }
    }
}

/// Not as root: the stub refuses to do this as root.
#[test]
fn f6_the_server_kills_every_process_that_it_may() {
    let stage = Stage::strict_user();
    let host = fs::metadata("/proc/self/ns/pid").unwrap().ino().to_string();
    let mut run =
        stage.wrap(&["--kill-all", "--host-pidns", &host, "--setsid-child", "--double-fork"]);
    run.call("initialize", &json!({}));
    wait_until("its helpers are gone", PATIENCE, || stage.named("ostler-stub").len() == 1);
    run.close_stdin();
    assert!(stage.wait_exit(&mut run).success());
    stage.assert_empty_now();
}
