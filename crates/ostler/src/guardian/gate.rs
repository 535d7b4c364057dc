//! The guardian's part of a Door: its socket, and a porter once somebody has knocked.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

use super::estate::Estate;
use super::wire::{Conn, Received};
use crate::fence::readable;
use crate::porter::ROLE;
use crate::porter::wire::{Order, Report, Service};

/// Before a porter is started again that could not be.
const SUMMON_RETRY: Duration = Duration::from_secs(1);
/// For a porter to take an order, and to leave when it is told to.
const PORTER_LIMIT: Duration = Duration::from_secs(5);

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
    listener: UnixListener,
    /// The line to whoever serves it.
    porter: Option<Conn>,
    passage: Passage,
    /// Everything has to be removed, with this grace for containers. Whoever comes to serve is told.
    clearing: Option<Duration>,
    /// When the next porter may be started.
    retry_at: Option<Instant>,
}

impl Gate {
    /// Makes the socket, in a directory that nobody else can enter.
    pub(super) fn open(service: Service) -> io::Result<Self> {
        let listener = UnixListener::bind(&service.door.socket)?;
        fs::set_permissions(&service.door.socket, Permissions::from_mode(0o600))?;
        let passage = Passage::Unused;
        Ok(Self { service, listener, porter: None, passage, clearing: None, retry_at: None })
    }

    /// What tells that there is something to do here.
    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match &self.porter {
            Some(porter) => Some(PollFd::new(porter, PollFlags::IN)),
            None if self.passage == Passage::Cleared || self.retry_at.is_some() => None,
            None => Some(PollFd::new(&self.listener, PollFlags::IN)),
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
        if self.clearing.is_none_or(|before| grace < before) {
            self.clearing = Some(grace);
            self.order(&Order::Clear { grace });
        }
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
        let is_knocked_at = || readable(&self.listener, Duration::ZERO).unwrap_or(false);
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
        let labels = &self.service.door.labels;
        let porter = Command::new("/proc/self/exe")
            .arg0(ROLE)
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
        let _ = conn.send(&serve, &[self.listener.as_fd()]);
        self.porter = Some(conn);
        if let Some(grace) = self.clearing {
            self.order(&Order::Clear { grace });
        }
        Ok(Pid::from_child(&porter))
    }

    fn order(&self, order: &Order) {
        if let Some(porter) = &self.porter {
            let _ = porter.send(order, &[]);
        }
    }

    /// Lets the porter go, waits for it no longer than that should take, and removes the socket.
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

    /// Removes the socket. What can't be removed is found by the next sweep.
    pub(super) fn demolish(&self) {
        let _ = fs::remove_file(&self.service.door.socket);
    }
}
