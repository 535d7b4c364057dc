//! Snapshot of all instances: the ledgers of all owners, combined with the process table.
//!
//! A [`View`] is the same for all backends. What only one backend knows is in its lines and fields, which commands pass
//! on: for processes the pids of the server, its guardian and its descendants.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::json;

use crate::evidence::Fields;
#[cfg(feature = "keeper")]
use crate::evidence::{Part, Role};
use crate::guardians::{Claimants, is_porter};
#[cfg(feature = "keeper")]
use crate::id::INSTANCE_VARIABLE;
use crate::id::InstanceId;
use crate::ledger::{Book, End, Entry, OwnerRecord, PROCESS};
use crate::level::Level;
use crate::outcome::Residue;
use crate::places::Places;
use crate::process::{is_owed, leaf_of};
use crate::proctable::{Identity, Process, boot_id};
use crate::remains;
use crate::sweep::books;
use crate::whereabouts::Whereabouts;

/// An instance for display: its ledger entry and what its backend adds.
#[derive(Clone, Debug, Serialize)]
pub struct View {
    /// Its id.
    pub instance: InstanceId,
    /// Display name of the server.
    pub name: String,
    /// The program that was started.
    pub program: String,
    /// Name of its backend.
    pub backend: String,
    /// Its address, if it does not run on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Its lifecycle state.
    pub state: State,
    /// Its containment level; `None` until it has started.
    pub containment: Option<Level>,
    /// What people call the server where it runs: its pid, or its address.
    #[serde(skip)]
    pub handle: Option<String>,
    /// What people call its guardian, if that lives.
    #[serde(skip)]
    pub guardian: Option<String>,
    /// All that it causes, the server included, the guardian not; parents before their children.
    #[serde(skip)]
    pub tree: Vec<Branch>,
    /// Resident memory of its processes, in bytes.
    pub rss: u64,
    /// What its backend adds for programs.
    #[serde(flatten)]
    pub fields: Fields,
    /// When it was started, in milliseconds since 1970.
    pub started_at: u64,
    /// The owner that started it.
    pub owner: OwnerRecord,
    /// Its entry in the ledger, with which its backend can be asked about it.
    #[serde(skip)]
    pub entry: Entry,
}

/// Something that an instance causes, in its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// How many others are above it.
    pub depth: usize,
    /// What it is, for people.
    pub text: String,
}

/// Lifecycle state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its intent is on record; its server has not started yet.
    Starting,
    /// Its server runs.
    Running,
    /// Its server has exited or its owner is dead; its guardian is ending what is left.
    Ending,
    /// Processes survived KILL and its guardian keeps trying, or its container engine may still have
    /// something of it.
    Unverified,
    /// Its owner and guardian are dead; the next sweep will end it.
    Orphaned,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Unverified => "unverified",
            Self::Orphaned => "orphaned",
        })
    }
}

/// All unsettled instances of the process backend, oldest first. Ends nothing.
/// [`Backends::snapshot`](crate::backend::Backends::snapshot) covers all backends.
pub fn snapshot(places: &Places) -> Vec<View> {
    let mut views =
        views(&books(places).iter().map(|book| book.open_of(PROCESS)).collect::<Vec<_>>());
    views.sort_by_key(|view| view.started_at);
    views
}

/// Describes the entries of these ledgers, which must all belong to the process backend.
pub(crate) fn views(books: &[Book]) -> Vec<View> {
    let boot = boot_id().unwrap_or_default();
    let (ours, before): (Vec<&Book>, Vec<&Book>) =
        books.iter().partition(|book| book.owner.boot == boot);
    let open: Vec<(InstanceId, &Entry, &Book)> = ours.into_iter().flat_map(open_in).collect();
    let ids: Vec<InstanceId> = open.iter().map(|(id, ..)| *id).collect();
    let claimants = Claimants::of(open.iter().map(|(_, entry, _)| *entry));
    let mut marked = remains::marked(&ids);
    let of_this_boot = open.into_iter().map(|(id, entry, book)| {
        let marked = marked.remove(&id).unwrap_or_default();
        let guardian = claimants.guardian(entry);
        let processes = processes_of(entry, guardian.as_ref(), marked);
        let state = state_of(entry, book.owner.process.is_alive(), guardian.as_ref());
        View::of(entry, &book.owner, state).with(guardian.as_ref(), &processes)
    });
    // No process of another boot is alive, and its pids may be reused. Its containers may still exist.
    let noted =
        before.into_iter().flat_map(open_in).filter(|(id, entry, book)| is_owed(book, *id, entry));
    let of_another = noted.map(|(_, entry, book)| {
        View::of(entry, &book.owner, state_of(entry, false, None)).with(None, &[])
    });
    of_this_boot.chain(of_another).collect()
}

fn open_in(book: &Book) -> impl Iterator<Item = (InstanceId, &Entry, &Book)> {
    book.open_entries().map(move |(id, entry)| (id, entry, book))
}

impl View {
    /// A view of what the ledger says. The backend adds what it finds.
    pub fn of(entry: &Entry, owner: &OwnerRecord, state: State) -> Self {
        let start = entry.start.as_ref();
        let whereabouts = start.map(|start| &start.whereabouts);
        Self {
            instance: entry.intent.instance,
            name: entry.intent.name.clone(),
            program: entry.intent.program.clone(),
            backend: entry.intent.backend.clone(),
            place: whereabouts.and_then(Whereabouts::place).map(ToOwned::to_owned),
            state,
            containment: start.and_then(|start| start.level),
            handle: whereabouts.and_then(Whereabouts::place).map(ToOwned::to_owned),
            guardian: None,
            tree: Vec::new(),
            rss: 0,
            fields: Fields::new(),
            started_at: entry.intent.at,
            owner: owner.clone(),
            entry: entry.clone(),
        }
    }

    /// The same with what the process table says of it.
    fn with(self, guardian: Option<&Process>, processes: &[Process]) -> Self {
        let pid = server_of(&self.entry).map(|server| server.pid);
        let fields =
            [("pid", json!(pid)), ("guardian", json!(guardian)), ("processes", json!(processes))];
        Self {
            handle: pid.map(|pid| pid.to_string()),
            guardian: guardian.map(|guardian| guardian.pid.to_string()),
            tree: tree_of(processes),
            rss: processes.iter().map(Process::resident_memory).sum(),
            fields: fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
            ..self
        }
    }
}

fn tree_of(processes: &[Process]) -> Vec<Branch> {
    let mut tree = Vec::new();
    let known: BTreeSet<i32> = processes.iter().map(|process| process.pid).collect();
    for top in processes.iter().filter(|process| !known.contains(&process.parent())) {
        grow(&mut tree, processes, top, 0);
    }
    tree
}

fn grow(tree: &mut Vec<Branch>, processes: &[Process], process: &Process, depth: usize) {
    let line = process.command_line();
    let line = if line.is_empty() { &process.name } else { &line };
    tree.push(Branch { depth, text: format!("{} {line}", process.pid) });
    for child in processes.iter().filter(|child| child.parent() == process.pid) {
        grow(tree, processes, child, depth + 1);
    }
}

/// What the process with this pid is to an instance of processes, if it is part of it.
#[cfg(feature = "keeper")]
pub(crate) fn part(entry: &Entry, pid: i32) -> Option<Part> {
    let process = Process::with_pid(pid)?;
    let guardian = Claimants::of(std::iter::once(entry)).guardian(entry);
    if guardian.as_ref().is_some_and(|guardian| guardian.identity() == process.identity()) {
        return Some(Part::process(&process, Role::Guardian));
    }
    let mark = process.variable(INSTANCE_VARIABLE);
    let is_marked = mark.is_some_and(|mark| mark == entry.intent.instance.to_string());
    let marked = is_marked.then(|| process.clone()).into_iter().collect();
    let processes = processes_of(entry, guardian.as_ref(), marked);
    let is_seen = processes.iter().any(|seen| seen.identity() == process.identity());
    let is_server = server_of(entry).is_some_and(|server| server.pid == pid);
    let role = if is_server { Role::Server } else { Role::Descendant };
    is_seen.then(|| Part::process(&process, role))
}

/// The server's own process, once it is on record.
fn server_of(entry: &Entry) -> Option<Identity> {
    entry.start.as_ref()?.whereabouts.server()
}

fn state_of(entry: &Entry, owner_lives: bool, guardian: Option<&Process>) -> State {
    match (owner_lives, guardian) {
        (_, Some(_)) if entry.end.is_some() => State::Unverified,
        _ if is_owed_by_engine(entry) => State::Unverified,
        (true, _) if entry.start.is_none() => State::Starting,
        (true, _) if has_exited(entry) => State::Ending,
        (true, _) => State::Running,
        (false, Some(_)) => State::Ending,
        (false, None) => State::Orphaned,
    }
}

/// Whether the server itself was started and has exited.
fn has_exited(entry: &Entry) -> bool {
    server_of(entry).is_some_and(|server| !server.is_alive())
}

/// Whether no process is left, but its container engine may still have something of it.
fn is_owed_by_engine(entry: &Entry) -> bool {
    matches!(entry.end, Some(End::Unverified(Residue::Engine(_))))
}

/// Its processes: below the guardian, in the leaf cgroup, or with the mark. None of these alone finds all.
fn processes_of(entry: &Entry, guardian: Option<&Process>, marked: Vec<Process>) -> Vec<Process> {
    // The porter below the guardian, and its children, are not processes of the server.
    let below = |guardian: &Process| {
        let is_porter = |process: &Process| is_porter(process, guardian, entry.intent.instance);
        Process::descendants_but(guardian.pid, is_porter)
    };
    let below = guardian.map(below).unwrap_or_default();
    let inside = leaf_of(entry).map(|leaf| leaf.pids()).unwrap_or_default();
    let inside = inside.into_iter().filter_map(Process::with_pid);
    let mut seen = BTreeSet::new();
    below
        .into_iter()
        .chain(inside)
        .chain(marked)
        .filter(|process| seen.insert(process.pid))
        .collect()
}
