//! Instances and guardians that nobody waits for any more.
//!
//! A dropped instance ends through its guardian, but its guardian would stay a zombie of the host
//! and its entry in the ledger open. A library may not take the host's SIGCHLD, so one thread, the
//! sexton, waits for all of them at the same time. It lives only as long as there is one to wait for.
//!
//! An instance whose guardian was killed is ended by another thread, because that may take seconds
//! and the others are not to wait for it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use super::Living;
use crate::event::Event;
use crate::fence::Leaving;

/// As many instances without a guardian are ended at a time.
const RESCUERS: usize = 4;
/// Before the sexton looks again when the kernel can't tell it that something has happened.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What the sexton waits for.
#[derive(Debug)]
pub(crate) enum Late {
    /// An instance that was told to end.
    Instance(Box<Living>),
    /// A guardian whose instance has ended.
    Guardian(Leaving),
}

struct Graveyard {
    /// Those that the sexton has not seen yet.
    arrived: Vec<Late>,
    /// Wakes the sexton; `None` if there is none.
    bell: Option<Arc<OwnedFd>>,
    /// Instances whose guardian was killed.
    lost: VecDeque<Living>,
    /// How many threads end those.
    rescuers: usize,
}

static GRAVEYARD: Mutex<Graveyard> =
    Mutex::new(Graveyard { arrived: Vec::new(), bell: None, lost: VecDeque::new(), rescuers: 0 });

fn graveyard() -> MutexGuard<'static, Graveyard> {
    GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<Living> for Late {
    fn from(instance: Living) -> Self {
        Self::Instance(Box::new(instance))
    }
}

impl From<Leaving> for Late {
    fn from(guardian: Leaving) -> Self {
        Self::Guardian(guardian)
    }
}

impl AsFd for Late {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Instance(instance) => instance.hold.as_fd(),
            Self::Guardian(guardian) => guardian.as_fd(),
        }
    }
}

/// Waits in the background.
pub(crate) fn bury(late: impl Into<Late>) {
    let mut graveyard = graveyard();
    graveyard.arrived.push(late.into());
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

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

struct Sexton {
    bell: Arc<OwnedFd>,
    waiting: Vec<Late>,
}

impl Sexton {
    fn dig(mut self) {
        while self.take_arrived() {
            self.wait();
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = waiting.into_iter().filter_map(see_to).collect();
        }
    }

    /// Returns whether there is anything to wait for. If not, the sexton goes.
    fn take_arrived(&mut self) -> bool {
        // Before the look: whoever arrives after it rings again.
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

/// Takes note of what has happened, without waiting. Returns what has to be waited for.
fn see_to(late: Late) -> Option<Late> {
    match late {
        // One that has left is waited for when it is dropped, and that takes no time.
        Late::Guardian(guardian) => (!guardian.has_left()).then_some(Late::Guardian(guardian)),
        Late::Instance(mut instance) => loop {
            match instance.next_event() {
                Ok(Some(Event::GuardianLost)) | Err(_) => {
                    rescue(*instance);
                    break None;
                }
                Ok(Some(_)) => {}
                Ok(None) if instance.is_over => {
                    break instance.leaving.take().map(Late::from).and_then(see_to);
                }
                Ok(None) => break Some(Late::Instance(instance)),
            }
        },
    }
}

/// Has an instance ended whose guardian was killed.
fn rescue(lost: Living) {
    let mut graveyard = graveyard();
    graveyard.lost.push_back(lost);
    if graveyard.rescuers == RESCUERS {
        return;
    }
    graveyard.rescuers += 1;
    drop(graveyard);
    if spawn("ostler-rescuer", end_lost).is_err() {
        // Then the others have to wait.
        end_lost();
    }
}

fn end_lost() {
    while let Some(mut lost) = next_lost() {
        // After a panic its entry in the ledger stays open, for a sweep.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            lost.rescue();
            lost.see_off();
        }));
    }
}

/// `None`: the caller is no rescuer any more.
fn next_lost() -> Option<Living> {
    let mut graveyard = graveyard();
    let lost = graveyard.lost.pop_front();
    if lost.is_none() {
        graveyard.rescuers -= 1;
    }
    lost
}
