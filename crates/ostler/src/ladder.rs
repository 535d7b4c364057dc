//! The ladder: the steps of stopping an instance, as a pure function of time.
//!
//! Every stop takes the same steps: close stdin, send TERM, send KILL. A [`Ladder`] says how long each
//! step may take; a [`Climb`] is the position of one instance on its ladder. A later order can skip
//! steps or shorten times, but never goes back or adds time. Neither type reads a clock: the caller
//! passes `now`.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A step of stopping, gentlest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Its stdin is closed; it may exit on its own.
    Closing,
    /// TERM has been sent to all its processes.
    Asking,
    /// KILL is sent to all its processes, repeatedly, until none is left.
    Ending,
}

/// Time limits of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// From the end of stdin to TERM.
    pub close: Duration,
    /// From TERM to KILL.
    pub ask: Duration,
}

impl Ladder {
    /// A ladder that reaches KILL after `grace`. A third of it follows the end of stdin: servers that
    /// react to it do so at once, and the others need the rest to react to TERM.
    pub fn within(grace: Duration) -> Self {
        let close = grace / 3;
        Self { close, ask: grace.saturating_sub(close) }
    }

    fn wait_at(&self, step: Step) -> Option<Duration> {
        match step {
            Step::Closing => Some(self.close),
            Step::Asking => Some(self.ask),
            Step::Ending => None,
        }
    }
}

/// Position of one instance on its ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climb {
    ladder: Ladder,
    step: Step,
    since: Instant,
}

impl Climb {
    /// Begins at `step`; the caller carries that step out.
    pub fn begin(ladder: Ladder, step: Step, now: Instant) -> Self {
        Self { ladder, step, since: now }
    }

    /// The current step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// When the current step began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When the next step is due; `None` at the last one.
    pub fn due(&self) -> Option<Instant> {
        self.ladder.wait_at(self.step).map(|wait| self.since + wait)
    }

    /// Advances one step if it is due. Returns the step to carry out.
    pub fn advance(&mut self, now: Instant) -> Option<Step> {
        self.due().is_some_and(|due| due <= now).then(|| self.skip(now)).flatten()
    }

    /// Advances one step now. Returns the step to carry out.
    pub fn skip(&mut self, now: Instant) -> Option<Step> {
        let next = match self.step {
            Step::Closing => Step::Asking,
            Step::Asking => Step::Ending,
            Step::Ending => return None,
        };
        (self.step, self.since) = (next, now);
        Some(next)
    }

    /// Switches to `ladder`, at `step` or later, without going back, repeating a step or gaining time.
    /// Returns the step to carry out, if it is a new one.
    pub fn hasten(&mut self, ladder: Ladder, step: Step, now: Instant) -> Option<Step> {
        if self.step < step {
            *self = Self::begin(ladder, step, now);
            return Some(step);
        }
        if let (Some(old), Some(wait)) = (self.due(), ladder.wait_at(self.step)) {
            let left = old.saturating_duration_since(now).min(wait);
            self.ladder = Ladder { close: left, ask: left };
            self.since = now;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(1500);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_whole_grace_lies_between_the_first_step_and_kill() {
        let start = Instant::now();
        let mut climb = Climb::begin(Ladder::within(GRACE), Step::Closing, start);
        assert_eq!(climb.advance(start + ms(499)), None);
        assert_eq!(climb.advance(start + ms(500)), Some(Step::Asking));
        assert_eq!(climb.advance(start + ms(1499)), None);
        assert_eq!(climb.advance(start + ms(1500)), Some(Step::Ending));
        assert_eq!(climb.due(), None);
        assert_eq!(climb.skip(start + ms(1501)), None);
    }

    #[test]
    fn a_skipped_step_is_not_waited_for() {
        let start = Instant::now();
        let mut climb = Climb::begin(Ladder::within(GRACE), Step::Closing, start);
        assert_eq!(climb.skip(start), Some(Step::Asking));
        assert_eq!(climb.skip(start), Some(Step::Ending));
    }

    #[test]
    fn haste_never_repeats_a_step_and_never_gains_time() {
        let start = Instant::now();
        let orphan = Ladder { close: ms(0), ask: ms(500) };
        let mut climb = Climb::begin(Ladder::within(GRACE), Step::Closing, start);
        assert_eq!(climb.hasten(orphan, Step::Asking, start + ms(10)), Some(Step::Asking));
        assert_eq!(climb.due(), Some(start + ms(510)));

        let mut late = Climb::begin(Ladder::within(GRACE), Step::Asking, start);
        assert_eq!(late.hasten(orphan, Step::Asking, start + ms(900)), None);
        assert_eq!(late.due(), Some(start + ms(1000)));

        let mut ending = Climb::begin(Ladder::within(GRACE), Step::Ending, start);
        assert_eq!(ending.hasten(orphan, Step::Asking, start), None);
        assert_eq!((ending.step(), ending.due()), (Step::Ending, None));
    }
}
