//! The level of containment in each environment, and its report.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use ostler_testkit::{Launched, Process, Sandbox, Stage, User, binary, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// The level that `ostler run --verbose` reports to this user.
fn level_for(sandbox: &Sandbox, user: User) -> String {
    let mut command = sandbox.command_as(user, sandbox.reachable(&binary("ostler")));
    let mut run = Launched::start(command.args(["run", "--verbose", "--", "cat"]));
    let level = wait_until("the level is reported", PATIENCE, || {
        run.stderr().trim().rsplit_once("containment ").map(|(_, level)| level.to_owned())
    });
    run.close_stdin();
    assert!(run.wait_exit(PATIENCE).success());
    sandbox.expect_no_survivors(PATIENCE);
    level
}

#[test]
fn f26_root_gets_a_leaf() {
    assert_eq!(level_for(&Sandbox::new(), User::Root), "leaf");
}

#[test]
fn f26_a_user_with_a_delegated_subtree_gets_a_leaf() {
    let sandbox = Sandbox::new();
    sandbox.delegate_to(sandbox.token().uid());
    assert_eq!(level_for(&sandbox, sandbox.nobody()), "leaf");
}

#[test]
fn f26_a_user_in_a_foreign_cgroup_gets_the_tree() {
    let sandbox = Sandbox::new();
    assert_eq!(level_for(&sandbox, sandbox.nobody()), "tree");
}

#[test]
fn an_unavailable_level_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let ostler = sandbox.reachable(&binary("ostler"));
    let output = sandbox
        .command_as(sandbox.nobody(), ostler)
        .args(["run", "--containment", "leaf", "--", "touch"])
        .arg(sandbox.file("started"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("containment 'leaf' is not available here"), "{stderr}");
    assert!(stderr.contains("not writable"), "{stderr}");
    assert!(!sandbox.file("started").exists());
    sandbox.expect_no_survivors(PATIENCE);
}

/// Older kernels, and the filters of some containers, do not know how to fork into a cgroup.
#[test]
fn a_leaf_is_entered_where_clone3_cannot_fork_into_it() {
    for stage in [Stage::leaf(), Stage::tree(), Stage::strict()] {
        let mut command = stage.command("strace");
        command.args(["--follow-forks", "-o", "/dev/null", "-e", "trace=clone3"]);
        command.args(["-e", "inject=clone3:error=ENOSYS", "--"]).args(stage.run_words());
        command.args(stage.stub_words(&["--setsid-child", "--double-fork"]));
        let mut run = Launched::start(&mut command);
        stage.sandbox.wait_ready(PATIENCE);
        let is_stub = |pid: &u32| Process::read(*pid).is_some_and(|p| p.comm == "ostler-stub");
        let server = stage.sandbox.cgroup().pids().into_iter().find(is_stub).unwrap();
        let cgroup = fs::read_to_string(format!("/proc/{server}/cgroup")).unwrap();
        let own = cgroup.lines().find(|line| line.starts_with("0::")).unwrap();
        let in_leaf = own.rsplit('/').next().unwrap().len() == "ostler-".len() + 32;
        assert_eq!(in_leaf, stage.level() != "tree", "{own}");
        run.close_stdin();
        stage.wait_exit(&mut run);
        stage.expect_empty();
    }
}
