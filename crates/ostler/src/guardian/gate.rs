//! The guardian's part of a server's Doors: their sockets, and a porter once somebody has knocked.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use super::estate::Estate;
use crate::level::Level;
use crate::notes::{is_podman_noted, make_podman_note, remove_unused_podman_note};
use crate::poll::readable;
use crate::roles::PORTER;
use crate::shelf::Shelf;
use crate::wire::porter::{Order, Report, Service};
use crate::wire::{Conn, Received};

/// Before a porter is started again that could not be.
const SUMMON_RETRY: Duration = Duration::from_secs(1);
/// For a porter to take an order, and to leave when it is told to.
const PORTER_LIMIT: Duration = Duration::from_secs(5);

/// What could not be made, and why.
pub(super) struct NoGate(pub(super) PathBuf, pub(super) io::Error);

/// Whether an engine may have anything of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Unused,
    Used,
    /// It has nothing, and nobody is served any more.
    Cleared,
}

#[derive(Debug)]
pub(super) struct Gate {
    service: Service,
    /// In the order of the ways.
    listeners: Vec<UnixListener>,
    /// The line to whoever serves it.
    porter: Option<Conn>,
    passage: Passage,
    /// Everything has to be removed, with this grace for containers. Whoever comes to serve is told.
    clearing: Option<Duration>,
    /// When that was first asked for, in seconds since 1970.
    since: i64,
    /// No process of the server is left.
    is_emptied: bool,
    /// When the next porter may be started.
    retry_at: Option<Instant>,
}

impl Gate {
    /// Makes the sockets, in a directory that only this user can enter.
    pub(super) fn open(service: Service) -> Result<Self, NoGate> {
        let mut gate = Self {
            service,
            listeners: Vec::new(),
            porter: None,
            passage: Passage::Unused,
            clearing: None,
            since: 0,
            is_emptied: false,
            retry_at: None,
        };
        gate.listen().inspect_err(|_| gate.demolish())?;
        Ok(gate)
    }

    fn listen(&mut self) -> Result<(), NoGate> {
        for way in &self.service.ways.engines {
            let listener =
                listen(&way.socket).map_err(|error| NoGate(way.socket.clone(), error))?;
            self.listeners.push(listener);
        }
        let Service { podman, book, labels, .. } = &self.service;
        // The server sees the directory no more, only the note.
        if podman.as_ref().is_some_and(|podman| podman.podman.level() == Level::Strict) {
            make_podman_note(book, labels.instance).map_err(|error| NoGate(book.clone(), error))?;
        }
        Ok(())
    }

    /// What tells that there is something to do here.
    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        match &self.porter {
            Some(porter) => vec![PollFd::new(porter, PollFlags::IN)],
            None if self.passage == Passage::Cleared || self.retry_at.is_some() => Vec::new(),
            None => self.listeners.iter().map(|door| PollFd::new(door, PollFlags::IN)).collect(),
        }
    }

    /// When there will be something to do although nothing happens.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether an engine has nothing of the server, of which no process is left. Then nobody is served
    /// any more: who has knocked since the last look is dead, and its request must not be passed on
    /// when the proof has been given.
    pub(super) fn shut_if_clear(&mut self) -> bool {
        if self.passage == Passage::Unused {
            self.passage = Passage::Cleared;
        }
        self.passage == Passage::Cleared
    }

    /// Lets nothing be created or started any more, and has everything removed. Asked for again, it is
    /// done in no less of a hurry.
    pub(super) fn clear(&mut self, grace: Duration) {
        if self.clearing.is_none() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.since = i64::try_from(since.as_secs()).unwrap_or_default();
        }
        if self.clearing.is_none_or(|before| grace < before) {
            self.clearing = Some(grace);
            self.order(&Order::Clear { grace });
        }
    }

    /// No process of the server is left, so that nothing more is created without an engine's help.
    pub(super) fn emptied(&mut self) {
        self.is_emptied = true;
        let Service { labels, book, .. } = &self.service;
        if self.passage == Passage::Unused && is_podman_noted(book, labels.instance) {
            self.passage = Passage::Used;
            // Nobody has knocked, so that nothing else would wake us.
            self.retry_at = Some(Instant::now());
        }
        self.order(&Order::Emptied { since: self.since });
    }

    /// Sees to it that somebody serves, if anybody has to, and hears what there is to say.
    pub(super) fn attend(&mut self, estate: &mut Estate, now: Instant) -> Vec<Report> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        let reports = self.hear();
        if self.porter.is_none()
            && estate.porter().is_none()
            && self.retry_at.is_none()
            && self.is_needed()
        {
            match self.summon() {
                Ok(porter) => estate.employ(porter),
                Err(_) => self.retry_at = Some(now + SUMMON_RETRY),
            }
        }
        reports
    }

    fn is_needed(&self) -> bool {
        let is_knocked = |door| readable(door, Duration::ZERO).unwrap_or(false);
        let is_knocked_at = || self.listeners.iter().any(is_knocked);
        match self.passage {
            Passage::Used => self.clearing.is_some() || is_knocked_at(),
            Passage::Unused => is_knocked_at(),
            Passage::Cleared => false,
        }
    }

    fn hear(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Some(porter) = &mut self.porter {
            match porter.receive() {
                Ok(Received::Message(report)) => {
                    if matches!(report, Report::Cleared) {
                        self.passage = Passage::Cleared;
                    }
                    reports.push(report);
                }
                Ok(Received::NothingYet) => break,
                // It was killed; another one takes its place if there is anything to do.
                Ok(Received::Closed) | Err(_) => self.porter = None,
            }
        }
        reports
    }

    /// Starts a porter and tells it all that it has to know.
    fn summon(&mut self) -> io::Result<Pid> {
        let (conn, theirs) = Conn::pair()?;
        set_socket_timeout(&conn, Timeout::Send, Some(PORTER_LIMIT))?;
        let labels = &self.service.labels;
        let porter = Command::new("/proc/self/exe")
            .arg0(PORTER)
            .args([labels.instance.to_string(), labels.server.clone()])
            .env_clear()
            .envs(self.service.surroundings.iter().map(|(name, value)| (name, value)))
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on it can have let something through.
        self.passage = Passage::Used;
        let serve = Order::Serve(Box::new(self.service.clone()));
        // One that can't be told has died, which shows as the end of the socket.
        let listeners: Vec<BorrowedFd<'_>> = self.listeners.iter().map(AsFd::as_fd).collect();
        let _ = conn.send(&serve, &listeners);
        self.porter = Some(conn);
        if let Some(grace) = self.clearing {
            self.order(&Order::Clear { grace });
        }
        if self.is_emptied {
            self.order(&Order::Emptied { since: self.since });
        }
        Ok(Pid::from_child(&porter))
    }

    fn order(&self, order: &Order) {
        if let Some(porter) = &self.porter {
            let _ = porter.send(order, &[]);
        }
    }

    /// Lets the porter go, waits for it no longer than that should take, and removes the sockets.
    pub(super) fn leave(mut self, estate: &Estate) {
        self.order(&Order::Dismiss);
        self.porter = None;
        if let Some(pid) = estate.porter() {
            let handle = pidfd_open(pid, PidfdFlags::empty());
            if handle.is_ok_and(|handle| readable(&handle, PORTER_LIMIT).unwrap_or(false)) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        self.demolish();
    }

    /// Removes the sockets, and what else was made. What can't be removed is found by the next sweep.
    pub(super) fn demolish(&self) {
        let Service { ways, labels, book, .. } = &self.service;
        for way in &ways.engines {
            let _ = fs::remove_file(&way.socket);
        }
        if let Some(place) = &ways.shelf {
            Shelf::at(place).clear(labels.instance);
            remove_unused_podman_note(book, labels.instance);
        }
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}
