//! `ostler run` as pid 1: in a pid namespace, and in a container of a real engine.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Sandbox, Stage, wait_until, zombies_of};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);
const NAMESPACE: [&str; 5] = ["--pid", "--fork", "--mount-proc", "--kill-child", "--"];

/// The process that is pid 1 of the new namespace, as seen from outside: the child of unshare.
fn first_process(sandbox: &Sandbox, unshare: u32) -> u32 {
    let is_first = |pid: &u32| Process::read(*pid).is_some_and(|p| p.ppid == unshare);
    sandbox.cgroup().pids().into_iter().find(is_first).unwrap()
}

/// A wrapped stub in a pid namespace of its own, with ostler as its first process.
fn start(sandbox: &Sandbox, switches: &[&str]) -> Launched {
    let mut command = sandbox.command("unshare");
    command.args(NAMESPACE).arg(ostler_testkit::binary("ostler"));
    command.args(["run", "--grace", "300ms", "--"]).arg(ostler_testkit::binary("ostler-stub"));
    command.arg("--ready").arg(sandbox.file("ready")).args(switches);
    let run = Launched::start(&mut command);
    sandbox.wait_ready(PATIENCE);
    run
}

#[test]
fn l45_the_first_process_reaps_orphans() {
    let sandbox = Sandbox::new();
    let mut run = start(&sandbox, &["--orphan-zombies", "20", "--zombies", "3", "--double-fork"]);
    let first = first_process(&sandbox, run.pid());
    wait_until("no zombie of pid 1", PATIENCE, || zombies_of(first).is_empty());
    run.close_stdin();
    assert!(run.wait_exit(PATIENCE).success());
    sandbox.expect_no_survivors(PATIENCE);
}

#[test]
fn it_passes_signals_on_and_ends_with_the_servers_status() {
    let sandbox = Sandbox::new();
    let mut run = start(&sandbox, &["--ignore-eof"]);
    let first = first_process(&sandbox, run.pid());
    let first = rustix::process::Pid::from_raw(first.cast_signed()).unwrap();
    rustix::process::kill_process(first, Signal::TERM).unwrap();
    // The status that a shell reports: pid 1 cannot die by its own signal.
    assert_eq!(run.wait_exit(PATIENCE).code(), Some(128 + 15));
    sandbox.expect_no_survivors(PATIENCE);
}

/// Inside a pid namespace of its own, under a throw-away user: anywhere else this would end
/// far more than the test.
#[test]
fn f6_the_server_kills_all_that_it_may() {
    let stage = Stage::tree();
    let sandbox = &stage.sandbox;
    let host_pidns = std::fs::metadata("/proc/self/ns/pid").unwrap().ino().to_string();
    let uid = sandbox.token().uid().to_string();
    let mut command = sandbox.command("unshare");
    command.args(NAMESPACE);
    command.args(["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]);
    command.arg(&stage.run_words()[0]).args(["run", "--"]);
    command.args(stage.stub_words(&["--kill-all", "--host-pidns", &host_pidns, "--setsid-child"]));
    let mut run = Launched::start(&mut command);
    // Everything but pid 1 was killed, and pid 1 reports it.
    assert_eq!(stage.wait_exit(&mut run).code(), Some(128 + 9));
    stage.expect_empty_but_for_the_ledger();
}

/// On the engine that the test command starts.
mod engine {
    use super::*;

    /// An image without files: the container borrows the machine's own, read-only.
    const IMAGE: &str = "ostler-test-empty";
    const BORROWED: [&str; 4] = ["/usr", "/lib", "/lib64", "/bin"];

    fn docker() -> Command {
        assert!(std::env::var_os("DOCKER_HOST").is_some(), "scripts/test starts the engine");
        Command::new("docker")
    }

    fn make_image(sandbox: &Sandbox) {
        let empty = sandbox.file("empty.tar");
        std::fs::write(&empty, [0; 1024]).unwrap();
        let status = docker().arg("import").arg(empty).arg(IMAGE).status().unwrap();
        assert!(status.success());
    }

    fn in_container(sandbox: &Sandbox, name: &str, options: &[&str]) -> Command {
        let mut command = docker();
        command.args(["run", "--rm", "--interactive", "--network", "none", "--name", name]);
        for directory in BORROWED {
            command.args(["--volume", &format!("{directory}:{directory}:ro")]);
        }
        let files = sandbox.path().display().to_string();
        // Any image has a directory for temporary files, but one without files.
        command.args(["--tmpfs", "/tmp", "--volume", &format!("{files}:{files}")]);
        command.args(options).arg(IMAGE);
        command.arg(sandbox.reachable(&ostler_testkit::binary("ostler")));
        command
    }

    #[test]
    fn f26_l45_as_the_first_process_of_a_plain_container() {
        let stage = Stage::leaf();
        make_image(&stage.sandbox);
        let name = format!("ostler-test-{}", stage.sandbox.token().hex());
        for options in [&[][..], &["--user", "1000"]] {
            let _ = std::fs::remove_file(stage.sandbox.file("ready"));
            let _ = std::fs::remove_file(stage.sandbox.file("pids"));
            let mut command = in_container(&stage.sandbox, &name, options);
            command.args(["run", "--verbose", "--grace", "300ms", "--"]);
            command.args(stage.stub_words(&[
                "--ignore-eof",
                "--ignore-term",
                "--double-fork",
                "--empty-env",
                "--orphan-zombies",
                "10",
            ]));
            let mut client = Launched::start(&mut command);
            stage.sandbox.wait_ready(PATIENCE);
            wait_until("the level is reported", PATIENCE, || {
                client.stderr().contains("containment tree")
            });
            let top = docker().args(["top", &name, "-o", "pid,stat,args"]).output().unwrap();
            let top = String::from_utf8(top.stdout).unwrap();
            assert!(!top.contains(" Z"), "zombies in the container:\n{top}");
            client.close_stdin();
            stage.wait_exit(&mut client);
            wait_until("the container is gone", PATIENCE, || {
                let filter = format!("name={name}");
                let list = docker().args(["ps", "--all", "--quiet", "--filter", &filter]).output();
                list.unwrap().stdout.is_empty()
            });
        }
        stage.expect_empty();
    }
}
