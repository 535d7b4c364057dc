//! Instances and guardians that nobody waits for any more.
//!
//! A dropped instance ends through its guardian, but its guardian would stay a zombie of the host
//! and its entry in the ledger open. A library may not take the host's SIGCHLD, so one thread waits
//! for them, which lives only as long as there is somebody to wait for.

use std::sync::{Mutex, PoisonError};

use super::Living;
use crate::fence::Leaving;

/// Who has to be waited for.
#[derive(Debug)]
pub(crate) enum Late {
    /// An instance that was told to end.
    Instance(Box<Living>),
    /// A guardian whose instance has ended.
    Guardian(Leaving),
}

struct Graveyard {
    waiting: Vec<Late>,
    sexton_at_work: bool,
}

static GRAVEYARD: Mutex<Graveyard> =
    Mutex::new(Graveyard { waiting: Vec::new(), sexton_at_work: false });

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

/// Waits in the background.
pub(crate) fn bury(late: impl Into<Late>) {
    let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
    graveyard.waiting.push(late.into());
    if !graveyard.sexton_at_work {
        // Without a thread they wait until the next instance is dropped, and end all the same.
        let sexton = std::thread::Builder::new().name("ostler-sexton".into());
        graveyard.sexton_at_work = sexton.spawn(dig).is_ok();
    }
}

fn dig() {
    loop {
        let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(late) = graveyard.waiting.pop() else {
            return graveyard.sexton_at_work = false;
        };
        drop(graveyard);
        match late {
            Late::Instance(mut instance) => instance.await_end(),
            Late::Guardian(guardian) => guardian.reap(),
        }
    }
}
