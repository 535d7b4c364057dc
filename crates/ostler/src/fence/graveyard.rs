//! Guardians that nobody waits for any more.
//!
//! A dropped fence ends through its guardian, which then would stay a zombie of the host for
//! ever. A library may not take the host's SIGCHLD, so one thread waits for them, which lives only
//! as long as there is somebody to wait for.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

struct Graveyard {
    waiting: Vec<Child>,
    sexton_at_work: bool,
}

static GRAVEYARD: Mutex<Graveyard> =
    Mutex::new(Graveyard { waiting: Vec::new(), sexton_at_work: false });

/// Waits for `guardian` in the background.
pub(super) fn bury(guardian: Child) {
    let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
    graveyard.waiting.push(guardian);
    if !graveyard.sexton_at_work {
        // Without a thread the zombie stays until the next fence is dropped: nothing is lost.
        let sexton = std::thread::Builder::new().name("ostler-sexton".into()).stack_size(64 << 10);
        graveyard.sexton_at_work = sexton.spawn(dig).is_ok();
    }
}

fn dig() {
    loop {
        let mut graveyard = GRAVEYARD.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut guardian) = graveyard.waiting.pop() else {
            return graveyard.sexton_at_work = false;
        };
        drop(graveyard);
        // An error means that the host has waited for it already.
        let _ = guardian.wait();
    }
}
