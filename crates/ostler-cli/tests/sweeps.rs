//! Remains of dead owners are ended: by their guardians, by the next start, or by `ostler reap`.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use ostler_testkit::{
    Host, Launched, Process, RUDE, Stage, fds_of, is_alive, rows, threads_of, wait_until,
    zombies_of,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// Processes that the mark in their environment identifies, at every level.
const MARKED: [&[&str]; 5] = [
    &["--ignore-eof", "--ignore-term"],
    &["--child", "--ignore-eof"],
    &["--setsid-child"],
    &["--daemons", "20", "--descendants-ignore-term"],
    &["--nested", "--descendants-ignore-term"],
];

/// Processes that only a leaf finds: without a mark, or with changing pids.
const HIDDEN: [&[&str]; 4] = [
    &["--double-fork", "--empty-env"],
    &["--setsid-child", "--empty-env", "--descendants-ignore-term"],
    &["--hop-ms", "1"],
    &["--hop-ms", "0"],
];

/// Which of owner and guardian is killed first, and the delay until the other.
#[derive(Clone, Copy, Debug)]
enum Order {
    GuardianFirst(Duration),
    OwnerFirst,
}

const ORDERS: [Order; 5] = [
    Order::GuardianFirst(Duration::ZERO),
    Order::GuardianFirst(Duration::from_millis(1)),
    Order::GuardianFirst(Duration::from_millis(10)),
    Order::GuardianFirst(Duration::from_millis(100)),
    Order::OwnerFirst,
];

/// The command that ends the remains.
#[derive(Clone, Copy, Debug)]
enum Way {
    NextStart,
    Reap,
}

/// A handle from before the first kill: both follow each other without a look in between.
fn handle(pid: u32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()).unwrap()
}

fn kill_both(stage: &Stage, run: &mut Launched, order: Order) {
    let guardian_pid = stage.guardians_of(run.pid())[0];
    let (owner, guardian) = (handle(run.pid()), handle(guardian_pid));
    // One of them may have exited already, because the other is dead.
    let kill = |target: &OwnedFd| {
        let _ = pidfd_send_signal(target, Signal::KILL);
    };
    match order {
        Order::GuardianFirst(delay) => {
            kill(&guardian);
            std::thread::sleep(delay);
            kill(&owner);
        }
        Order::OwnerFirst => {
            kill(&owner);
            kill(&guardian);
        }
    }
    stage.wait_exit(run);
    // A sweep leaves an instance to its guardian for as long as that one is dying.
    wait_until("the guardian is dead", PATIENCE, || !is_alive(guardian_pid));
}

fn clean_up(stage: &Stage, way: Way) {
    match way {
        Way::Reap => {
            stage.ostler(&["reap", "--yes"]);
        }
        Way::NextStart => {
            let mut next = stage.wrap(&[]);
            next.initialize();
            expect_only(stage, &[&next]);
            next.call("ping", &json!({}));
            next.close_stdin();
            assert!(stage.wait_exit(&mut next).success());
        }
    }
    stage.assert_empty_now();
}

/// Only these runs are left, each with its guardian, its server, its ledger and its leaf.
fn expect_only(stage: &Stage, runs: &[&Launched]) {
    wait_until("only the living are left", PATIENCE, || {
        let left = stage.sandbox.survivors();
        let leaves = if stage.level() == "leaf" { runs.len() } else { 0 };
        left.processes.len() == 3 * runs.len()
            && left.cgroups.len() == leaves
            && stage.ledgers().len() == runs.len()
    });
}

/// Every order of deaths over every behaviour, with both ways to clean up in turn.
fn kill_and_clean_up(stage: &Stage, behaviours: &[&[&str]]) {
    let mut ways = [Way::Reap, Way::NextStart].into_iter().cycle();
    for order in ORDERS {
        for behaviour in behaviours {
            let mut run = stage.wrap(behaviour);
            kill_both(stage, &mut run, order);
            clean_up(stage, ways.next().unwrap());
        }
    }
}

/// The lines of the ledger file, read without the library.
fn lines_of(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("ledger")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn identity(pid: u32) -> Value {
    json!({"pid": pid, "start": Process::read(pid).unwrap().start_time})
}

/// The pids of `processes` in a view of `ostler ps --json`.
fn pids_in(view: &Value) -> Vec<u64> {
    let processes = view["processes"].as_array().unwrap();
    let mut pids: Vec<u64> = processes.iter().map(|p| p["pid"].as_u64().unwrap()).collect();
    pids.sort_unstable();
    pids
}

/// A stub in a session of its own behind a shell, so that it survives its guardian.
fn behind_a_shell(stage: &Stage, switches: &[&str]) -> Vec<String> {
    let words = ["sh", "-c", r#"setsid "$@" <&0 & wait"#, "sh"].map(String::from);
    words.into_iter().chain(stage.stub_words(switches)).collect()
}

fn start_reap(stage: &Stage) -> Child {
    let mut command = stage.command(&stage.run_words()[0]);
    command.args(["reap", "--yes", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

rows! {
    fn f3_marked_processes_end_in_every_order_of_deaths(stage) {
        kill_and_clean_up(&stage, &MARKED);
    }

    fn f3_orphans_are_shown_and_nothing_is_touched_unasked(stage) {
        let mut run = stage.wrap(&["--setsid-child", "--double-fork", "--descendants-ignore-term"]);
        stage.abandon(&mut run);
        let server = stage.sandbox.pids()[0];
        wait_until("the server dies with its guardian", PATIENCE, || !is_alive(server));
        let orphans = stage.sandbox.survivors().pids();
        assert_eq!(orphans.len(), 2);

        let shown = stage.ostler_json(&["ps", "--json"]);
        assert_eq!(shown.as_array().unwrap().len(), 1);
        assert_eq!(shown[0]["state"], "orphaned");
        assert_eq!(shown[0]["guardian"], Value::Null);
        assert_eq!(shown[0]["pid"], server);
        assert_eq!(pids_in(&shown[0]), orphans.iter().copied().map(u64::from).collect::<Vec<_>>());

        let said = stage.ostler(&["reap"]);
        let instance = shown[0]["instance"].as_str().unwrap();
        let mut expected = format!(
            "ostler-stub: would be ended\n  instance   {instance}\n  command    {}\n  \
             owner      {}, dead: its lock is free\n  guardian   dead\n",
            stage.stub_words(&[])[0],
            run.pid()
        );
        if stage.level() == "leaf" {
            expected.push_str("  leaf       there\n");
        }
        for orphan in &orphans {
            let line = format!("  process    {orphan} (ostler-stub, state S), carries the instance's mark\n");
            expected.push_str(&line);
        }
        expected.push_str("\nNothing was touched. To end it: ostler reap --yes\n");
        assert_eq!(said.replace("state R", "state S"), expected);
        assert_eq!(stage.sandbox.survivors().pids(), orphans);

        let done = stage.ostler_json(&["reap", "--yes", "--json"]);
        let outcome = if stage.level() == "leaf" { "gone" } else { "marked_gone" };
        assert_eq!((&done[0]["instance"], &done[0]["outcome"]), (&json!(instance), &json!(outcome)));
        stage.assert_empty_now();
        let again = stage.ostler(&["reap", "--yes"]);
        assert_eq!(again, "nothing to reap: no dead owner has left anything\n");
    }

    fn f3_only_the_dead_owners_remains_are_swept(stage) {
        let mut living = stage.wrap(&[]);
        living.initialize();
        let server = stage.sandbox.pids()[0];
        let mut dead = stage.wrap(&["--setsid-child", "--daemons", "3"]);
        stage.abandon(&mut dead);
        let third = stage.wrap(&[]);
        expect_only(&stage, &[&living, &third]);
        assert!(is_alive(server));
        living.call("ping", &json!({}));
        for mut run in [living, third] {
            run.close_stdin();
            assert!(stage.wait_exit(&mut run).success());
        }
        stage.assert_empty_now();
    }

    fn f25_a_living_owner_is_never_swept(stage) {
        let mut host = stage.host(3, &["--setsid-child", "--ignore-term", ""], &[]);
        wait_until("all are up", PATIENCE, || stage.sandbox.survivors().pids().len() == 8);
        let before = stage.sandbox.survivors().pids();
        let said = stage.ostler(&["reap", "--yes"]);
        assert_eq!(said, "nothing to reap: no dead owner has left anything\n");
        // A stopped owner is alive too: an owner is dead when its lock is free.
        host.0.signal(Signal::STOP);
        stage.ostler(&["reap", "--yes"]);
        assert_eq!(stage.sandbox.survivors().pids(), before);
        host.0.signal(Signal::CONT);
        assert!(host.obey("stop").starts_with("gone: 3 "));
    }

    fn l12_a_successor_gets_the_lock_when_nothing_is_left(stage) {
        let lock = stage.sandbox.file("lock");
        let switches = ["--lock", lock.to_str().unwrap(), "--ignore-eof", "--ignore-term"];
        let mut first = stage.wrap_words(&behind_a_shell(&stage, &switches));
        first.signal(Signal::KILL);
        stage.wait_exit(&mut first);
        stage.expect_empty();

        let mut second = stage.wrap_words(&behind_a_shell(&stage, &switches));
        stage.abandon(&mut second);
        let is_held = || File::open(&lock).unwrap().try_lock().is_err();
        assert!(is_held(), "no sweep ran, and the owner still holds its lock");
        stage.ostler(&["reap", "--yes"]);
        stage.assert_empty_now();

        let mut third = stage.wrap(&switches[..2]);
        third.initialize();
        third.close_stdin();
        assert!(stage.wait_exit(&mut third).success());
        stage.assert_empty_now();
    }

    fn s22_owner_guardian_and_server_are_recorded_before_the_handshake(stage) {
        let mut run = stage.wrap(&["--answer", "never"]);
        let ledgers = stage.ledgers();
        assert_eq!(ledgers.len(), 1);
        let lines = lines_of(&ledgers[0]);
        let kinds: Vec<&str> = lines.iter().map(|line| line["record"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["owner", "intent", "started"]);
        assert_eq!(lines[0]["process"], identity(run.pid()));
        assert_eq!(lines[0]["client"]["process"], identity(std::process::id()));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(lines[0]["boot"], boot.trim());
        assert_eq!(lines[1]["instance"], lines[2]["instance"]);
        assert_eq!(lines[1]["leaf"].is_string(), stage.level() == "leaf");
        assert_eq!(lines[2]["process"]["guardian"], identity(stage.guardians()[0]));
        assert_eq!(lines[2]["process"]["server"], identity(stage.sandbox.pids()[0]));
        // Other users cannot read it or take the lock.
        for private in [ledgers[0].parent().unwrap(), ledgers[0].ancestors().nth(2).unwrap()] {
            assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o777, 0o700);
        }
        run.close_stdin();
        stage.wait_exit(&mut run);
        stage.assert_empty_now();
    }

    fn l57_an_owner_that_was_stopped_goes_on_where_it_was(stage) {
        for switches in [&["--setsid-child"][..], &["--ignore-eof", "--ignore-term"]] {
            let _ = fs::remove_file(stage.sandbox.file("pids"));
            let mut run = stage.wrap(switches);
            let (owner, guardian) = (run.pid(), stage.guardians()[0]);
            let started = stage.sandbox.pids();
            run.signal(Signal::STOP);
            let is_stopped = || Process::read(owner).is_some_and(|p| p.state == 'T');
            wait_until("it is stopped", PATIENCE, is_stopped);
            run.close_stdin();
            if !switches.contains(&"--ignore-eof") {
                wait_until("the server sees the end of its input", PATIENCE, || {
                    let mut left = stage.sandbox.survivors().pids();
                    left.sort_unstable();
                    left == [owner.min(guardian), owner.max(guardian)]
                });
            }
            run.signal(Signal::CONT);
            stage.wait_exit(&mut run);
            stage.assert_empty_now();
            assert_eq!(stage.sandbox.pids(), started, "something was started again");
        }
    }

    fn l10_a_host_with_ten_mixed_servers_is_killed(stage) {
        let mut host = stage.host(10, &RUDE, &[]);
        assert_eq!(stage.ledgers().len(), 1);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
        assert_eq!(stage.ledgers(), Vec::<PathBuf>::new());
    }

    fn twenty_concurrent_sweeps_share_the_same_remains(stage) {
        let behaviours = [&["--setsid-child"][..], &["--daemons", "5"], &["--nested"]];
        for behaviour in behaviours {
            let mut run = stage.wrap(behaviour);
            stage.abandon(&mut run);
        }
        let words = stage.run_words();
        let start = || Launched::start(stage.command(&words[0]).args(&words[1..]).arg("cat"));
        let reaps: Vec<Child> = (0..14).map(|_| start_reap(&stage)).collect();
        let mut runs: Vec<Launched> = (0..6).map(|_| start()).collect();

        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        for reap in reaps {
            let output = reap.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{}: {said}", output.status);
            let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
            for finding in findings.as_array().unwrap() {
                *ended.entry(finding["instance"].to_string()).or_default() += 1;
            }
        }
        assert!(ended.values().all(|times| *times == 1), "{ended:?}");
        expect_only(&stage, &runs.iter().collect::<Vec<_>>());
        for run in &mut runs {
            run.close_stdin();
            assert!(stage.wait_exit(run).success());
        }
        stage.assert_empty_now();
    }
}

#[test]
fn f3_processes_found_only_by_their_leaf_end_in_every_order_of_deaths() {
    ostler_testkit::rounds(|| kill_and_clean_up(&Stage::leaf(), &HIDDEN));
}

mod alone {
    use super::*;

    /// A hundred in CI, five hundred in the full run.
    fn instances() -> usize {
        if std::env::var_os("OSTLER_TEST_ROUNDS").is_some() { 500 } else { 100 }
    }

    fn holdings(host: &Host) -> (usize, u64, usize) {
        let pid = host.0.pid();
        (fds_of(pid).len(), threads_of(pid), zombies_of(pid).len())
    }

    fn f9(stage: &Stage) {
        let count = instances();
        let mut host = stage.host(count, &["", "--setsid-child"], &[]);
        assert_eq!(stage.guardians().len(), count);
        assert!(host.obey("stop").starts_with(&format!("gone: {count} ")));
        assert_eq!(stage.sandbox.survivors().pids(), [host.0.pid()]);
        assert_eq!(stage.ledgers(), Vec::<PathBuf>::new());
        let before = holdings(&host);
        assert!(host.obey("cycle").starts_with(&format!("gone: {count} ")));
        assert_eq!(holdings(&host), before);
        host.order("exit");
        stage.wait_exit(&mut host.0);
        stage.expect_empty();

        let mut host = stage.host(count, &["", "--setsid-child"], &[]);
        host.0.signal(Signal::KILL);
        stage.wait_exit(&mut host.0);
        stage.expect_empty();
    }

    #[test]
    fn f9_many_instances_at_leaf() {
        f9(&Stage::leaf());
    }

    #[test]
    fn f9_many_instances_at_tree() {
        f9(&Stage::tree());
    }
}
