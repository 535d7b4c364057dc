//! Waiting for a condition, with a bound.

use std::thread::sleep;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(5);

/// Result of a probe: a `bool`, or an `Option` whose content the wait returns.
pub trait Outcome {
    /// The value that the wait returns.
    type Value;

    /// The value, if the condition holds.
    fn value(self) -> Option<Self::Value>;
}

impl Outcome for bool {
    type Value = ();

    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn value(self) -> Option<T> {
        self
    }
}

/// Probes every 5 ms until the condition holds, and panics with `what` if it does not within the limit.
pub fn wait_until<P: Outcome>(what: &str, limit: Duration, probe: impl FnMut() -> P) -> P::Value {
    poll(limit, probe).unwrap_or_else(|| panic!("not within {limit:?}: {what}"))
}

/// The same without the panic. The condition is probed once more after the limit, because a busy machine may have let
/// us sleep past it.
pub(crate) fn poll<P: Outcome>(limit: Duration, mut probe: impl FnMut() -> P) -> Option<P::Value> {
    let end = Instant::now() + limit;
    loop {
        let is_last = Instant::now() >= end;
        if let Some(value) = probe().value() {
            return Some(value);
        }
        if is_last {
            return None;
        }
        sleep(POLL);
    }
}
