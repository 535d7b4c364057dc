//! Finds processes that other hosts left behind: a pure function of the process table.
//!
//! A process is an *orphaned server* if all of this holds:
//! - it runs as this user, in this PID namespace, and carries no mark of ostler;
//! - its command line names an MCP server ([`names`](super::names));
//! - every process between it and its adoptive parent is a wrapper or a server too, so no unknown program may be its
//!   client;
//! - the topmost of them was adopted: by process 1, by systemd of the user, or by a process in another session, which
//!   can't have started it;
//! - neither an agent host nor ostler is among its ancestors;
//! - stdin and stdout of the topmost one are pipes or sockets that no process holds at the other end, or only processes
//!   that are left over themselves: a stdio server that no client can speak to any more;
//! - no client is connected to a socket that it or a process below it listens on.
//!
//! A systemd service, a server under `nohup`, an HTTP daemon and a server in a terminal have another kind of stdin, and
//! a living host holds the other ends of its pipes. An *orphaned helper* has no such name and stdin: its environment
//! shows that npx started it for an MCP server, it was adopted, it listens on no socket, and no server of the same
//! command that is older than the helper is alive.

use std::collections::BTreeSet;

use super::find::{Certainty, Find, FindId, FoundProcess, Kind, shown};
use super::hosts::{NPX_SCRIPT, host_of, is_ostler, marked_by};
use super::names::{is_wrapper, mcp_server};
use super::table::{Channel, Seen, Serving, Stream, Table};

/// The root of a process tree that may be left over.
struct Candidate<'t> {
    root: &'t Seen,
    /// Name of the server.
    server: String,
    adopter: &'t Seen,
}

/// All leftovers of other hosts in the table.
pub(crate) fn leftovers(table: &Table, own_pid: i32) -> Vec<Find> {
    let servers = orphaned_servers(table, own_pid);
    let gone = members(table, &servers);
    let helpers = helpers(table, own_pid, &gone);
    let servers = servers.iter().map(|one| find(table, one, Kind::OrphanedServer));
    servers.chain(helpers.iter().map(|one| find(table, one, Kind::OrphanedHelper))).collect()
}

fn orphaned_servers(table: &Table, own_pid: i32) -> Vec<Candidate<'_>> {
    let mut seen = BTreeSet::new();
    let named = table.all().filter_map(|one| Some((one, mcp_server(&one.words)?)));
    let mut candidates: Vec<Candidate> = named
        .filter(|(one, _)| is_judged(one))
        .filter_map(|(one, server)| candidate(table, one, server))
        .filter(|one| one.root.stdin.is_channel() && one.root.stdout.is_channel())
        .filter(|one| may_end(table, one.root, own_pid) && seen.insert(one.root.pid()))
        .collect();
    // A server with a living client also keeps those servers whose other ends it holds, and so on.
    loop {
        let gone = members(table, &candidates);
        let before = candidates.len();
        candidates.retain(|one| {
            [&one.root.stdin, &one.root.stdout].into_iter().all(|end| is_unheld(end, &gone))
        });
        if candidates.len() == before {
            return candidates;
        }
    }
}

fn helpers<'t>(table: &'t Table, own_pid: i32, gone: &BTreeSet<i32>) -> Vec<Candidate<'t>> {
    let started = |one: &'t Seen| {
        let script = one.variables.get(NPX_SCRIPT)?;
        Some((one, script, server_of_script(script)?))
    };
    table
        .all()
        .filter(|one| {
            is_judged(one) && !gone.contains(&one.pid()) && mcp_server(&one.words).is_none()
        })
        .filter_map(started)
        .filter(|(one, script, _)| !has_living_server(table, one, script, gone))
        .filter_map(|(root, _, server)| {
            Some(Candidate { root, server, adopter: adopter(table, root)? })
        })
        .filter(|one| may_end(table, one.root, own_pid))
        .filter(|one| table.tree(one.root.pid()).iter().all(|below| below.serving == Serving::No))
        .filter(|one| {
            [&one.root.stdin, &one.root.stdout].into_iter().all(|end| is_unheld(end, gone))
        })
        .collect()
}

fn is_judged(one: &Seen) -> bool {
    one.is_ours && !one.is_zombie && !one.variables.contains_key(ostler::INSTANCE_VARIABLE)
}

/// The topmost process above `from`, if it was adopted and the chain consists only of wrappers and servers.
fn candidate<'t>(table: &'t Table, from: &'t Seen, server: String) -> Option<Candidate<'t>> {
    let mut root = from;
    loop {
        if let Some(adopter) = adopter(table, root) {
            return Some(Candidate { root, server, adopter });
        }
        let parent = table.get(root.parent)?;
        let is_link = is_wrapper(&parent.words) || mcp_server(&parent.words).is_some();
        if !parent.is_ours || !is_link || parent.pid() == root.pid() {
            return None;
        }
        root = parent;
    }
}

/// The parent of a process, if the parent adopted it and did not start it.
fn adopter<'t>(table: &'t Table, of: &Seen) -> Option<&'t Seen> {
    let parent = table.get(of.parent)?;
    let is_init = parent.pid() == 1
        || (parent.name == "systemd" && parent.words.iter().any(|word| word == "--user"));
    // A child starts in its parent's session, and leaves it only by becoming the leader of its own.
    let is_from_elsewhere = of.session != of.pid() && of.session != parent.session;
    (is_init || is_from_elsewhere).then_some(parent)
}

/// Whether neither ancestors nor descendants show that the process is needed.
fn may_end(table: &Table, root: &Seen, own_pid: i32) -> bool {
    let is_hosted = table.ancestors(root).any(|above| host_of(above).is_some() || is_ostler(above));
    let tree = table.tree(root.pid());
    let is_needed = tree.iter().any(|one| {
        one.pid() == own_pid
            || one.serving == Serving::InUse
            || host_of(one).is_some()
            || is_ostler(one)
    });
    !is_hosted && !is_needed
}

fn members(table: &Table, candidates: &[Candidate]) -> BTreeSet<i32> {
    let trees = candidates.iter().flat_map(|one| table.tree(one.root.pid()));
    trees.map(Seen::pid).collect()
}

fn is_unheld(end: &Stream, gone: &BTreeSet<i32>) -> bool {
    end.peers().is_some_and(|peers| peers.iter().all(|peer| gone.contains(peer)))
}

/// Name of the server that npx runs with this command.
fn server_of_script(script: &str) -> Option<String> {
    let words = script.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned());
    mcp_server(&words.collect::<Vec<_>>())
}

/// Whether an older server of the same command is alive, which the helper may belong to.
fn has_living_server(table: &Table, helper: &Seen, script: &str, gone: &BTreeSet<i32>) -> bool {
    table.all().any(|one| {
        let is_same = one.variables.get(NPX_SCRIPT).is_some_and(|other| other == script);
        let is_other = one.pid() != helper.pid() && one.age >= helper.age && !one.is_zombie;
        is_same && is_other && !gone.contains(&one.pid()) && mcp_server(&one.words).is_some()
    })
}

fn find(table: &Table, candidate: &Candidate, kind: Kind) -> Find {
    let Candidate { root, server, adopter } = candidate;
    let tree = table.tree(root.pid());
    let id = FindId::of_process(root.identity);
    let mark = tree.iter().find_map(|one| marked_by(one));
    Find {
        action: Some(format!("ostler reap {id} --yes")),
        id,
        kind,
        certainty: Certainty::Likely,
        server: server.clone(),
        command: shown(&root.words),
        host: mark.map(|(host, _)| host.to_owned()),
        evidence: evidence(candidate, kind, adopter, mark.map(|(_, variable)| variable)),
        age: root.age,
        memory: table.memory_of_tree(root.pid()),
        processes: tree.into_iter().map(FoundProcess::from).collect(),
        container: None,
    }
}

fn evidence(of: &Candidate, kind: Kind, adopter: &Seen, mark: Option<&str>) -> Vec<String> {
    let Candidate { root, server, .. } = of;
    let mut evidence = Vec::new();
    match kind {
        Kind::OrphanedHelper => {
            evidence.push(format!("its environment says that npx started it for {server}"));
            evidence.push("no server of that command which is older than it runs".to_owned());
        }
        _ => evidence.push(format!("its command line names the MCP server {server}")),
    }
    let adoption = if adopter.pid() == 1 { "" } else { ", which did not start it" };
    let (pid, name) = (adopter.pid(), &adopter.name);
    evidence
        .push(format!("its parent has ended: it was adopted by process {pid} ({name}){adoption}"));
    evidence.push("no agent host is among its ancestors".to_owned());
    evidence.extend(about_end("stdin", &root.stdin, "writes to"));
    evidence.extend(about_end("stdout", &root.stdout, "reads from"));
    if root.serving == Serving::Idle {
        evidence.push("it listens for connections, and none is open".to_owned());
    }
    evidence.extend(mark.map(|variable| format!("its environment has {variable}")));
    evidence
}

fn about_end(what: &str, end: &Stream, verb: &str) -> Option<String> {
    let channel = |channel: &Channel| match channel {
        Channel::Pipe => "a pipe",
        Channel::Socket => "a socket",
    };
    match end {
        Stream::HungUp(of) => Some(format!("{what} is {} that no process {verb}", channel(of))),
        Stream::Held(of, _) => {
            Some(format!("{what} is {} that only other leftovers hold", channel(of)))
        }
        Stream::Other | Stream::Terminal => None,
    }
}
