//! What dead owners have left is ended at the next start: beside the server, never before it.

use ostler::Places;
use ostler_gateway::front::remove_stale;

use crate::backends::BlockingBackends;

/// Sweeps in a thread of its own. If this process ends earlier, the next start goes on.
pub(crate) fn begin() {
    let sweeper = std::thread::Builder::new().name("ostler-sweep".into());
    // Without a thread or a runtime the next start does it.
    let _ = sweeper.spawn(|| {
        remove_stale();
        if let Ok(backends) = BlockingBackends::new() {
            backends.sweep(&Places::of_user());
        }
    });
}
