//! Instances and guardians that were dropped before their end.
//!
//! A dropped instance ends through its guardian, but its guardian would stay a zombie of the host
//! and its entry in the ledger open. A library may not take the host's SIGCHLD, so one thread, the
//! sexton, waits for all of them at the same time. It lives only as long as there is one to wait for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// Before the sexton looks again when the kernel can't tell it that something has happened.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What the sexton waits for. It polls as readable when something has happened to it.
pub(crate) trait Late: AsFd + Send {
    /// Takes note of what has happened, without waiting. Returns what has to be waited for.
    fn see_to(self: Box<Self>) -> Option<Box<dyn Late>>;
}

struct Graveyard {
    /// Those that the sexton has not seen yet.
    arrived: Vec<Box<dyn Late>>,
    /// Wakes the sexton; `None` if there is none.
    bell: Option<Arc<OwnedFd>>,
}

static GRAVEYARD: Mutex<Graveyard> = Mutex::new(Graveyard { arrived: Vec::new(), bell: None });

fn graveyard() -> MutexGuard<'static, Graveyard> {
    GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits in the background.
pub(crate) fn bury(late: Box<dyn Late>) {
    let mut graveyard = graveyard();
    graveyard.arrived.push(late);
    match &graveyard.bell {
        Some(bell) => ring(bell),
        // Without a thread they wait until the next instance is dropped, and end all the same.
        None => graveyard.bell = begin_to_dig().ok(),
    }
}

fn ring(bell: &OwnedFd) {
    // It can only fail if it has rung so often that the sexton wakes anyway.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// The caller holds the lock, so that the sexton sees what has arrived.
fn begin_to_dig() -> io::Result<Arc<OwnedFd>> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let sexton = Sexton { bell: Arc::clone(&bell), waiting: Vec::new() };
    spawn("ostler-sexton", move || sexton.dig())?;
    Ok(bell)
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

struct Sexton {
    bell: Arc<OwnedFd>,
    waiting: Vec<Box<dyn Late>>,
}

impl Sexton {
    fn dig(mut self) {
        while self.take_arrived() {
            self.wait();
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = waiting.into_iter().filter_map(Late::see_to).collect();
        }
    }

    /// Returns whether there is anything to wait for. If not, the sexton goes.
    fn take_arrived(&mut self) -> bool {
        // Before the look: an arrival after it rings again.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        let mut graveyard = graveyard();
        self.waiting.append(&mut graveyard.arrived);
        if self.waiting.is_empty() {
            graveyard.bell = None;
        }
        !self.waiting.is_empty()
    }

    /// Until something happens to one of them, or another one arrives.
    fn wait(&self) {
        let waiting = self.waiting.iter().map(|late| PollFd::new(late, PollFlags::IN));
        let bell = PollFd::new(&self.bell, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = waiting.chain([bell]).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => std::thread::sleep(BETWEEN_LOOKS),
        }
    }
}

impl Drop for Sexton {
    /// Also after a panic: the next one to arrive gets another sexton.
    fn drop(&mut self) {
        let mut graveyard = graveyard();
        if graveyard.bell.as_ref().is_some_and(|bell| Arc::ptr_eq(bell, &self.bell)) {
            graveyard.bell = None;
        }
    }
}
