//! The roles in which the library executes its own program again, by the name in `argv[0]`.

use std::sync::atomic::{AtomicBool, Ordering};

/// `argv[0]` of a guardian. It is not a path, so no ordinary start of the program looks like it.
pub(crate) const GUARDIAN: &str = "ostler-guardian";

/// `argv[0]` of a porter.
pub(crate) const PORTER: &str = "ostler-porter";

/// File name of the link to this program that the podman wrapper names as its interpreter.
pub(crate) const PODMAN: &str = "ostler-podman";

/// Whether this program has called [`run_if_asked`](crate::guardian::run_if_asked).
static ASKED: AtomicBool = AtomicBool::new(false);

/// Records that this program takes its role when it is executed in one.
pub(crate) fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether this program becomes a guardian when it is executed as one.
#[cfg(feature = "engine")]
pub(crate) fn has_asked_for_its_role() -> bool {
    ASKED.load(Ordering::Relaxed)
}
