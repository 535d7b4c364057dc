//! Combines the clearing progress of several engines into one state for the owner.
//!
//! The combined state is that of the engine which is most worth waiting for: one that answers counts more than one
//! that is silent.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use super::clearing::send;
use crate::containers::EngineState;
use crate::wire::porter::PorterReport;

/// The states of all engines.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineStates(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    each: Vec<EngineState>,
    last_reported: Option<EngineState>,
}

/// The state of one engine, initially `Clear`.
#[derive(Clone, Debug)]
pub(super) struct EngineStateSlot {
    all: EngineStates,
    number: usize,
}

impl EngineStates {
    pub(super) fn add(&self) -> EngineStateSlot {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.each.push(EngineState::Clear);
        EngineStateSlot { all: self.clone(), number: all.each.len() - 1 }
    }
}

impl EngineStateSlot {
    /// Sets the state, and reports the combined state if that changes.
    pub(super) fn set(&self, state: EngineState, reports: &UnboundedSender<PorterReport>) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.each.get_mut(self.number) {
            *own = state;
        }
        let together = all.each.iter().copied().max_by_key(|state| worth_waiting_for(*state));
        if let Some(state) = together.filter(|_| together != all.last_reported) {
            all.last_reported = together;
            send(reports, PorterReport::Engine(state));
        }
    }
}

fn worth_waiting_for(state: EngineState) -> u8 {
    match state {
        EngineState::Clear => 0,
        EngineState::Silent => 1,
        EngineState::Asked => 2,
        EngineState::Answering => 3,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn the_engine_most_worth_waiting_for_sets_the_state() {
        use EngineState::{Answering, Asked, Clear, Silent};
        let (reports, mut sent) = unbounded_channel();
        let states = EngineStates::default();
        let (one, other) = (states.add(), states.add());
        let cases = [
            (&one, Asked, Some(Asked)),
            (&other, Asked, None),
            (&one, Silent, None),
            (&other, Answering, Some(Answering)),
            (&other, Clear, Some(Silent)),
            (&one, Answering, Some(Answering)),
            (&one, Clear, Some(Clear)),
        ];
        for (slot, state, expected) in cases {
            slot.set(state, &reports);
            let reported = sent.try_recv().ok().map(|report| match report {
                PorterReport::Engine(state) => state,
                other => panic!("{other:?}"),
            });
            assert_eq!(reported, expected, "{state:?}");
        }
    }
}
