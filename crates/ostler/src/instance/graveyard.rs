//! Instances that nobody waits for any more.
//!
//! A dropped instance ends through its guardian, but its guardian would stay a zombie of the host
//! and its entry in the ledger open. A library may not take the host's SIGCHLD, so one thread waits
//! for them, which lives only as long as there is somebody to wait for.

use std::sync::{Mutex, PoisonError};

use super::Living;

struct Graveyard {
    waiting: Vec<Living>,
    sexton_at_work: bool,
}

static GRAVEYARD: Mutex<Graveyard> =
    Mutex::new(Graveyard { waiting: Vec::new(), sexton_at_work: false });

/// Waits in the background for an instance that was told to end.
pub(super) fn bury(instance: Living) {
    let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
    graveyard.waiting.push(instance);
    if !graveyard.sexton_at_work {
        // Without a thread they wait until the next instance is dropped, and end all the same.
        let sexton = std::thread::Builder::new().name("ostler-sexton".into());
        graveyard.sexton_at_work = sexton.spawn(dig).is_ok();
    }
}

fn dig() {
    loop {
        let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut instance) = graveyard.waiting.pop() else {
            return graveyard.sexton_at_work = false;
        };
        drop(graveyard);
        instance.await_end();
    }
}
