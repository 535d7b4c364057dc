//! Background sweep: each start also ends what dead owners left, without delaying the server.

use ostler::Places;
use ostler_gateway::front::remove_stale;

use crate::backends::BlockingBackends;

/// Starts the sweep in a thread. If this process exits earlier, the next start continues.
pub(crate) fn begin() {
    let sweeper = std::thread::Builder::new().name("ostler-sweep".into());
    // If no thread or runtime can be created, the next start sweeps.
    let _ = sweeper.spawn(|| {
        remove_stale();
        if let Ok(backends) = BlockingBackends::new() {
            backends.sweep(&Places::of_user());
        }
    });
}
