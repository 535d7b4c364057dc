//! Background reaping of instances and guardians that the host dropped before their end.
//!
//! The guardian of a dropped instance ends the instance, but then stays a zombie of the host, and the ledger entry
//! stays open. A library may not take its host's SIGCHLD, so one thread, the reaper, waits for all dropped instances
//! at the same time. The first drop starts the thread, and it exits when it has none left to wait for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

/// Delay between two checks if `poll` fails.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A dropped value that the reaper waits for. Its descriptor is readable when it has work.
pub(crate) trait Abandoned: AsFd + Send {
    /// Does the work that is due, without waiting. Returns the value if the reaper has to wait for more.
    fn make_progress(self: Box<Self>) -> Option<Box<dyn Abandoned>>;
}

struct Graveyard {
    /// Values that the reaper has not taken over yet.
    arrived: Vec<Box<dyn Abandoned>>,
    /// Eventfd that wakes the reaper; `None` if no reaper runs.
    wakeup: Option<Arc<OwnedFd>>,
}

static GRAVEYARD: Mutex<Graveyard> = Mutex::new(Graveyard { arrived: Vec::new(), wakeup: None });

fn graveyard() -> MutexGuard<'static, Graveyard> {
    GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands a dropped value to the reaper, and starts the reaper if none runs.
pub(crate) fn reap_later(late: Box<dyn Abandoned>) {
    let mut graveyard = graveyard();
    graveyard.arrived.push(late);
    match &graveyard.wakeup {
        Some(wakeup) => wake(wakeup),
        // If no thread can be started, the next drop tries again. The guardians end the instances in any case.
        None => graveyard.wakeup = start_reaper().ok(),
    }
}

fn wake(wakeup: &OwnedFd) {
    // A write fails only if the counter is full, and then the reaper wakes anyway.
    let _ = rustix::io::write(wakeup, &1_u64.to_ne_bytes());
}

/// The caller holds the lock, so the new reaper can't miss what has arrived.
fn start_reaper() -> io::Result<Arc<OwnedFd>> {
    let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let reaper = Reaper { wakeup: Arc::clone(&wakeup), waiting: Vec::new() };
    spawn("ostler-reaper", move || reaper.run())?;
    Ok(wakeup)
}

pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

struct Reaper {
    wakeup: Arc<OwnedFd>,
    waiting: Vec<Box<dyn Abandoned>>,
}

impl Reaper {
    fn run(mut self) {
        while self.take_arrived() {
            self.wait();
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = waiting.into_iter().filter_map(Abandoned::make_progress).collect();
        }
    }

    /// Takes over what has arrived. Returns false if there is nothing to wait for; then the thread must exit.
    fn take_arrived(&mut self) -> bool {
        // Reset before the queue is read: a later arrival sets it again.
        let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        let mut graveyard = graveyard();
        self.waiting.append(&mut graveyard.arrived);
        if self.waiting.is_empty() {
            graveyard.wakeup = None;
        }
        !self.waiting.is_empty()
    }

    /// Blocks until one of the values has work or another one arrives.
    fn wait(&self) {
        let waiting = self.waiting.iter().map(|late| PollFd::new(late, PollFlags::IN));
        let wakeup = PollFd::new(&self.wakeup, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = waiting.chain([wakeup]).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => std::thread::sleep(BETWEEN_LOOKS),
        }
    }
}

impl Drop for Reaper {
    /// Unregisters the reaper, also after a panic, so that the next drop starts another one.
    fn drop(&mut self) {
        let mut graveyard = graveyard();
        if graveyard.wakeup.as_ref().is_some_and(|wakeup| Arc::ptr_eq(wakeup, &self.wakeup)) {
            graveyard.wakeup = None;
        }
    }
}
