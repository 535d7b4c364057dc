//! How several engines take it together that everything has to go.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use super::clearing::tell;
use crate::containers::EngineState;
use crate::wire::porter::Report;

/// What is known of each of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Moods(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    each: Vec<EngineState>,
    told: Option<EngineState>,
}

/// One of them. Until something is known of it, it has nothing to do.
#[derive(Clone, Debug)]
pub(super) struct Mood {
    all: Moods,
    number: usize,
}

impl Moods {
    pub(super) fn enter(&self) -> Mood {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.each.push(EngineState::Clear);
        Mood { all: self.clone(), number: all.each.len() - 1 }
    }
}

impl Mood {
    /// Tells of it if that changes what there is to wait for.
    pub(super) fn set(&self, state: EngineState, reports: &UnboundedSender<Report>) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.each.get_mut(self.number) {
            *own = state;
        }
        let together = all.each.iter().copied().max_by_key(|state| worth_waiting_for(*state));
        if let Some(state) = together.filter(|_| together != all.told) {
            all.told = together;
            tell(reports, Report::Engine(state));
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
    fn whoever_is_at_work_is_waited_for() {
        use EngineState::{Answering, Asked, Clear, Silent};
        let (reports, mut told) = unbounded_channel();
        let moods = Moods::default();
        let (one, other) = (moods.enter(), moods.enter());
        let cases = [
            (&one, Asked, Some(Asked)),
            (&other, Asked, None),
            (&one, Silent, None),
            (&other, Answering, Some(Answering)),
            (&other, Clear, Some(Silent)),
            (&one, Answering, Some(Answering)),
            (&one, Clear, Some(Clear)),
        ];
        for (mood, state, expected) in cases {
            mood.set(state, &reports);
            let heard = told.try_recv().ok().map(|report| match report {
                Report::Engine(state) => state,
                other => panic!("{other:?}"),
            });
            assert_eq!(heard, expected, "{state:?}");
        }
    }
}
