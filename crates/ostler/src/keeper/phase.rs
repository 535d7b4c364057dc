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
pub(super) enum PhaseEvent {
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
pub(super) enum Effect {
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
    pub(super) fn on(
        &mut self,
        event: PhaseEvent,
        limits: &ServerLimits,
        now: Instant,
    ) -> Option<Effect> {
        let (next, effect) = self.next(event, limits, now)?;
        *self = next;
        effect
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

    fn next(
        &self,
        event: PhaseEvent,
        limits: &ServerLimits,
        now: Instant,
    ) -> Option<(Self, Option<Effect>)> {
        let stop = |cause| Some((Self::Stopping(cause), Some(Effect::Stop)));
        match (self, event) {
            (_, PhaseEvent::Ended) => Some((Self::Over, None)),
            // A lost connection explains a closed pipe, as an exit does.
            (Self::Silenced { .. }, PhaseEvent::Faulty(fault @ Fault::Lost(_))) => {
                stop(Cause::Unhealthy(fault))
            }
            // It is being stopped already.
            (Self::Over | Self::Stopping(_), _)
            | (Self::Draining { .. }, PhaseEvent::Ordered(_, Manner::Drain))
            | (Self::Silenced { .. }, PhaseEvent::Faulty(_)) => None,
            (_, PhaseEvent::Exited) => stop(Cause::Exited),
            (Self::Launching { until }, PhaseEvent::Running) => {
                Some((Self::Greeting { until: *until }, Some(Effect::Greet)))
            }
            (Self::Greeting { .. }, PhaseEvent::Greeted(Ok(()))) => {
                Some((Self::Ready, Some(Effect::Announce)))
            }
            (Self::Greeting { .. }, PhaseEvent::Greeted(Err(reason))) => {
                stop(Cause::Unhealthy(Fault::Handshake(reason)))
            }
            (Self::Launching { .. } | Self::Greeting { .. }, PhaseEvent::TimeUp) => {
                stop(Cause::Unhealthy(Fault::NotReady(limits.start)))
            }
            (Self::Ready, PhaseEvent::Ordered(cause, Manner::Drain)) => {
                Some((Self::Draining { cause, until: now + limits.drain }, None))
            }
            (Self::Ready, PhaseEvent::Idle) => stop(Cause::Idle),
            (
                Self::Draining { cause, .. },
                PhaseEvent::Ordered(_, Manner::Now) | PhaseEvent::Quiet | PhaseEvent::TimeUp,
            ) => stop(cause.clone()),
            (Self::Silenced { fault, .. }, PhaseEvent::TimeUp) => {
                stop(Cause::Unhealthy(fault.clone()))
            }
            (_, PhaseEvent::Ordered(cause, _)) => stop(cause),
            (_, PhaseEvent::Faulty(fault @ (Fault::OutputClosed | Fault::InputClosed))) => {
                Some((Self::Silenced { fault, until: now + EXIT_LAG }, None))
            }
            (_, PhaseEvent::Faulty(fault)) => stop(Cause::Unhealthy(fault)),
            // Late events of an earlier phase.
            (
                _,
                PhaseEvent::Running
                | PhaseEvent::Greeted(_)
                | PhaseEvent::Idle
                | PhaseEvent::Quiet
                | PhaseEvent::TimeUp,
            ) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events from `Launching` on. Returns the final phase and the side effects.
    fn live(events: impl IntoIterator<Item = PhaseEvent>) -> (Phase, Vec<Effect>) {
        let (limits, now) = (ServerLimits::default(), Instant::now());
        let mut phase = Phase::launching(&limits, now);
        let effects =
            events.into_iter().filter_map(|event| phase.on(event, &limits, now)).collect();
        (phase, effects)
    }

    fn ready() -> [PhaseEvent; 2] {
        [PhaseEvent::Running, PhaseEvent::Greeted(Ok(()))]
    }

    #[test]
    fn an_instance_starts_drains_and_stops() {
        let drain = [
            PhaseEvent::Ordered(Cause::Replaced, Manner::Drain),
            PhaseEvent::Quiet,
            PhaseEvent::Ended,
        ];
        let (phase, effects) = live(ready().into_iter().chain(drain));
        assert_eq!(phase, Phase::Over);
        assert_eq!(effects, [Effect::Greet, Effect::Announce, Effect::Stop]);
    }

    #[test]
    fn two_reasons_to_stop_stop_it_once() {
        let ends = [
            PhaseEvent::Exited,
            PhaseEvent::Ordered(Cause::Operator, Manner::Now),
            PhaseEvent::Faulty(Fault::LongLine(1)),
            PhaseEvent::Greeted(Err("no".into())),
            PhaseEvent::TimeUp,
        ];
        for first in &ends {
            for second in &ends {
                let (phase, effects) = live([PhaseEvent::Running, first.clone(), second.clone()]);
                assert!(phase.cause().is_some(), "{first:?} {second:?}");
                assert_eq!(effects, [Effect::Greet, Effect::Stop], "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn an_exit_explains_a_closed_output() {
        let closed = PhaseEvent::Faulty(Fault::OutputClosed);
        let (phase, _) = live(ready().into_iter().chain([closed.clone(), PhaseEvent::Exited]));
        assert_eq!(phase, Phase::Stopping(Cause::Exited));
        let lost = Fault::Lost("why".into());
        let (phase, _) =
            live(ready().into_iter().chain([closed.clone(), PhaseEvent::Faulty(lost.clone())]));
        assert_eq!(phase, Phase::Stopping(Cause::Unhealthy(lost)));
        let (phase, _) = live(ready().into_iter().chain([closed, PhaseEvent::TimeUp]));
        assert_eq!(phase, Phase::Stopping(Cause::Unhealthy(Fault::OutputClosed)));
    }

    #[test]
    fn a_handshake_that_ends_late_changes_nothing() {
        let late = [
            PhaseEvent::Running,
            PhaseEvent::Ordered(Cause::Abandoned, Manner::Now),
            PhaseEvent::Greeted(Ok(())),
        ];
        let (phase, effects) = live(late);
        assert_eq!(phase, Phase::Stopping(Cause::Abandoned));
        assert_eq!(effects, [Effect::Greet, Effect::Stop]);
    }
}
