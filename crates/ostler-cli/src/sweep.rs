//! What dead owners have left is ended at the next start: beside the server, never before it.

use ostler::sweep::dead_owners;
use ostler::{Limits, Places, Processes};
use ostler_gateway::front::remove_stale;

/// Sweeps in a thread of its own. If this process ends earlier, the next start goes on.
pub(crate) fn begin() {
    let sweeper = std::thread::Builder::new().name("ostler-sweep".into());
    // Without a thread the next start does it.
    let _ = sweeper.spawn(|| {
        remove_stale();
        for owner in dead_owners(&Places::of_user()) {
            owner.settle(&Processes, Limits::default().proof);
        }
    });
}
