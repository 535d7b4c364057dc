//! Sandboxes are isolated and leave nothing behind.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use ostler_testkit::{
    Launched, Sandbox, Token, User, binary, fds_of, is_alive, pss_of, rss_of, threads_of,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const EVERYTHING: [&str; 13] = [
    "--ignore-eof",
    "--ignore-term",
    "--child",
    "--setsid-child",
    "--double-fork",
    "--nested",
    "--empty-env",
    "--descendants-ignore-term",
    "--zombies",
    "1",
    "--hop-ms",
    "5",
    "--stop-self",
];

/// Fills a sandbox with the rudest processes. Returns the stub, the directories and the pids.
fn fill(sandbox: &Sandbox) -> (Launched, Vec<PathBuf>, Vec<u32>) {
    let stub = Launched::start(sandbox.stub().args(EVERYTHING));
    sandbox.wait_ready(LIMIT);
    fs::create_dir_all(sandbox.cgroup().path().join("leaf/deeper")).unwrap();
    fs::write(sandbox.state().join("residue"), "").unwrap();
    let places = vec![sandbox.path().to_owned(), sandbox.cgroup().path().to_owned()];
    (stub, places, sandbox.pids())
}

fn assert_gone(places: &[PathBuf], pids: &[u32]) {
    assert!(pids.len() > 7, "{pids:?}");
    assert_eq!(pids.iter().filter(|pid| is_alive(**pid)).count(), 0);
    assert!(places.iter().all(|place| !place.exists()), "{places:?}");
}

#[test]
fn a_drop_leaves_nothing() {
    let sandbox = Sandbox::new();
    let (stub, places, pids) = fill(&sandbox);
    drop(sandbox);
    assert_gone(&places, &pids);
    drop(stub);
}

#[test]
fn a_panic_leaves_nothing() {
    let mut seen = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let sandbox = Sandbox::new();
        let (_stub, places, pids) = fill(&sandbox);
        seen = Some((places, pids));
        panic!("as a failed test does");
    }));
    assert!(result.is_err());
    let (places, pids) = seen.unwrap();
    assert_gone(&places, &pids);
}

#[test]
fn programs_see_the_directories_and_the_token() {
    let sandbox = Sandbox::new();
    let dump = sandbox.file("dump");
    let _stub = Launched::start(sandbox.stub().arg("--dump").arg(&dump));
    sandbox.wait_ready(LIMIT);
    let dump: Value = serde_json::from_slice(&fs::read(dump).unwrap()).unwrap();
    for (name, path) in [
        ("XDG_STATE_HOME", sandbox.state()),
        ("XDG_RUNTIME_DIR", sandbox.runtime()),
        ("OSTLER_RUNTIME_DIR", sandbox.runtime()),
        ("HOME", sandbox.home()),
    ] {
        assert_eq!(dump["env"][name], path.to_str().unwrap());
    }
    let (name, value) = sandbox.token().env();
    assert_eq!(dump["env"][name], value);
}

#[test]
fn an_unprivileged_program_has_the_directories_and_not_the_cgroup() {
    let sandbox = Sandbox::new();
    let User::Nobody(uid) = sandbox.nobody() else { unreachable!() };
    let script = r#"id -u; grep CapEff /proc/self/status; touch "$HOME/a" "$XDG_STATE_HOME/a" && echo written
                    mkdir "$0/leaf" 2>/dev/null || echo denied"#;
    let run = |sandbox: &Sandbox| {
        let mut command = sandbox.command_as(sandbox.nobody(), "/bin/sh");
        let output = command.args(["-c", script]).arg(sandbox.cgroup().path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let start = format!("{uid}\nCapEff:\t0000000000000000\nwritten\n");
    assert_eq!(run(&sandbox), format!("{start}denied\n"));

    sandbox.delegate_to(uid);
    sandbox.own_directories(uid);
    assert_eq!(run(&sandbox), start);
    assert_eq!(sandbox.survivors().cgroups, [sandbox.cgroup().path().join("leaf")]);
    let runtime = fs::metadata(sandbox.runtime()).unwrap();
    assert_eq!((runtime.uid(), runtime.mode() & 0o777), (uid, 0o700));
}

#[test]
fn an_unprivileged_stub_is_found_too() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.stub_as(sandbox.nobody());
    let stub = Launched::start(command.args(["--double-fork", "--empty-env"]));
    sandbox.wait_ready(LIMIT);
    let survivors = sandbox.survivors();
    assert_eq!(survivors.processes.len(), 2, "{survivors}");
    let uid = fs::metadata(format!("/proc/{}", stub.pid())).unwrap().uid();
    assert_eq!(User::Nobody(uid), sandbox.nobody());
}

#[test]
fn a_program_is_made_reachable_under_its_name() {
    let sandbox = Sandbox::new();
    let path = sandbox.reachable(&binary("ostler-stub"));
    assert!(path.starts_with(sandbox.path()) && path.ends_with("ostler-stub"));
    assert_eq!(sandbox.reachable(&binary("ostler-stub")), path);
}

#[test]
#[should_panic(expected = "build it first: cargo build --workspace")]
fn a_missing_binary_is_named() {
    binary("no-such-binary");
}

#[test]
fn tokens_differ_and_their_users_are_throw_away() {
    let (one, other) = (Token::random(), Token::random());
    assert_ne!(one, other);
    assert!((40_000..60_000).contains(&one.uid()));
    assert!(!one.is_carried_by(std::process::id()));
}

#[test]
fn the_figures_of_a_process_are_read() {
    let sandbox = Sandbox::new();
    let mut stub = Launched::start(&mut sandbox.stub());
    sandbox.wait_ready(LIMIT);
    let pid = stub.pid();
    assert_eq!(threads_of(pid), 1);
    assert!(rss_of(pid) >= pss_of(pid) && pss_of(pid) > 0);
    let numbers: Vec<u32> = fds_of(pid).into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 2]);

    stub.close_stdin();
    stub.wait_exit(LIMIT);
    assert_eq!((threads_of(pid), rss_of(pid), fds_of(pid).len()), (0, 0, 0));
}
