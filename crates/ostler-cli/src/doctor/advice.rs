//! Advice about processes that are in use: duplicate servers, zombies, and secrets on command lines.

use std::collections::{BTreeMap, BTreeSet};

use ostler_gateway::config::exposed_secrets;

use super::find::{Certainty, Find, FindId, FoundProcess, Kind, shown};
use super::hosts::{host_of, is_ostler};
use super::names::{is_wrapper, mcp_server};
use super::table::{Seen, Table};
use crate::render;

/// A server with a living client.
struct Running<'t> {
    server: String,
    /// Topmost wrapper or server below the client.
    root: &'t Seen,
    client: Option<&'t Seen>,
}

/// All advice about the table; `left` are the pids of leftovers.
pub(crate) fn advice(table: &Table, left: &BTreeSet<i32>) -> Vec<Find> {
    let running = running(table, left);
    let mut finds = duplicates(table, &running);
    finds.extend(zombies(table));
    finds.extend(secrets(table, left));
    finds
}

/// Servers of living clients, each once. Servers below ostler are left out: they are shared already.
fn running<'t>(table: &'t Table, left: &BTreeSet<i32>) -> Vec<Running<'t>> {
    let named =
        table.all().filter(|one| one.is_ours && !one.is_zombie && !left.contains(&one.pid()));
    let named = named.filter_map(|one| Some((one, mcp_server(&one.words)?)));
    let mut seen = BTreeSet::new();
    named
        .map(|(one, server)| (root_of(table, one), server))
        .filter(|(root, _)| seen.insert(root.pid()) && !table.ancestors(root).any(is_ostler))
        .map(|(root, server)| Running { server, root, client: table.get(root.parent) })
        .collect()
}

/// The topmost wrapper or server of the chain above a process.
fn root_of<'t>(table: &'t Table, from: &'t Seen) -> &'t Seen {
    let is_link =
        |one: &&Seen| one.is_ours && (is_wrapper(&one.words) || mcp_server(&one.words).is_some());
    table.ancestors(from).take_while(is_link).last().unwrap_or(from)
}

fn duplicates(table: &Table, running: &[Running]) -> Vec<Find> {
    let mut copies: BTreeMap<String, Vec<&Running>> = BTreeMap::new();
    for one in running {
        copies.entry(one.root.words.join("\0")).or_default().push(one);
    }
    let several = copies.into_iter().filter(|(_, copies)| copies.len() > 1);
    several.filter_map(|(command, copies)| duplicate(table, &command, &copies)).collect()
}

fn duplicate(table: &Table, command: &str, copies: &[&Running]) -> Option<Find> {
    let cost = |one: &Running| table.memory_of_tree(one.root.pid());
    let (all, largest) =
        (copies.iter().map(|one| cost(one)), copies.iter().map(|one| cost(one)).max()?);
    let saved = all.sum::<u64>().saturating_sub(largest);
    let first = copies.first()?;
    let line = |one: &&Running| {
        let client = one.client.map_or_else(
            || "process unknown".to_owned(),
            |client| {
                let name = host_of(client).map_or(client.name.as_str(), |host| host);
                format!("{name} ({})", client.pid())
            },
        );
        format!("process {} of {client}: {}", one.root.pid(), render::size(cost(one)))
    };
    let hosts: BTreeSet<&str> =
        copies.iter().filter_map(|one| table.ancestors(one.root).find_map(host_of)).collect();
    let count =
        format!("{} processes run the same command; one could serve them all", copies.len());
    Some(Find {
        id: FindId::of_command(command),
        kind: Kind::DuplicateServers,
        certainty: Certainty::Advice,
        server: first.server.clone(),
        command: shown(&first.root.words),
        host: (!hosts.is_empty()).then(|| hosts.into_iter().collect::<Vec<_>>().join(", ")),
        evidence: std::iter::once(count).chain(copies.iter().map(line)).collect(),
        age: copies.iter().map(|one| one.root.age).max().unwrap_or_default(),
        memory: saved,
        processes: copies.iter().map(|one| FoundProcess::from(one.root)).collect(),
        container: None,
        action: Some("ostler connect in place of the command, in each client".to_owned()),
    })
}

/// Ended processes below a living host or server that does not reap them.
fn zombies(table: &Table) -> Vec<Find> {
    let mut by_parent: BTreeMap<i32, Vec<&Seen>> = BTreeMap::new();
    for one in table.all().filter(|one| one.is_zombie) {
        by_parent.entry(one.parent).or_default().push(one);
    }
    by_parent
        .into_iter()
        .filter_map(|(parent, dead)| zombies_of(table.get(parent)?, &dead))
        .collect()
}

fn zombies_of(parent: &Seen, dead: &[&Seen]) -> Option<Find> {
    let (host, server) = (host_of(parent), mcp_server(&parent.words));
    if !parent.is_ours || (host.is_none() && server.is_none()) {
        return None;
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for one in dead {
        *names.entry(&one.name).or_default() += 1;
    }
    let names: Vec<String> = names.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let (pid, name) = (parent.pid(), &parent.name);
    Some(Find {
        id: FindId::of_zombies(parent.identity),
        kind: Kind::Zombies,
        certainty: Certainty::Advice,
        server: server.or(host.map(str::to_owned)).unwrap_or_default(),
        command: shown(&parent.words),
        host: host.map(str::to_owned),
        evidence: vec![
            format!("process {pid} ({name}) does not reap what has ended: {}", names.join(", ")),
            "each holds a process number until that process ends".to_owned(),
        ],
        age: dead.iter().map(|one| one.age).max().unwrap_or_default(),
        memory: 0,
        processes: dead.iter().map(|one| FoundProcess::from(*one)).collect(),
        container: None,
        action: Some(format!("restart process {pid}")),
    })
}

/// Servers with a secret on the command line, each chain of wrappers once.
fn secrets(table: &Table, left: &BTreeSet<i32>) -> Vec<Find> {
    let mut seen = BTreeSet::new();
    let named = table.all().filter(|one| one.is_ours && !one.is_zombie);
    let named = named.filter_map(|one| Some((root_of(table, one), mcp_server(&one.words)?)));
    named
        .filter(|(root, _)| seen.insert(root.pid()))
        .filter_map(|(root, server)| secret(table, root, server, left))
        .collect()
}

fn secret(table: &Table, root: &Seen, server: String, left: &BTreeSet<i32>) -> Option<Find> {
    let exposed = exposed_secrets(&root.words);
    if exposed.is_empty() {
        return None;
    }
    let pid = root.pid();
    let is_left = left.contains(&pid);
    let host = table.ancestors(root).find_map(host_of).filter(|_| !is_left);
    Some(Find {
        id: FindId::of_secret(root.identity),
        kind: Kind::SecretOnCommandLine,
        certainty: Certainty::Advice,
        server,
        command: shown(&root.words),
        host: host.map(str::to_owned),
        evidence: vec![
            format!("the command line of process {pid} has {}", exposed.join(", ")),
            format!("every user of this machine can read /proc/{pid}/cmdline"),
        ],
        age: root.age,
        memory: 0,
        processes: vec![FoundProcess::from(root)],
        container: None,
        action: Some("pass it in a variable (`env`), and replace the secret".to_owned()),
    })
}
