//! Level `strict`: a PID namespace, as root and through a user namespace.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::{
    BEHAVIOURS, Launched, Process, Stage, fds_of, rounds, wait_until, zombies_of,
};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const STUBBORN: &[&str] = &["--ignore-eof", "--ignore-term", "--descendants-ignore-term"];

/// Plays each row as root and as an unprivileged user.
macro_rules! strict_rows {
    ($(fn $name:ident($stage:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn row($stage: Stage) $body

            #[test]
            fn root() {
                rounds(|| row(Stage::strict()));
            }

            #[test]
            fn user() {
                rounds(|| row(Stage::strict_user()));
            }
        }
    )*};
}

fn close_and_expect_nothing(stage: &Stage, switches: &[&str]) {
    let mut run = stage.wrap(switches);
    run.close_stdin();
    stage.wait_exit(&mut run);
    stage.assert_empty_now();
}

/// Those that are still there when their owner is killed.
fn lasting() -> impl Iterator<Item = &'static [&'static str]> {
    BEHAVIOURS.into_iter().filter(|behaviour| !behaviour.contains(&"--exit-at-once"))
}

/// What a stub says of itself, started by `prefix`.
fn dump_of(stage: &Stage, prefix: &[String]) -> Value {
    let file = stage.sandbox.file("dump");
    let words = [prefix, &stage.stub_words(&["--exit-at-once", "--dump"])].concat();
    let mut command = stage.command(&words[0]);
    command.args(&words[1..]).arg(&file).current_dir("/usr").env("EXOTIC", "a=b\n\u{1F434}");
    assert!(command.stdin(Stdio::null()).status().unwrap().success());
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// What a command writes when it is run at this stage.
fn output_of(stage: &Stage, words: &[&str]) -> String {
    let own = stage.run_words();
    let mut command = stage.command(&own[0]);
    let output = command.args(&own[1..]).args(words).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
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

    fn l02_helpers_that_are_left_behind_are_asked_before_they_are_ended(stage) {
        let asked = stage.sandbox.file("asked");
        let helper = r#"trap ': > "$0"; exit' TERM; : > "$0.up"; while :; do sleep 0.02; done"#;
        let leader = r#"sh -c "$1" "$0" & while ! [ -e "$0.up" ]; do sleep 0.02; done; exit 5"#;
        let own = stage.run_words();
        let mut command = stage.command(&own[0]);
        command.args(&own[1..]).args(["sh", "-c", leader]).arg(&asked).arg(helper);
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
        wait_until("the init buries orphans", PATIENCE, || {
            zombies_of(guardian).is_empty() && zombies_of(init).is_empty()
        });
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
        stage.assert_empty_now();
    }

    fn l47_nobody_else_holds_the_servers_descriptors(stage) {
        let list = stage.sandbox.file("fds");
        let mut run = stage.wrap(&["--list-fds", list.to_str().unwrap()]);
        let numbers: Vec<String> = fs::read_to_string(list).unwrap().lines()
            .map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(numbers, ["0", "1", "2"]);
        let (guardian, init) = (stage.guardians()[0], stage.named("ostler-init")[0]);
        // Its line to the guardian and nothing else.
        wait_until("the init lets go", PATIENCE, || fds_of(init).len() == 4);
        let server: Vec<_> = fds_of(stage.named("ostler-stub")[0]).into_iter().collect();
        for (number, target) in [fds_of(guardian), fds_of(init)].concat() {
            assert!(server.iter().all(|(_, held)| *held != target), "{number}: {}", target.display());
        }
        run.close_stdin();
        assert!(stage.wait_exit(&mut run).success());
    }

    fn the_server_is_told_nothing_new_but_its_pid(stage) {
        let direct = dump_of(&stage, &[]);
        let mut fenced = dump_of(&stage, &stage.run_words());
        assert!(fenced["env"].as_object_mut().unwrap().remove("OSTLER_INSTANCE").is_some());
        for field in ["argv", "cwd", "env", "umask", "sigign", "sigblk", "uid"] {
            assert_eq!(direct[field], fenced[field], "{field}");
        }
        // Pid 1 could not be asked to end.
        assert_eq!(fenced["ppid"], 1);
        assert_ne!(fenced["pid"], 1);
        stage.assert_empty_now();
    }

    fn the_server_sees_its_own_namespace_only(stage) {
        assert_eq!(output_of(&stage, &["cat", "/proc/1/comm"]), "ostler-init\n");
        let all = output_of(&stage, &["sh", "-c", "echo /proc/[0-9]*"]);
        assert_eq!(all.split_whitespace().count(), 2, "{all}");
        let groups = output_of(&stage, &["grep", "Groups", "/proc/self/status"]);
        assert!(!groups.contains("65534"), "{groups}");
        stage.assert_empty_now();
    }

    fn the_pid_that_is_reported_is_the_servers_on_this_side(stage) {
        let mut run = stage.wrap(&[]);
        let said = run.stderr();
        let pid = said.split("started as process ").nth(1).unwrap().split(',').next().unwrap();
        let process = Process::read(pid.parse().unwrap()).unwrap();
        assert_eq!((process.comm.as_str(), process.ppid), ("ostler-stub", stage.named("ostler-init")[0]));
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

    fn there_is_no_such_command_or_directory(stage) {
        for (words, code) in [(&["--", "no-such-command"][..], 127), (&["--cwd", "/no/such", "--", "true"], 126)] {
            let mut command = stage.command(&stage.run_words()[0]);
            command.args(["run", "--containment", "strict"]).args(words);
            assert_eq!(command.stdin(Stdio::null()).output().unwrap().status.code(), Some(code));
            stage.assert_empty_now();
        }
    }
}

/// Owner and guardian are both killed, and the kernel ends the rest.
mod alone {
    use super::*;

    /// Which of the two goes first, and how long before the other.
    fn kill_both(stage: &Stage, behaviour: &[&str], kill: impl Fn(u32, u32)) {
        let mut run = stage.wrap(behaviour);
        kill(run.pid(), stage.guardians()[0]);
        stage.wait_exit(&mut run);
        stage.sandbox.expect_no_process_left(PATIENCE);
        // The ledger and an empty leaf are nobody's until the next sweep.
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
                        // Who has seen the other die may have left by itself.
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
                    // Neither can do anything any more from here on.
                    for signal in [Signal::STOP, Signal::KILL] {
                        stage.signal(owner, signal);
                        stage.signal(guardian, signal);
                    }
                });
            }
        }
    }
}

/// Refused to root by the stub itself.
#[test]
fn f6_the_server_kills_all_that_it_may() {
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

#[test]
fn the_groups_of_a_user_still_open_files() {
    let stage = Stage::strict_user();
    let uid = stage.sandbox.token().uid();
    let (group, file) = ((uid + 1).to_string(), stage.sandbox.file("of-the-group"));
    fs::write(&file, "readable").unwrap();
    let chown = |program: &str, what: &str| {
        assert!(
            std::process::Command::new(program).arg(what).arg(&file).status().unwrap().success()
        );
    };
    chown("chgrp", &group);
    chown("chmod", "0640");
    let uid = uid.to_string();
    let mut command = stage.sandbox.command("setpriv");
    command.args(["--reuid", &uid, "--regid", &uid, "--groups", &group, "--inh-caps=-all", "--"]);
    command.args(stage.run_words()).arg("cat").arg(&file).stdin(Stdio::null());
    assert_eq!(command.output().unwrap().stdout, b"readable");
    stage.assert_empty_now();
}

/// In a user namespace of the test's own, so that nothing changes for the machine.
#[test]
fn it_is_refused_where_no_namespace_may_be_made() {
    let stage = Stage::strict_user();
    let forbid =
        r#"echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@""#;
    let started = stage.sandbox.file("started");
    let mut command = stage.command("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"]);
    command.args(stage.run_words()).arg("touch").arg(&started).stdin(Stdio::null());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("containment 'strict' can't be had here"), "{stderr}");
    assert!(stderr.contains("max_user_namespaces"), "{stderr}");
    assert!(!started.exists());
    stage.assert_empty_now();
}

/// A /proc that hides anything can't be mounted once more: so it is in many containers.
#[test]
fn it_is_refused_where_proc_cannot_be_mounted() {
    let stage = Stage::strict_user();
    let started = stage.sandbox.file("started");
    let hide = r#"mount --bind /dev/null /proc/uptime && exec "$@""#;
    let uid = stage.sandbox.token().uid().to_string();
    let mut command = stage.sandbox.command("unshare");
    command.args(["--mount", "sh", "-c", hide, "sh", "setpriv", "--reuid", &uid, "--regid", &uid]);
    command.args(["--clear-groups", "--inh-caps=-all", "--"]);
    command.args(stage.run_words()).arg("touch").arg(&started).stdin(Stdio::null());
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("containment 'strict' can't be had here: a private /proc"), "{stderr}");
    assert!(!started.exists());
    stage.assert_empty_now();
}
