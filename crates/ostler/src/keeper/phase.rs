//! State machine of one instance, as a pure function of events and time.
//!
//! ```text
//! Launching ─▶ Greeting ─▶ Ready ─▶ Draining ─▶ Stopping ─▶ Over
//!     └────────────┴─────────┴─────────┴─▶ Silenced ─┘
//! ```
//! Every phase can go straight to `Stopping`. `Silenced` waits a moment for the exit of a server that closed a pipe,
//! because the exit status explains more. The driver leaves `Stopping` only with a proof that the instance is gone, a
//! report of what is left, or if the program never ran.

use std::time::{Duration, Instant};

use super::cause::{Cause, Fault};
use super::config::ServerLimits;
use super::plan::Manner;

/// How long the driver waits for the exit of a server that closed a pipe; the status explains more.
pub(super) const EXIT_LAG: Duration = Duration::from_millis(250);

/// Phase of an instance. `until` is the deadline of the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its program is being started.
    Launching { until: Instant },
    /// Its handshake is under way.
    Greeting { until: Instant },
    /// It takes calls.
    Ready,
    /// It takes no new calls; those in flight may finish.
    Draining { cause: Cause, until: Instant },
    /// It has closed a pipe and probably is about to exit.
    Silenced { fault: Fault, until: Instant },
    /// It is being stopped, step by step on the ladder.
    Stopping(Cause),
    /// Its end is known.
    Over,
}

/// Event that the driver feeds into the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Its program runs.
    Running,
    /// Its handshake succeeded, or failed for this reason.
    Greeted(Result<(), String>),
    /// The plan ordered its end.
    Ordered(Cause, Manner),
    /// It broke a rule for servers.
    Faulty(Fault),
    /// It was unused for its idle limit.
    Idle,
    /// The last use has ended.
    Quiet,
    /// The deadline of the phase has passed.
    TimeUp,
    /// Its program has exited.
    Exited,
    /// Its end is proven, or what is left is known.
    Ended,
}

/// Side effect of a transition, carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Begin the handshake.
    Greet,
    /// Report it as ready to the plan.
    Announce,
    /// Fail its calls, close its stdin and start down the ladder.
    Stop,
}

impl Phase {
    pub(super) fn launching(limits: &ServerLimits, now: Instant) -> Self {
        Self::Launching { until: now + limits.start }
    }

    /// Applies an event and returns the side effect, if any.
    pub(super) fn on(&mut self, sign: Sign, limits: &ServerLimits, now: Instant) -> Option<Act> {
        let (next, act) = self.next(sign, limits, now)?;
        *self = next;
        act
    }

    /// Deadline of the phase. A ready instance has none here: its idle time depends on its use.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Launching { until }
            | Self::Greeting { until }
            | Self::Draining { until, .. }
            | Self::Silenced { until, .. } => Some(*until),
            Self::Ready | Self::Stopping(_) | Self::Over => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        *self == Self::Over
    }

    /// Why it is being stopped.
    pub(super) fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Stopping(cause) => Some(cause),
            _ => None,
        }
    }

    fn next(&self, sign: Sign, limits: &ServerLimits, now: Instant) -> Option<(Self, Option<Act>)> {
        let stop = |cause| Some((Self::Stopping(cause), Some(Act::Stop)));
        match (self, sign) {
            (_, Sign::Ended) => Some((Self::Over, None)),
            // A lost connection explains a closed pipe, as an exit does.
            (Self::Silenced { .. }, Sign::Faulty(fault @ Fault::Lost(_))) => {
                stop(Cause::Unhealthy(fault))
            }
            // It is being stopped already.
            (Self::Over | Self::Stopping(_), _)
            | (Self::Draining { .. }, Sign::Ordered(_, Manner::Drain))
            | (Self::Silenced { .. }, Sign::Faulty(_)) => None,
            (_, Sign::Exited) => stop(Cause::Exited),
            (Self::Launching { until }, Sign::Running) => {
                Some((Self::Greeting { until: *until }, Some(Act::Greet)))
            }
            (Self::Greeting { .. }, Sign::Greeted(Ok(()))) => {
                Some((Self::Ready, Some(Act::Announce)))
            }
            (Self::Greeting { .. }, Sign::Greeted(Err(reason))) => {
                stop(Cause::Unhealthy(Fault::Handshake(reason)))
            }
            (Self::Launching { .. } | Self::Greeting { .. }, Sign::TimeUp) => {
                stop(Cause::Unhealthy(Fault::NotReady(limits.start)))
            }
            (Self::Ready, Sign::Ordered(cause, Manner::Drain)) => {
                Some((Self::Draining { cause, until: now + limits.drain }, None))
            }
            (Self::Ready, Sign::Idle) => stop(Cause::Idle),
            (
                Self::Draining { cause, .. },
                Sign::Ordered(_, Manner::Now) | Sign::Quiet | Sign::TimeUp,
            ) => stop(cause.clone()),
            (Self::Silenced { fault, .. }, Sign::TimeUp) => stop(Cause::Unhealthy(fault.clone())),
            (_, Sign::Ordered(cause, _)) => stop(cause),
            (_, Sign::Faulty(fault @ (Fault::OutputClosed | Fault::InputClosed))) => {
                Some((Self::Silenced { fault, until: now + EXIT_LAG }, None))
            }
            (_, Sign::Faulty(fault)) => stop(Cause::Unhealthy(fault)),
            // Late events of an earlier phase.
            (_, Sign::Running | Sign::Greeted(_) | Sign::Idle | Sign::Quiet | Sign::TimeUp) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events from `Launching` on. Returns the final phase and the side effects.
    fn live(signs: impl IntoIterator<Item = Sign>) -> (Phase, Vec<Act>) {
        let (limits, now) = (ServerLimits::default(), Instant::now());
        let mut phase = Phase::launching(&limits, now);
        let acts = signs.into_iter().filter_map(|sign| phase.on(sign, &limits, now)).collect();
        (phase, acts)
    }

    fn ready() -> [Sign; 2] {
        [Sign::Running, Sign::Greeted(Ok(()))]
    }

    #[test]
    fn an_instance_starts_drains_and_stops() {
        let drain = [Sign::Ordered(Cause::Replaced, Manner::Drain), Sign::Quiet, Sign::Ended];
        let (phase, acts) = live(ready().into_iter().chain(drain));
        assert_eq!(phase, Phase::Over);
        assert_eq!(acts, [Act::Greet, Act::Announce, Act::Stop]);
    }

    #[test]
    fn two_reasons_to_stop_stop_it_once() {
        let ends = [
            Sign::Exited,
            Sign::Ordered(Cause::Operator, Manner::Now),
            Sign::Faulty(Fault::LongLine(1)),
            Sign::Greeted(Err("no".into())),
            Sign::TimeUp,
        ];
        for first in &ends {
            for second in &ends {
                let (phase, acts) = live([Sign::Running, first.clone(), second.clone()]);
                assert!(phase.cause().is_some(), "{first:?} {second:?}");
                assert_eq!(acts, [Act::Greet, Act::Stop], "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn an_exit_explains_a_closed_output() {
        let closed = Sign::Faulty(Fault::OutputClosed);
        let (phase, _) = live(ready().into_iter().chain([closed.clone(), Sign::Exited]));
        assert_eq!(phase, Phase::Stopping(Cause::Exited));
        let lost = Fault::Lost("why".into());
        let (phase, _) =
            live(ready().into_iter().chain([closed.clone(), Sign::Faulty(lost.clone())]));
        assert_eq!(phase, Phase::Stopping(Cause::Unhealthy(lost)));
        let (phase, _) = live(ready().into_iter().chain([closed, Sign::TimeUp]));
        assert_eq!(phase, Phase::Stopping(Cause::Unhealthy(Fault::OutputClosed)));
    }

    #[test]
    fn a_handshake_that_ends_late_changes_nothing() {
        let late =
            [Sign::Running, Sign::Ordered(Cause::Abandoned, Manner::Now), Sign::Greeted(Ok(()))];
        let (phase, acts) = live(late);
        assert_eq!(phase, Phase::Stopping(Cause::Abandoned));
        assert_eq!(acts, [Act::Greet, Act::Stop]);
    }
}
