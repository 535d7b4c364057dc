//! A host's own threads and children do not disturb its servers, and are not disturbed by them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::time::Duration;

use ostler_testkit::{Stage, is_alive, rows, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// The duration in milliseconds from the output of `stop`.
fn stop_time(said: &str) -> u64 {
    said.split_ascii_whitespace().rev().nth(1).unwrap().parse().unwrap()
}

fn time_to_stop(stage: &Stage, count: usize) -> u64 {
    let mut host = stage.host(count, &["--ignore-eof --ignore-term"], &["--grace-ms", "1000"]);
    let said = host.obey("stop");
    assert!(said.starts_with(&format!("gone: {count} ")), "{said}");
    stop_time(&said)
}

rows! {
    fn l11_the_thread_that_started_a_server_ends(stage) {
        let pids = stage.sandbox.file("pids");
        let switches = format!("--setsid-child --pid-file {}", pids.display());
        let mut host = stage.host(3, &[&switches], &["--from-thread"]);
        wait_until("all are up", PATIENCE, || stage.sandbox.pids().len() == 6);
        // The host has replied from its main thread since, so the starting threads have ended.
        host.obey("own-child");
        assert!(stage.sandbox.pids().into_iter().all(is_alive));
        assert!(host.obey("stop").starts_with("gone: 3 "));
    }

    fn l46_the_hosts_own_children_keep_their_status(stage) {
        let mut host = stage.host(4, &["--orphan-zombies 5 --zombies 5", "--double-fork"], &[]);
        for _ in 0..20 {
            assert!(host.obey("own-child").contains("exit status: 7"));
        }
        assert!(host.obey("stop").starts_with("gone: 4 "));
    }

    fn l46_a_host_that_reaps_every_child_does_not_interfere(stage) {
        let mut host = stage.host(4, &["--setsid-child", "--ignore-term --child"], &["--steal-children"]);
        assert!(host.obey("stop").starts_with("gone: 4 "));
    }

    fn l47_a_sibling_does_not_hold_the_input_open(stage) {
        let pids = stage.sandbox.file("pids");
        let switches = format!("--pid-file {}", pids.display());
        let mut host = stage.host(3, &[&switches], &["--grace-ms", "3600000"]);
        wait_until("all are up", PATIENCE, || stage.sandbox.pids().len() == 3);
        host.obey("close-first-input");
        // The grace is an hour, so only the end of its input can end the server.
        wait_until("one server has seen the end of its input", PATIENCE, || {
            stage.sandbox.pids().into_iter().filter(|pid| is_alive(*pid)).count() == 2
        });
    }

    fn l54_twenty_stubborn_servers_take_no_longer_than_a_few_graces(stage) {
        let (one, twenty) = (time_to_stop(&stage, 1), time_to_stop(&stage, 20));
        assert!(twenty < 5 * one, "one takes {one} ms, twenty take {twenty} ms");
    }
}

/// A fork would copy the page tables of the owner's whole heap; a spawn shares them.
#[test]
fn f24_the_owner_never_forks() {
    let stage = Stage::leaf();
    let trace = stage.sandbox.file("trace");
    let mut command = stage.command("strace");
    command.arg("-o").arg(&trace).args(["-e", "trace=fork,vfork,clone,clone3", "--"]);
    command.arg(ostler_testkit::binary("ostler-host")).arg("--program");
    command.arg(ostler_testkit::binary("ostler-stub")).args(["--count", "5"]);
    let mut host = ostler_testkit::Launched::start(&mut command);
    assert_eq!(host.line(PATIENCE).unwrap().unwrap(), b"ready");
    host.close_stdin();
    host.wait_exit(PATIENCE);
    let trace = std::fs::read_to_string(trace).unwrap();
    let births = trace.lines().filter(|line| line.contains('(') && !line.contains("CLONE_THREAD"));
    let births: Vec<&str> = births.collect();
    assert_eq!(births.len(), 5, "{trace}");
    assert!(
        births.iter().all(|call| call.contains("CLONE_VM") && call.contains("CLONE_VFORK")),
        "{trace}"
    );
    stage.expect_empty();
}
