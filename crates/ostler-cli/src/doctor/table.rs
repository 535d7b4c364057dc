//! The process table as a value: everything that the classification looks at, and nothing of how it was read.

use std::collections::{BTreeMap, BTreeSet};

use ostler::Identity;

/// One process as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) identity: Identity,
    pub(crate) parent: i32,
    pub(crate) name: String,
    pub(crate) is_zombie: bool,
    /// The number of its session, which children inherit.
    pub(crate) session: i32,
    /// Its command line, secrets included.
    pub(crate) words: Vec<String>,
    /// Whether it runs as this user and in this PID namespace. Nothing else is ever judged.
    pub(crate) is_ours: bool,
    pub(crate) stdin: Stream,
    pub(crate) stdout: Stream,
    /// The variables of [`MARKS`](super::hosts::MARKS) in its environment.
    pub(crate) variables: BTreeMap<&'static str, String>,
    pub(crate) serving: Serving,
    /// Its proportional set size in bytes: shared pages count once over all processes.
    pub(crate) memory: u64,
    /// Milliseconds since its start.
    pub(crate) age: u64,
}

/// A standard stream of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// It is closed, a file or a device, or it can't be looked at.
    Other,
    Terminal,
    /// A pipe without another end, or a socket whose peer is closed.
    HungUp(Channel),
    /// These processes hold the other end, as far as this user can see.
    Held(Channel, BTreeSet<i32>),
}

/// What connects a process with its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Pipe,
    Socket,
}

/// Whether a process listens for clients of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    No,
    /// It listens, and nothing is connected.
    Idle,
    /// A client is connected.
    InUse,
}

/// All processes that could be seen at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<i32, Seen>);

impl Table {
    pub(crate) fn new(processes: impl IntoIterator<Item = Seen>) -> Self {
        Self(processes.into_iter().map(|one| (one.pid(), one)).collect())
    }

    pub(crate) fn get(&self, pid: i32) -> Option<&Seen> {
        self.0.get(&pid)
    }

    pub(crate) fn set_memory(&mut self, pid: i32, bytes: u64) {
        if let Some(process) = self.0.get_mut(&pid) {
            process.memory = bytes;
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Seen> {
        self.0.values()
    }

    /// The parent of a process, the parent of that, and so on.
    pub(crate) fn ancestors<'t>(&'t self, of: &'t Seen) -> impl Iterator<Item = &'t Seen> {
        let mut seen = BTreeSet::from([of.pid()]);
        let parent = |one: &Seen| self.get(one.parent);
        std::iter::successors(parent(of), move |above| parent(above))
            .take_while(move |one| seen.insert(one.pid()))
    }

    /// A process and everything below it, zombies left out; parents before their children.
    pub(crate) fn tree(&self, root: i32) -> Vec<&Seen> {
        let mut tree: Vec<&Seen> = self.get(root).into_iter().collect();
        let mut next = 0;
        while let Some(parent) = tree.get(next).map(|one| one.pid()) {
            next += 1;
            let is_new = |one: &&Seen| one.parent == parent && !one.is_zombie;
            let children: Vec<&Seen> = self.all().filter(is_new).collect();
            tree.extend(children.into_iter().filter(|child| child.pid() != root));
        }
        tree
    }

    /// The memory of a process and everything below it.
    pub(crate) fn memory_of_tree(&self, root: i32) -> u64 {
        self.tree(root).iter().map(|one| one.memory).sum()
    }
}

impl Seen {
    pub(crate) fn pid(&self) -> i32 {
        self.identity.pid
    }
}

impl Stream {
    /// Whether it leads to a client, or once did.
    pub(crate) fn is_channel(&self) -> bool {
        matches!(self, Self::HungUp(_) | Self::Held(..))
    }

    /// The processes at the other end; `None` if it can't be told who is there.
    pub(crate) fn peers(&self) -> Option<&BTreeSet<i32>> {
        const NONE: &BTreeSet<i32> = &BTreeSet::new();
        match self {
            Self::HungUp(_) | Self::Other => Some(NONE),
            // Another user may hold it.
            Self::Held(_, peers) => Some(peers).filter(|peers| !peers.is_empty()),
            Self::Terminal => None,
        }
    }
}
