//! Rescue of instances that were dropped and whose guardian was killed.
//!
//! Ending one may take seconds, and the reaper thread of the [graveyard](crate::graveyard) must not block on it. So it
//! hands them to at most [`RESCUERS`] further threads, which exit when the queue is empty.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::LiveInstance;
use crate::event::Event;
use crate::graveyard::{Abandoned, spawn};

/// Most threads that end instances without a guardian.
const RESCUERS: usize = 4;

struct Rescues {
    lost: VecDeque<LiveInstance>,
    /// Number of threads at work.
    threads: usize,
}

static RESCUES: Mutex<Rescues> = Mutex::new(Rescues { lost: VecDeque::new(), threads: 0 });

fn rescues() -> MutexGuard<'static, Rescues> {
    RESCUES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsFd for LiveInstance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fence.as_fd()
    }
}

impl Abandoned for LiveInstance {
    fn make_progress(mut self: Box<Self>) -> Option<Box<dyn Abandoned>> {
        loop {
            match self.next_event() {
                Ok(Some(Event::GuardianLost)) | Err(_) => {
                    rescue(*self);
                    return None;
                }
                Ok(Some(_)) => {}
                Ok(None) if self.is_over => return Box::new(self.leaving.take()?).make_progress(),
                Ok(None) => return Some(self),
            }
        }
    }
}

/// Queues an instance whose guardian was killed, and starts a thread if more are allowed.
fn rescue(lost: LiveInstance) {
    let mut rescues = rescues();
    rescues.lost.push_back(lost);
    if rescues.threads == RESCUERS {
        return;
    }
    rescues.threads += 1;
    drop(rescues);
    if spawn("ostler-rescuer", end_lost).is_err() {
        // Without a thread, this one ends it, and the graveyard waits.
        end_lost();
    }
}

fn end_lost() {
    while let Some(mut lost) = next_lost() {
        // After a panic its ledger entry stays open for a sweep.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            lost.rescue();
            lost.reap_guardian();
        }));
    }
}

/// The next instance; `None` if the calling thread must exit.
fn next_lost() -> Option<LiveInstance> {
    let mut rescues = rescues();
    let lost = rescues.lost.pop_front();
    if lost.is_none() {
        rescues.threads -= 1;
    }
    lost
}
