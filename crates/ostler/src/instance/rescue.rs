//! Instances that were dropped, and whose guardian was killed.
//!
//! Their end may take seconds, and the reaper of the [graveyard](crate::graveyard) has others to wait for. So other
//! threads see to it, which live only as long as there is something to do.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Living;
use crate::event::Event;
use crate::graveyard::{Abandoned, spawn};

/// As many instances without a guardian are ended at a time.
const RESCUERS: usize = 4;

struct Rescues {
    lost: VecDeque<Living>,
    /// How many threads end those.
    threads: usize,
}

static RESCUES: Mutex<Rescues> = Mutex::new(Rescues { lost: VecDeque::new(), threads: 0 });

fn rescues() -> MutexGuard<'static, Rescues> {
    RESCUES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AsFd for Living {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hold.as_fd()
    }
}

impl Abandoned for Living {
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

/// Has an instance ended whose guardian was killed.
fn rescue(lost: Living) {
    let mut rescues = rescues();
    rescues.lost.push_back(lost);
    if rescues.threads == RESCUERS {
        return;
    }
    rescues.threads += 1;
    drop(rescues);
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
    let mut rescues = rescues();
    let lost = rescues.lost.pop_front();
    if lost.is_none() {
        rescues.threads -= 1;
    }
    lost
}
