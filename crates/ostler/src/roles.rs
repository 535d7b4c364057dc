//! Under which names the library starts its own program again, and in which role it then runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// The first word of a guardian's command line. Never a path, so that no ordinary start of the program can be taken
/// for it.
pub(crate) const GUARDIAN: &str = "ostler-guardian";

/// The first word of a porter's. Never a path either.
pub(crate) const PORTER: &str = "ostler-porter";

/// The last part of the path under which a server's podman command finds this program as its interpreter.
pub(crate) const PODMAN: &str = "ostler-podman";

/// Set by [`run_if_asked`](crate::guardian::run_if_asked).
static ASKED: AtomicBool = AtomicBool::new(false);

/// This program takes its role when it is executed in one.
pub(crate) fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether this program becomes a guardian when it is executed as one.
#[cfg(feature = "engine")]
pub(crate) fn has_asked_for_its_role() -> bool {
    ASKED.load(Ordering::Relaxed)
}
