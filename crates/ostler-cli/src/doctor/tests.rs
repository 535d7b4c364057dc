//! Classification of planted process tables: every rule, with harmless processes that look most like orphans.

use std::collections::{BTreeMap, BTreeSet};

use ostler::Identity;

use super::advice::advice;
use super::find::{Find, Kind};
use super::hosts::NPX_SCRIPT;
use super::leftovers::leftovers;
use super::table::{Channel, Seen, Serving, Stream, Table};

const OWN: i32 = 999_999;
const NONE: [i32; 0] = [];
const SERVER: &str = "npx|-y|@modelcontextprotocol/server-everything";

/// A process in its parent's session whose stdin and stdout are pipes of a dead host.
fn process(pid: i32, parent: i32, line: &str) -> Seen {
    let words: Vec<String> = line.split('|').map(str::to_owned).collect();
    let name = words[0].rsplit('/').next().unwrap_or_default().to_owned();
    Seen {
        identity: Identity { pid, start: 1000 + u64::from(pid.cast_unsigned()) },
        parent,
        name,
        is_zombie: false,
        session: 50,
        words,
        is_ours: true,
        stdin: Stream::HungUp(Channel::Pipe),
        stdout: Stream::HungUp(Channel::Pipe),
        variables: BTreeMap::new(),
        serving: Serving::No,
        memory: 1000,
        age: 60_000,
    }
}

fn init() -> Seen {
    let mut init = process(1, 0, "/sbin/init");
    init.session = 1;
    init
}

fn held(by: &[i32]) -> Stream {
    Stream::Held(Channel::Socket, by.iter().copied().collect())
}

fn found(processes: Vec<Seen>) -> Vec<Find> {
    leftovers(&Table::new(processes.into_iter().chain([init()])), OWN)
}

fn roots(processes: Vec<Seen>) -> Vec<i32> {
    found(processes).iter().map(|find| find.processes[0].pid).collect()
}

/// Asserts that one change to an orphan makes it harmless.
fn assert_innocent(why: &str, change: impl Fn(&mut Seen)) {
    let mut orphan = process(100, 1, SERVER);
    assert_eq!(roots(vec![orphan.clone()]), [100]);
    change(&mut orphan);
    assert_eq!(roots(vec![orphan]), NONE, "{why}");
}

#[test]
fn a_server_that_no_client_can_reach_is_an_orphan() {
    let finds = found(vec![process(100, 1, SERVER)]);
    let find = &finds[0];
    assert_eq!((find.kind, find.memory, find.age), (Kind::OrphanedServer, 1000, 60_000));
    assert_eq!(find.server, "@modelcontextprotocol/server-everything");
    assert_eq!(
        find.evidence,
        [
            "its command line names the MCP server @modelcontextprotocol/server-everything",
            "its parent has ended: it was adopted by process 1 (init)",
            "no agent host is among its ancestors",
            "stdin is a pipe that no process writes to",
            "stdout is a pipe that no process reads from",
        ]
    );
    assert_eq!(find.action.as_deref(), Some(format!("ostler reap {} --yes", find.id).as_str()));
}

#[test]
fn a_server_that_may_still_be_used_is_not_a_finding() {
    assert_innocent("another user's", |one| one.is_ours = false);
    assert_innocent("a zombie", |one| one.is_zombie = true);
    assert_innocent("of another name", |one| one.words = vec!["node".into(), "server.js".into()]);
    assert_innocent("started with /dev/null", |one| one.stdin = Stream::Other);
    assert_innocent("writes to a file", |one| one.stdout = Stream::Other);
    assert_innocent("in a terminal", |one| one.stdin = Stream::Terminal);
    assert_innocent("a process holds stdin", |one| one.stdin = held(&[7]));
    assert_innocent("a process holds stdout", |one| one.stdout = held(&[7]));
    assert_innocent("an unseen process holds it", |one| one.stdin = held(&[]));
    assert_innocent("has a client on a socket", |one| one.serving = Serving::InUse);
    assert_innocent("ostler's own", |one| {
        one.variables.insert(ostler::INSTANCE_VARIABLE, "1".into());
    });
}

#[test]
fn a_server_below_a_possible_client_is_not_a_finding() {
    for parent in
        ["python3|agent.py", "bash", "tmux", "claude", "node|/x/@google/gemini-cli/dist/index.js"]
    {
        let table = vec![process(90, 1, parent), process(100, 90, SERVER)];
        assert_eq!(roots(table), NONE, "{parent}");
    }
    // The same with a wrapper between them.
    let table = vec![
        process(80, 1, "/usr/bin/codex"),
        process(90, 80, "sh|-c|npx x-mcp"),
        process(100, 90, SERVER),
    ];
    assert_eq!(roots(table), NONE);
}

#[test]
fn the_topmost_wrapper_is_the_root_and_its_tree_is_the_cost() {
    let mut browser = process(120, 110, "/opt/chrome");
    browser.session = 120;
    let table = vec![
        process(90, 1, "npm exec @playwright/mcp@latest"),
        process(100, 90, "sh|-c|playwright-mcp"),
        process(110, 100, "node|/x/node_modules/.bin/playwright-mcp"),
        browser,
    ];
    let finds = found(table);
    assert_eq!(finds.len(), 1);
    let pids: Vec<i32> = finds[0].processes.iter().map(|process| process.pid).collect();
    assert_eq!((pids, finds[0].memory), (vec![90, 100, 110, 120], 4000));
}

#[test]
fn a_process_below_a_stranger_of_another_session_was_adopted() {
    let mut manager = process(70, 1, "/usr/lib/session-manager");
    manager.session = 70;
    assert_eq!(roots(vec![manager.clone(), process(100, 70, SERVER)]), [100]);
    // A session leader may have been started by its parent.
    let mut leader = process(100, 70, SERVER);
    leader.session = 100;
    assert_eq!(roots(vec![manager, leader.clone()]), NONE);
    let mut user = process(70, 1, "/usr/lib/systemd/systemd|--user");
    user.session = 70;
    assert_eq!(roots(vec![user, leader]), [100]);
}

#[test]
fn l47_orphans_that_hold_only_each_others_pipes_are_all_orphans() {
    let with_stdin = |pid: i32, by: &[i32]| {
        let mut one = process(pid, 1, SERVER);
        one.stdin = held(by);
        one
    };
    assert_eq!(roots(vec![with_stdin(100, &[200]), process(200, 1, SERVER)]), [100, 200]);
    // A server that a living host can reach keeps all of them.
    let chain = vec![with_stdin(100, &[200]), with_stdin(200, &[300]), process(300, 7, "claude")];
    assert_eq!(roots(chain), NONE);
}

#[test]
fn a_find_never_contains_the_audit_itself_or_a_host() {
    assert_eq!(roots(vec![process(100, 1, SERVER), process(OWN, 100, "ostler|doctor")]), NONE);
    assert_eq!(roots(vec![process(100, 1, SERVER), process(110, 100, "claude")]), NONE);
    assert_eq!(roots(vec![process(100, 1, SERVER), process(110, 100, "ostler-guardian")]), NONE);
}

fn helper(pid: i32, parent: i32) -> Seen {
    let mut helper = process(pid, parent, "/opt/chrome|--headless");
    (helper.session, helper.stdin, helper.stdout) = (pid, Stream::Other, Stream::Other);
    helper.variables.insert(NPX_SCRIPT, "\"playwright-mcp\"".into());
    helper
}

#[test]
fn a_helper_is_recognised_by_the_variables_of_npx() {
    let finds = found(vec![helper(100, 1)]);
    assert_eq!((finds[0].kind, finds[0].server.as_str()), (Kind::OrphanedHelper, "playwright-mcp"));
    let innocent = |change: &dyn Fn(&mut Seen)| {
        let mut one = helper(100, 1);
        change(&mut one);
        assert_eq!(roots(vec![one]), NONE);
    };
    innocent(&|one| one.variables.clear());
    innocent(&|one| drop(one.variables.insert(NPX_SCRIPT, "vite".into())));
    innocent(&|one| one.serving = Serving::Idle);
    innocent(&|one| one.stdout = Stream::Terminal);
    innocent(&|one| one.is_ours = false);
    innocent(&|one| one.parent = 0);
}

#[test]
fn a_helper_of_a_running_server_is_not_a_finding() {
    let mut server = process(90, 7, "node|/x/node_modules/.bin/playwright-mcp");
    server.variables.insert(NPX_SCRIPT, "\"playwright-mcp\"".into());
    (server.stdin, server.age) = (held(&[7]), 120_000);
    let host = process(7, 1, "claude");
    assert_eq!(roots(vec![host.clone(), server.clone(), helper(100, 1)]), NONE);
    // A server that is younger than the helper can't have started it.
    server.age = 10;
    assert_eq!(roots(vec![host, server, helper(100, 1)]), [100]);
}

#[test]
fn copies_of_one_server_are_counted_and_shared_ones_are_not() {
    let copy = |pid: i32, parent: i32, memory: u64| {
        let mut one = process(pid, parent, SERVER);
        (one.stdin, one.memory) = (held(&[parent]), memory);
        one
    };
    let table = vec![
        process(10, 1, "claude"),
        process(20, 1, "codex"),
        process(30, 1, "ostler-guardian"),
        copy(100, 10, 4000),
        copy(110, 10, 5000),
        copy(200, 20, 3000),
        copy(300, 30, 9000),
        process(210, 20, "uvx|mcp-server-time"),
    ];
    let finds = advice(&Table::new(table), &BTreeSet::new());
    assert_eq!(finds.len(), 1, "{finds:?}");
    assert_eq!((finds[0].kind, finds[0].memory), (Kind::DuplicateServers, 7000));
    assert_eq!(finds[0].host.as_deref(), Some("Claude Code, Codex"));
    assert_eq!(finds[0].evidence[1], "process 100 of Claude Code (10): 4.0 kB");
}

#[test]
fn zombies_of_hosts_are_counted_and_others_are_not() {
    let zombie = |pid: i32, parent: i32, name: &str| {
        let mut one = process(pid, parent, name);
        (one.is_zombie, one.words) = (true, Vec::new());
        one
    };
    let table = vec![
        process(10, 1, "claude"),
        process(20, 1, "python3|agent.py"),
        zombie(100, 10, "npm"),
        zombie(101, 10, "npm"),
        zombie(102, 10, "node"),
        zombie(200, 20, "npm"),
    ];
    let finds = advice(&Table::new(table), &BTreeSet::new());
    assert_eq!(finds.len(), 1, "{finds:?}");
    assert_eq!(finds[0].kind, Kind::Zombies);
    let expected = "process 10 (claude) does not reap what has ended: 1 node, 2 npm";
    assert_eq!(finds[0].evidence[0], expected);
}

#[test]
fn a_secret_is_named_and_not_shown() {
    let table = vec![process(10, 1, "claude"), process(100, 10, "x-mcp|--api-key|s3cret")];
    let finds = advice(&Table::new(table), &BTreeSet::new());
    assert_eq!(finds.len(), 1, "{finds:?}");
    assert_eq!(finds[0].kind, Kind::SecretOnCommandLine);
    assert_eq!(finds[0].evidence[0], "the command line of process 100 has --api-key …");
    assert!(!format!("{finds:?}").contains("s3cret"));
}
