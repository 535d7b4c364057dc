//! The one road down, as data and as a pure function of time.
//!
//! Every end of an instance takes the same steps: its input is closed, it is asked, it is ended.
//! A [`Ladder`] says how long each step may take, a [`Climb`] where on the ladder one instance is.
//! Neither knows a clock: `now` is always given.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A step of stopping, the milder first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// The server's input has ended; it may leave by itself.
    Closing,
    /// TERM has been sent to all that the server caused.
    Asking,
    /// KILL, again and again, until nothing is left.
    Ending,
}

/// How long each step may take before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// Between the end of input and TERM.
    pub close: Duration,
    /// Between TERM and KILL.
    pub ask: Duration,
}

impl Ladder {
    /// A ladder that reaches KILL after `grace`. A third of it is for the end of input: servers
    /// that heed it do so at once, those that don't need the rest to heed TERM.
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

/// One instance on its way down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climb {
    ladder: Ladder,
    step: Step,
    since: Instant,
}

impl Climb {
    /// Starts at `step`; the caller carries that step out.
    pub fn begin(ladder: Ladder, step: Step, now: Instant) -> Self {
        Self { ladder, step, since: now }
    }

    /// Where it stands.
    pub fn step(&self) -> Step {
        self.step
    }

    /// When this step was reached.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// When the next step is due; never, once it is being ended.
    pub fn due(&self) -> Option<Instant> {
        self.ladder.wait_at(self.step).map(|wait| self.since + wait)
    }

    /// Goes one step on if its time has come. Returns the step to carry out.
    pub fn advance(&mut self, now: Instant) -> Option<Step> {
        self.due().is_some_and(|due| due <= now).then(|| self.skip(now)).flatten()
    }

    /// Goes one step on without waiting. Returns the step to carry out.
    pub fn skip(&mut self, now: Instant) -> Option<Step> {
        let next = match self.step {
            Step::Closing => Step::Asking,
            Step::Asking => Step::Ending,
            Step::Ending => return None,
        };
        (self.step, self.since) = (next, now);
        Some(next)
    }

    /// Changes over to `ladder`, at `step` or later, without going back, repeating a step or
    /// gaining time. Returns the step to carry out, if that is a new one.
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
