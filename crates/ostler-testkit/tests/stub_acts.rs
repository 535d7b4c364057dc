//! Reports of the stub, and the processes that its acts affect.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Sandbox, User, binary};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const REFUSED: Option<i32> = Some(4);

fn own_pidns() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap();
    link.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit()).to_owned()
}

/// Without those above 31, two of which the C library uses for threads.
fn standard_signals(mask: &str) -> u64 {
    u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff
}

/// Runs it to its end.
fn run(command: &mut Command) -> Launched {
    let mut stub = Launched::start(command);
    stub.wait_exit(LIMIT);
    stub
}

#[test]
fn a_lock_is_held_by_one_at_a_time() {
    let sandbox = Sandbox::new();
    let lock = sandbox.file("lock");
    let mut first = Launched::start(sandbox.stub().arg("--lock").arg(&lock).arg("--child"));
    sandbox.wait_ready(LIMIT);
    let mut second = Launched::start(sandbox.stub().arg("--lock").arg(&lock));
    assert_eq!(second.wait_exit(LIMIT).code(), Some(3));

    first.close_stdin();
    first.wait_exit(LIMIT);
    Launched::start(sandbox.stub().arg("--lock").arg(&lock)).initialize();
}

#[test]
fn the_list_of_descriptors_has_only_those_from_the_start() {
    let sandbox = Sandbox::new();
    let list = sandbox.file("fds");
    let mut stub = Launched::start(
        sandbox.stub().arg("--list-fds").arg(&list).arg("--lock").arg(sandbox.file("lock")),
    );
    stub.initialize();
    let text = fs::read_to_string(list).unwrap();
    let numbers: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["0", "1", "2"], "{text}");
    assert!(text.starts_with("0 pipe:["), "{text}");
}

#[test]
fn the_dump_tells_how_it_was_started() {
    let sandbox = Sandbox::new();
    let dump = sandbox.file("dump");
    let mut command = sandbox.stub();
    command.arg("--dump").arg(&dump).env("SOME_NAME", "some value").current_dir(sandbox.home());
    let stub = Launched::start(&mut command);
    sandbox.wait_ready(LIMIT);

    let dump: Value = serde_json::from_slice(&fs::read(dump).unwrap()).unwrap();
    let process = Process::read(stub.pid()).unwrap();
    let ids = ["pid", "ppid", "pgid", "sid", "uid"].map(|name| dump[name].as_u64().unwrap());
    let expected = [process.pid, std::process::id(), process.pgid, process.sid, 0].map(u64::from);
    assert_eq!(ids, expected);
    assert_eq!(dump["env"]["SOME_NAME"], "some value");
    assert_eq!(dump["cwd"], sandbox.home().to_str().unwrap());
    assert_eq!(dump["argv"][1], "--ready");
    assert_eq!(dump["sigblk"], "0000000000000000");
    // The runner of the tests may ignore some, and the runtime of both this test and the stub ignores SIGPIPE.
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(standard_signals(dump["sigign"].as_str().unwrap()), standard_signals(own));
    assert_eq!(dump["umask"].as_str().unwrap().len(), 4);
}

#[test]
fn a_parent_is_killed_only_inside_of_a_sandbox() {
    let sandbox = Sandbox::new();
    let mut refused = run(sandbox.stub().arg("--kill-parent"));
    assert_eq!(refused.wait_exit(LIMIT).code(), REFUSED, "the test itself is the parent");
    assert!(refused.stderr().contains("refused"));

    let mut shell = sandbox.command("/bin/sh");
    shell.args(["-c", r#""$0" --kill-parent; true"#]).arg(binary("ostler-stub"));
    assert_eq!(run(&mut shell).wait_exit(LIMIT).signal(), Some(9));
}

#[test]
fn a_group_is_killed_only_inside_of_a_sandbox() {
    let sandbox = Sandbox::new();
    let mut refused = run(sandbox.stub().arg("--kill-group"));
    assert_eq!(refused.wait_exit(LIMIT).code(), REFUSED, "the test itself is in the group");

    let mut command = sandbox.stub();
    let mut stub = run(command.args(["--kill-group", "--child"]).process_group(0));
    assert_eq!(stub.wait_exit(LIMIT).signal(), Some(9));
    sandbox.expect_no_survivors(LIMIT);
}

#[test]
fn everything_is_not_killed_by_root_or_in_the_namespace_of_the_test() {
    let sandbox = Sandbox::new();
    let pidns = own_pidns();
    let cases: [(User, &[&str]); 3] = [
        (User::Root, &["--kill-all", "--host-pidns", "1"]),
        (sandbox.nobody(), &["--kill-all"]),
        (sandbox.nobody(), &["--kill-all", "--host-pidns", &pidns]),
    ];
    for (user, switches) in cases {
        // The one before may have belonged to another user.
        let _ = fs::remove_file(sandbox.file("pids"));
        let mut stub = run(sandbox.stub_as(user).args(switches));
        assert_eq!(stub.wait_exit(LIMIT).code(), REFUSED, "{user:?} {switches:?}");
    }
}

#[test]
fn everything_is_killed_in_a_namespace_of_its_own() {
    let sandbox = Sandbox::new();
    let User::Nobody(uid) = sandbox.nobody() else { unreachable!() };
    let script = r#"
        become="setpriv --reuid $1 --regid $1 --clear-groups"
        $become sleep 600 & sleeper=$!
        until [ "$(cat /proc/$sleeper/comm)" = sleep ]; do :; done
        $become "$0" --kill-all --host-pidns "$2" --exit-at-once --exit-code 5; echo $?
        wait $sleeper; echo $?"#;
    let mut shell = sandbox.command("unshare");
    shell.args(["--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", script]);
    shell.arg(sandbox.reachable(&binary("ostler-stub"))).arg(uid.to_string()).arg(own_pidns());
    let mut shell = Launched::start(&mut shell);
    assert_eq!(shell.line(LIMIT).unwrap().unwrap(), b"5", "{}", shell.stderr());
    assert_eq!(shell.line(LIMIT).unwrap().unwrap(), b"137", "the sleeper was killed");
    assert!(shell.wait_exit(LIMIT).success());
}
