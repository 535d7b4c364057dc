//! The task of one instance, from its start to the proof of its end.
//!
//! The driver owns the backend's hold on the instance. It selects over backend events, orders of the plan, the deadline
//! of the current phase, and the tasks that read stdout and stderr, flush stdin and run the handshake. Each result
//! becomes an event of the state machine in `phase`, whose side effects the driver carries out. It reports readiness, the
//! beginning of the stop and the outcome to the plan. If the task is dropped before the outcome is known, a guard
//! reports the instance as lost.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::{sleep_until, timeout};

use super::cause::{Cause, Ending, Fault, NotStarted};
use super::config::{Server, ServerLimits, Speech};
use super::event::What;
use super::key::Key;
use super::line::{Line, Talk, drain_stderr, hear};
use super::phase::{Effect, Phase, PhaseEvent};
use super::plan::Manner;
use super::shell::Shell;
use crate::backend::{Hold, Started};
use crate::event::Event;
use crate::fence::StartError;
use crate::id::InstanceId;
use crate::ladder::Step;
use crate::outcome::{Outcome, Proof};

/// Orders of the plan to a driver.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// Stop, for this cause and in this manner.
    pub(super) end: Option<(Cause, Manner)>,
    /// Current limits of the server.
    pub(super) limits: ServerLimits,
}

/// Inputs of a driver, before the start.
pub(super) struct Driver {
    pub(super) shell: Arc<Shell>,
    pub(super) number: u64,
    pub(super) key: Key,
    pub(super) server: Arc<Server>,
    pub(super) line: Arc<Line>,
    pub(super) orders: watch::Receiver<Orders>,
}

/// Driver of an instance whose start was requested.
struct RunningInstance {
    driver: Driver,
    /// `None` before the start, and once nothing is left.
    hold: Option<Box<dyn Hold>>,
    /// Its id in the ledger, once it is on record.
    id: Option<InstanceId>,
    phase: Phase,
    status: Option<ExitStatus>,
    was_ready: bool,
    /// How it ended, as its callers were told; set when it begins to stop.
    ending: Option<Arc<Ending>>,
}

/// What woke the driver.
enum Wakeup {
    Event(Event),
    /// Orders have changed; `false` if the keeper is gone.
    Orders(bool),
    TimeUp,
    Phase(PhaseEvent),
}

impl Driver {
    /// Starts the instance and drives it to the proof of its end.
    pub(super) async fn drive(self) {
        let mut guard =
            LossGuard { shell: Arc::clone(&self.shell), number: self.number, told: false };
        let line = Arc::clone(&self.line);
        let phase = Phase::launching(&self.server.limits, now());
        match self.shell.start(&self.server).await {
            Ok(started) => self.running(phase).run(started).await,
            Err(StartError::Refused(refusal)) => {
                let reason = self.server.ambient.explain(refusal);
                self.running(phase).give_up(reason);
            }
            Err(error) => {
                let reason = match std::error::Error::source(&error) {
                    Some(source) => format!("{error}: {source}"),
                    None => error.to_string(),
                };
                self.running(phase).give_up(NotStarted::Failed(reason));
            }
        }
        line.close_stderr();
        guard.told = true;
    }

    fn running(self, phase: Phase) -> RunningInstance {
        RunningInstance {
            driver: self,
            hold: None,
            id: None,
            phase,
            status: None,
            was_ready: false,
            ending: None,
        }
    }
}

impl RunningInstance {
    async fn run(mut self, started: Started) {
        let Started { id, hold, stdin, stdout, stderr } = started;
        let (line, server) = (Arc::clone(&self.driver.line), Arc::clone(&self.driver.server));
        line.open(stdin);
        self.hold = Some(hold);
        self.driver.shell.recorded(self.driver.number, id);
        line.identify(id);
        self.id = Some(id);
        let talk = Talk::new(Arc::clone(&line), self.driver.key.clone(), self.driver.number);
        let mut reading = match server.speech {
            Speech::Messages => Fused::new(Box::pin(hear(stdout, &talk, &*server.listener))),
            Speech::Bytes => {
                line.leave_output(stdout);
                Fused::none()
            }
        };
        let mut draining = Fused::new(Box::pin(drain_stderr(stderr, &line)));
        let mut writing = Fused::new(Box::pin(line.flush()));
        let mut greeting = Fused::none();
        while !self.phase.is_over() {
            let mut wakeup = tokio::select! {
                biased;
                wakeup = self.next_wakeup() => wakeup,
                fault = reading.next() => Wakeup::Phase(PhaseEvent::Faulty(fault)),
                fault = writing.next() => Wakeup::Phase(PhaseEvent::Faulty(fault)),
                () = draining.next() => continue,
                greeted = greeting.next() => Wakeup::Phase(PhaseEvent::Greeted(greeted)),
            };
            if let Wakeup::Event(Event::Exited(_) | Event::Lost(_)) = &wakeup {
                if self.ending.is_none() {
                    // Its pipes hold its last output, which the runtime may not have seen yet.
                    let rest = async { tokio::join!(reading.finish(), draining.finish()) };
                    let _ = timeout(line.limits().last_output, rest).await;
                } else {
                    // Its last output explains nothing more. Pipes that have ended are closed now.
                    reading.poll_once().await;
                    draining.poll_once().await;
                }
            }
            if let Wakeup::Event(Event::Empty(_)) = &wakeup {
                // No process of it can write any more, so the host's sink gets the rest now.
                let _ = timeout(line.limits().last_output, draining.finish()).await;
            }
            if let Wakeup::Phase(PhaseEvent::Greeted(Err(_))) = &wakeup
                && line.is_input_closed()
            {
                // The handshake failed because the server closed its input, which explains more.
                wakeup = Wakeup::Phase(PhaseEvent::Faulty(Fault::InputClosed));
            }
            let Some(event) = self.phase_event(wakeup).await else { continue };
            if self.apply(event) == Some(Effect::Greet) {
                greeting = Fused::new(server.handshake.greet(&talk));
            }
        }
    }

    /// Waits for a backend event, an order, the end of the last use or a deadline. Cancel safe.
    async fn next_wakeup(&mut self) -> Wakeup {
        let until = self.phase.until().or_else(|| self.idle_at());
        let time_up = async {
            match until {
                Some(until) => sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let is_draining = matches!(self.phase, Phase::Draining { .. });
        let Self { hold, driver, .. } = self;
        let Some(hold) = hold else { return Wakeup::Phase(PhaseEvent::Ended) };
        tokio::select! {
            biased;
            event = poll_fn(|cx| hold.poll_event(cx)) => Wakeup::Event(event),
            changed = driver.orders.changed() => Wakeup::Orders(changed.is_ok()),
            () = driver.line.usage().quiet(), if is_draining => Wakeup::Phase(PhaseEvent::Quiet),
            () = time_up => Wakeup::TimeUp,
        }
    }

    /// When its idle limit ends, if it is not used before.
    fn idle_at(&self) -> Option<Instant> {
        if self.phase != Phase::Ready {
            return None;
        }
        let (usage, limits) = (self.driver.line.usage(), self.driver.line.limits());
        // An instance in use cannot become idle before now.
        let last = if usage.count() > 0 { now() } else { usage.last() };
        Some(last + limits.idle?)
    }

    async fn phase_event(&mut self, wakeup: Wakeup) -> Option<PhaseEvent> {
        match wakeup {
            Wakeup::Phase(event) => Some(event),
            Wakeup::Event(event) => self.on_event(event).await,
            Wakeup::Orders(true) => {
                let orders = self.driver.orders.borrow_and_update().clone();
                self.driver.line.adjust(orders.limits);
                orders.end.map(|(cause, manner)| PhaseEvent::Ordered(cause, manner))
            }
            Wakeup::Orders(false) => Some(PhaseEvent::Ordered(Cause::KeeperClosed, Manner::Now)),
            Wakeup::TimeUp if self.phase != Phase::Ready => Some(PhaseEvent::TimeUp),
            Wakeup::TimeUp => {
                let is_time = self.idle_at().is_some_and(|at| at <= now());
                (is_time && self.driver.shell.retire_if_idle(self.driver.number))
                    .then_some(PhaseEvent::Idle)
            }
        }
    }

    async fn on_event(&mut self, event: Event) -> Option<PhaseEvent> {
        match event {
            Event::Started { whereabouts, level } => {
                let (shell, number) = (&self.driver.shell, self.driver.number);
                let what = match (whereabouts.place(), self.id) {
                    (Some(place), _) => Some(What::Reached { place: place.to_owned() }),
                    (None, id) => id.map(|instance| What::Running { instance, level }),
                };
                shell.whereabouts(number, whereabouts);
                if let Some(what) = what {
                    shell.tell(number, what);
                }
                Some(PhaseEvent::Running)
            }
            Event::Refused(refusal) => {
                self.part().await;
                self.give_up(self.driver.server.ambient.explain(refusal));
                Some(PhaseEvent::Ended)
            }
            Event::Exited(status) => {
                self.status = Some(status);
                Some(PhaseEvent::Exited)
            }
            Event::Remaining(residue) => {
                // Another process has stopped it, unless the driver has; it takes no more calls.
                self.apply(PhaseEvent::Ordered(Cause::Operator, Manner::Now));
                self.settle(Some(&Outcome::Unverified(residue)));
                None
            }
            Event::Exceeded(excess) => {
                self.driver.shell.tell(self.driver.number, What::Exceeded(excess));
                None
            }
            Event::Removed(container) => {
                self.driver.shell.tell(self.driver.number, What::Removed(container));
                None
            }
            // Callers that wait for its end learn it from the outcome.
            Event::Clearing(_) => None,
            Event::Unfollowed(reason) => {
                self.driver.shell.tell(self.driver.number, What::Unfollowed(reason));
                None
            }
            Event::Lost(reason) => Some(PhaseEvent::Faulty(Fault::Lost(reason))),
            Event::Empty(proof) => Some(self.gone(proof).await),
            Event::GuardianLost => {
                let hold = self.hold.take()?;
                self.begin_end(Cause::Unhealthy(Fault::GuardianKilled));
                let outcome = hold.rescue().await;
                self.settle(Some(&outcome));
                Some(PhaseEvent::Ended)
            }
        }
    }

    /// Records the proof that nothing is left.
    async fn gone(&mut self, proof: Proof) -> PhaseEvent {
        self.part().await;
        self.settle(Some(&Outcome::Gone(proof)));
        PhaseEvent::Ended
    }

    async fn part(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.part().await;
        }
    }

    /// Applies an event to the phase and carries out the side effect. The caller begins a handshake.
    fn apply(&mut self, event: PhaseEvent) -> Option<Effect> {
        let limits = self.driver.line.limits();
        let effect = self.phase.on(event, &limits, now())?;
        match effect {
            Effect::Announce => {
                self.was_ready = true;
                self.driver.shell.with(|plan, now| plan.ready(self.driver.number, now));
            }
            Effect::Stop => {
                if let Some(cause) = self.phase.cause().cloned() {
                    self.begin_end(cause);
                }
            }
            Effect::Greet => {}
        }
        Some(effect)
    }

    /// Begins to stop: reports it to the plan, fails all calls, closes stdin and starts the ladder. Once.
    fn begin_end(&mut self, cause: Cause) {
        if self.ending.is_some() {
            return;
        }
        let ending = self.driver.line.ending(cause);
        // Other text on stdout did not keep it from becoming ready, so it explains nothing.
        let stray = ending.stray.clone().filter(|_| !self.was_ready);
        let ending = Arc::new(Ending { status: self.status, stray, ..ending });
        self.ending = Some(Arc::clone(&ending));
        self.driver.shell.with(|plan, now| plan.leaving(self.driver.number, &ending, now));
        self.driver.line.end(&ending);
        self.driver.line.close_input();
        if let Some(hold) = &mut self.hold {
            hold.stop(Step::Closing);
        }
    }

    fn settle(&mut self, outcome: Option<&Outcome>) {
        // If it has not begun to stop here, another process stopped it, for an unknown reason.
        self.begin_end(Cause::Operator);
        if !matches!(outcome, Some(Outcome::Unverified(_))) {
            self.driver.line.close_stderr();
        }
        if let Some(ending) = &self.ending {
            let number = self.driver.number;
            self.driver.shell.with(|plan, now| plan.settled(number, ending, outcome, now));
        }
    }

    fn give_up(&mut self, reason: NotStarted) {
        self.begin_end(Cause::NotStarted(reason));
        self.settle(None);
    }
}

/// Guard that reports the instance as lost if the task is dropped before its end is known: by a panic,
/// or with its runtime.
struct LossGuard {
    shell: Arc<Shell>,
    number: u64,
    told: bool,
}

impl Drop for LossGuard {
    fn drop(&mut self) {
        if !self.told {
            self.shell.lost(self.number);
        }
    }
}

/// A future that is polled at most until it is ready.
struct Fused<'a, T>(Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>);

impl<'a, T> Fused<'a, T> {
    fn new(part: Pin<Box<dyn Future<Output = T> + Send + 'a>>) -> Self {
        Self(Some(part))
    }

    fn none() -> Self {
        Self(None)
    }

    /// Waits for its result. Pends forever after that.
    async fn next(&mut self) -> T {
        poll_fn(|cx| {
            let Some(part) = &mut self.0 else { return Poll::Pending };
            let result = part.as_mut().poll(cx);
            if result.is_ready() {
                self.0 = None;
            }
            result
        })
        .await
    }

    /// Waits until it has ended, if it has not yet.
    async fn finish(&mut self) {
        if self.0.is_some() {
            self.next().await;
        }
    }

    /// Polls it once and returns its result, if it is ready.
    async fn poll_once(&mut self) -> Option<T> {
        let mut next = pin!(self.next());
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
