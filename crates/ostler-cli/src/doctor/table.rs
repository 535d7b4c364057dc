//! The process table as a value: all inputs of the classification, independent of how they were read.

use std::collections::{BTreeMap, BTreeSet};

use ostler::Identity;

/// A process at the time of the scan.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) identity: Identity,
    pub(crate) parent: i32,
    pub(crate) name: String,
    pub(crate) is_zombie: bool,
    /// Session id, which children inherit.
    pub(crate) session: i32,
    /// Command line, including secrets.
    pub(crate) words: Vec<String>,
    /// Whether the process runs as this user and in this PID namespace. Only such processes are judged.
    pub(crate) is_ours: bool,
    pub(crate) stdin: Stream,
    pub(crate) stdout: Stream,
    /// Values of the variables in [`MARKS`](super::hosts::MARKS) and a few others in its environment.
    pub(crate) variables: BTreeMap<&'static str, String>,
    pub(crate) serving: Serving,
    /// Proportional set size in bytes: each process is charged its share of shared pages.
    pub(crate) memory: u64,
    /// Age in milliseconds.
    pub(crate) age: u64,
}

/// A standard stream of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Closed, a file, a device, or unreadable.
    Other,
    Terminal,
    /// A pipe without another end, or a socket whose peer is closed.
    HungUp(Channel),
    /// Held at the other end by these processes, as far as this user can see.
    Held(Channel, BTreeSet<i32>),
}

/// Channel between a process and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Pipe,
    Socket,
}

/// Whether a process serves clients on sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serving {
    No,
    /// The process listens, and no client is connected.
    Idle,
    /// A client is connected.
    InUse,
}

/// All visible processes at one moment.
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

    /// Parent, grandparent and so on.
    pub(crate) fn ancestors<'t>(&'t self, of: &'t Seen) -> impl Iterator<Item = &'t Seen> {
        let mut seen = BTreeSet::from([of.pid()]);
        let parent = |one: &Seen| self.get(one.parent);
        std::iter::successors(parent(of), move |above| parent(above))
            .take_while(move |one| seen.insert(one.pid()))
    }

    /// A process and its descendants without zombies, parents before children.
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

    /// Memory of a process and its descendants, in bytes.
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
    /// Whether the stream is or was connected to a client.
    pub(crate) fn is_channel(&self) -> bool {
        matches!(self, Self::HungUp(_) | Self::Held(..))
    }

    /// Processes at the other end; `None` if they are unknown.
    pub(crate) fn peers(&self) -> Option<&BTreeSet<i32>> {
        const NONE: &BTreeSet<i32> = &BTreeSet::new();
        match self {
            Self::HungUp(_) | Self::Other => Some(NONE),
            // An open end without a visible holder may belong to another user.
            Self::Held(_, peers) => Some(peers).filter(|peers| !peers.is_empty()),
            Self::Terminal => None,
        }
    }
}
