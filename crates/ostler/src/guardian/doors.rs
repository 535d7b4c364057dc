//! The guardian's part of a server's Doors: their listening sockets, and the porter that serves them.
//!
//! The guardian creates the sockets before the server starts and only polls them. The first connection makes it start
//! a porter, to which it passes the sockets; if that porter dies it starts another one, as long as there is work. The
//! guardian polls either the porter's control socket or the listening sockets, never both.
//! [`Usage`] records whether an engine may hold something of the server. The guardian's proof has to wait until
//! it is `Cleared`.

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

use super::tree::ProcessTree;
use crate::level::Level;
use crate::notes::{is_podman_noted, make_podman_note, remove_unused_podman_note};
use crate::poll::readable;
use crate::roles::PORTER;
use crate::shelf::Shelf;
use crate::wire::porter::{PorterConfig, PorterOrder, PorterReport};
use crate::wire::{Conn, Received};

/// Delay after a failed start of a porter.
const PORTER_RETRY: Duration = Duration::from_secs(1);
/// Time limit for a porter to accept an order, and to exit after `Dismiss`.
const PORTER_LIMIT: Duration = Duration::from_secs(5);

/// The path that could not be created, and why.
pub(super) struct DoorsError(pub(super) PathBuf, pub(super) io::Error);

/// Whether an engine or podman may hold anything of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Unused,
    Used,
    /// They hold nothing, and the Doors accept no connection any more.
    Cleared,
}

#[derive(Debug)]
pub(super) struct Doors {
    config: PorterConfig,
    /// In the order of `config.ways.engines`.
    listeners: Vec<UnixListener>,
    /// The control socket of the porter, while one runs.
    porter: Option<Conn>,
    usage: Usage,
    /// Set once containers have to be removed: the grace that they get. A porter that starts later gets the same order.
    clearing: Option<Duration>,
    /// When clearing began, in seconds since 1970; 0 before.
    since: i64,
    /// Whether no process of the server is left.
    is_server_gone: bool,
    /// No porter is started before this time.
    retry_at: Option<Instant>,
}

impl Doors {
    /// Creates the sockets, in a directory that only this user can enter.
    pub(super) fn open(config: PorterConfig) -> Result<Self, DoorsError> {
        let mut doors = Self {
            config,
            listeners: Vec::new(),
            porter: None,
            usage: Usage::Unused,
            clearing: None,
            since: 0,
            is_server_gone: false,
            retry_at: None,
        };
        doors.listen().inspect_err(|_| doors.remove_files())?;
        Ok(doors)
    }

    fn listen(&mut self) -> Result<(), DoorsError> {
        for way in &self.config.ways.engines {
            let listener =
                listen(&way.socket).map_err(|error| DoorsError(way.socket.clone(), error))?;
            self.listeners.push(listener);
        }
        let PorterConfig { podman, book, labels, .. } = &self.config;
        // At `strict` the directory is hidden from the server and only the note is mounted back, so it must exist.
        if podman.as_ref().is_some_and(|podman| podman.podman.level() == Level::Strict) {
            make_podman_note(book, labels.instance)
                .map_err(|error| DoorsError(book.clone(), error))?;
        }
        Ok(())
    }

    /// The descriptors that become readable when [`supervise`](Self::supervise) has work.
    pub(super) fn poll_fds(&self) -> Vec<PollFd<'_>> {
        match &self.porter {
            Some(porter) => vec![PollFd::new(porter, PollFlags::IN)],
            None if self.usage == Usage::Cleared || self.retry_at.is_some() => Vec::new(),
            None => self.listeners.iter().map(|door| PollFd::new(door, PollFlags::IN)).collect(),
        }
    }

    /// When [`supervise`](Self::supervise) has work although no descriptor is readable.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether no engine holds anything of the server. If so, closes the Doors for good.
    ///
    /// The caller knows that no process of the server is left. A connection that is still pending comes from a dead
    /// process, and its request must not reach the engine after the proof.
    pub(super) fn close_if_clear(&mut self) -> bool {
        if self.usage == Usage::Unused {
            self.usage = Usage::Cleared;
        }
        self.usage == Usage::Cleared
    }

    /// Has the porter refuse creates and starts and remove all containers. A later call can only shorten the grace.
    pub(super) fn clear(&mut self, grace: Duration) {
        if self.clearing.is_none() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.since = i64::try_from(since.as_secs()).unwrap_or_default();
        }
        if self.clearing.is_none_or(|before| grace < before) {
            self.clearing = Some(grace);
            self.order(&PorterOrder::Clear { grace });
        }
    }

    /// Notes that no process of the server is left, so podman can create nothing more without a service.
    pub(super) fn server_gone(&mut self) {
        self.is_server_gone = true;
        let PorterConfig { labels, book, .. } = &self.config;
        if self.usage == Usage::Unused && is_podman_noted(book, labels.instance) {
            self.usage = Usage::Used;
            // No Door was used, so no descriptor would wake the guardian to start a porter.
            self.retry_at = Some(Instant::now());
        }
        self.order(&PorterOrder::Emptied { since: self.since });
    }

    /// Receives the porter's reports, and starts a porter if one is needed and none runs.
    pub(super) fn supervise(&mut self, tree: &mut ProcessTree, now: Instant) -> Vec<PorterReport> {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        let reports = self.receive_reports();
        if self.porter.is_none()
            && tree.porter().is_none()
            && self.retry_at.is_none()
            && self.is_needed()
        {
            match self.start_porter() {
                Ok(porter) => tree.set_porter(porter),
                Err(_) => self.retry_at = Some(now + PORTER_RETRY),
            }
        }
        reports
    }

    fn is_needed(&self) -> bool {
        let is_connecting = |door| readable(door, Duration::ZERO).unwrap_or(false);
        let is_any_connecting = || self.listeners.iter().any(is_connecting);
        match self.usage {
            Usage::Used => self.clearing.is_some() || is_any_connecting(),
            Usage::Unused => is_any_connecting(),
            Usage::Cleared => false,
        }
    }

    fn receive_reports(&mut self) -> Vec<PorterReport> {
        let mut reports = Vec::new();
        while let Some(porter) = &mut self.porter {
            match porter.receive() {
                Ok(Received::Message(report)) => {
                    if matches!(report, PorterReport::Cleared) {
                        self.usage = Usage::Cleared;
                    }
                    reports.push(report);
                }
                Ok(Received::NothingYet) => break,
                // The porter died; `supervise` starts another one if there is work.
                Ok(Received::Closed) | Err(_) => self.porter = None,
            }
        }
        reports
    }

    /// Starts a porter and sends it its configuration, the sockets and the orders given so far.
    fn start_porter(&mut self) -> io::Result<Pid> {
        let (conn, theirs) = Conn::pair()?;
        set_socket_timeout(&conn, Timeout::Send, Some(PORTER_LIMIT))?;
        let labels = &self.config.labels;
        let porter = Command::new("/proc/self/exe")
            .arg0(PORTER)
            .args([labels.instance.to_string(), labels.server.clone()])
            .env_clear()
            .envs(self.config.environment.iter().map(|(name, value)| (name, value)))
            .stdin(theirs)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on the porter may forward a create.
        self.usage = Usage::Used;
        let serve = PorterOrder::Serve(Box::new(self.config.clone()));
        // A failed send means that the porter died, which shows as the end of its socket.
        let listeners: Vec<BorrowedFd<'_>> = self.listeners.iter().map(AsFd::as_fd).collect();
        let _ = conn.send(&serve, &listeners);
        self.porter = Some(conn);
        if let Some(grace) = self.clearing {
            self.order(&PorterOrder::Clear { grace });
        }
        if self.is_server_gone {
            self.order(&PorterOrder::Emptied { since: self.since });
        }
        Ok(Pid::from_child(&porter))
    }

    fn order(&self, order: &PorterOrder) {
        if let Some(porter) = &self.porter {
            let _ = porter.send(order, &[]);
        }
    }

    /// Dismisses the porter, waits for its exit within [`PORTER_LIMIT`], and removes the sockets.
    pub(super) fn close(mut self, tree: &ProcessTree) {
        self.order(&PorterOrder::Dismiss);
        self.porter = None;
        if let Some(pid) = tree.porter() {
            let handle = pidfd_open(pid, PidfdFlags::empty());
            if handle.is_ok_and(|handle| readable(&handle, PORTER_LIMIT).unwrap_or(false)) {
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
        self.remove_files();
    }

    /// Removes the sockets, the shelf and an unused note. The next sweep removes what could not be removed here.
    pub(super) fn remove_files(&self) {
        let PorterConfig { ways, labels, book, .. } = &self.config;
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
