//! A session's access to one server, as a state machine.
//!
//! ```text
//!          request, wanted              granted
//!   Idle ─────────────────▶ Acquiring ───────────▶ Leased
//!    ▲  ▲                    │     ▲                 │
//!    │  └────── refused ─────┘     │ left            │ request that the instance does not take
//!    │                             │                 ▼
//!    └────────── left ─────────────┴───────────── Closing
//! ```
//!
//! The machine decides and the session acts: each event returns the step to carry out. In `Acquiring` exactly one
//! request for a lease is under way. In `Closing` the instance takes no further requests, but the keeper has not
//! retired it yet, so a new lease has to wait. A server with `share: call` has no lease, and its link is always idle.

use std::collections::BTreeMap;

use crate::upstream::StartFailure;

/// A session's access to one server: `I` is a leased instance, `R` a request.
#[derive(Debug)]
pub(super) struct Link<I, R> {
    state: State<I>,
    /// Requests that wait for a lease, in order of arrival.
    queue: BTreeMap<u64, R>,
    /// Reason why the last request for a lease failed.
    failure: Option<StartFailure>,
}

#[derive(Debug)]
enum State<I> {
    Idle,
    Acquiring,
    Leased(u64, I),
    Closing(u64),
}

/// What the session does after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Step {
    /// Requests a lease.
    Acquire,
    Wait,
}

impl<I, R> Default for Link<I, R> {
    fn default() -> Self {
        Self { state: State::Idle, queue: BTreeMap::new(), failure: None }
    }
}

impl<I, R> Link<I, R> {
    pub(super) fn leased(&self) -> Option<&I> {
        match &self.state {
            State::Leased(_, instance) => Some(instance),
            State::Idle | State::Acquiring | State::Closing(_) => None,
        }
    }

    /// Whether the session has a lease, or will have one.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    pub(super) fn failure(&self) -> Option<&StartFailure> {
        self.failure.as_ref()
    }

    pub(super) fn forget_failure(&mut self) {
        self.failure = None;
    }

    /// The session wants a lease without having a request.
    pub(super) fn want(&mut self) -> Step {
        if self.is_active() {
            return Step::Wait;
        }
        self.state = State::Acquiring;
        Step::Acquire
    }

    /// A request has to wait for a lease: there is none yet, or its instance takes no more requests. `has_ended`
    /// tells whether the keeper has retired that instance.
    pub(super) fn enqueue(&mut self, number: u64, request: R, has_ended: bool) -> Step {
        self.queue.insert(number, request);
        match self.state {
            State::Leased(instance, _) if !has_ended => {
                self.state = State::Closing(instance);
                Step::Wait
            }
            State::Idle | State::Leased(..) => {
                self.state = State::Acquiring;
                Step::Acquire
            }
            State::Acquiring | State::Closing(_) => Step::Wait,
        }
    }

    /// The keeper has granted a lease on the instance with this number. Returns the requests that waited for it.
    pub(super) fn grant(&mut self, number: u64, instance: I) -> Vec<R> {
        self.state = State::Leased(number, instance);
        self.failure = None;
        self.take_queue()
    }

    /// The keeper has granted a lease on an instance that has ended meanwhile.
    pub(super) fn grant_too_late(&mut self, number: u64) {
        self.state = State::Closing(number);
    }

    /// The keeper has refused a lease. Returns the requests that waited for it.
    pub(super) fn refuse(&mut self, failure: StartFailure) -> Vec<R> {
        self.failure = Some(failure);
        if matches!(self.state, State::Acquiring) {
            self.state = State::Idle;
            return self.take_queue();
        }
        Vec::new()
    }

    /// The keeper has retired the instance with this number. `is_needed` tells whether the session needs another one
    /// even without a request.
    pub(super) fn retire(&mut self, number: u64, is_needed: bool) -> Step {
        match self.state {
            State::Leased(present, _) | State::Closing(present) if present != number => Step::Wait,
            State::Acquiring => Step::Wait,
            State::Idle | State::Leased(..) | State::Closing(_) => {
                self.state = State::Idle;
                if is_needed || !self.queue.is_empty() { self.want() } else { Step::Wait }
            }
        }
    }

    /// The session gives the lease back.
    pub(super) fn release(&mut self) -> Option<I> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Leased(_, instance) => Some(instance),
            state => {
                self.state = state;
                None
            }
        }
    }

    /// Takes a waiting request back. Returns false if it is not here, or `is_cancellable` refuses.
    pub(super) fn withdraw(&mut self, number: u64, is_cancellable: impl Fn(&R) -> bool) -> bool {
        self.queue.get(&number).is_some_and(is_cancellable) && self.queue.remove(&number).is_some()
    }

    fn take_queue(&mut self) -> Vec<R> {
        std::mem::take(&mut self.queue).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestLink = Link<&'static str, &'static str>;

    fn failure() -> StartFailure {
        StartFailure::new("unavailable", "no room".into())
    }

    #[test]
    fn requests_wait_for_one_lease_and_are_sent_in_order() {
        let mut link = TestLink::default();
        assert_eq!(link.enqueue(1, "a", false), Step::Acquire);
        assert_eq!(link.enqueue(2, "b", false), Step::Wait, "one request for a lease is enough");
        assert_eq!(link.want(), Step::Wait);
        assert_eq!(link.grant(7, "first"), ["a", "b"]);
        assert_eq!(link.leased(), Some(&"first"));
    }

    #[test]
    fn a_refused_lease_fails_waiting_requests_and_the_next_request_tries_again() {
        let mut link = TestLink::default();
        assert_eq!(link.enqueue(1, "a", false), Step::Acquire);
        assert_eq!(link.refuse(failure()), ["a"]);
        assert!(!link.is_active() && link.failure().is_some());
        assert_eq!(link.enqueue(2, "b", false), Step::Acquire);
        assert_eq!(link.grant(7, "first"), ["b"]);
        assert!(link.failure().is_none(), "the server runs");
    }

    #[test]
    fn a_request_that_a_draining_instance_refuses_waits_until_that_is_retired() {
        let mut link = TestLink::default();
        let _ = link.want();
        let _ = link.grant(7, "first");
        assert_eq!(link.enqueue(1, "a", false), Step::Wait);
        assert_eq!(link.retire(6, false), Step::Wait, "another instance");
        assert_eq!(link.retire(7, false), Step::Acquire);
        assert_eq!(link.retire(7, false), Step::Wait, "a lease is requested already");
        assert_eq!(link.grant(8, "second"), ["a"]);
    }

    #[test]
    fn a_request_for_an_instance_that_has_ended_acquires_the_next_one_once() {
        let mut link = TestLink::default();
        let _ = link.want();
        let _ = link.grant(7, "first");
        assert_eq!(link.enqueue(1, "a", true), Step::Acquire);
        assert_eq!(link.retire(7, true), Step::Wait);
        assert_eq!(link.grant(8, "second"), ["a"]);
        assert_eq!(link.retire(7, true), Step::Wait, "the report of the former instance is late");
        assert_eq!(link.leased(), Some(&"second"));
    }

    #[test]
    fn an_instance_that_ended_before_its_lease_came_is_followed_by_another() {
        let mut link = TestLink::default();
        let _ = link.enqueue(1, "a", false);
        link.grant_too_late(7);
        assert_eq!(link.enqueue(2, "b", false), Step::Wait);
        assert_eq!(link.retire(7, false), Step::Acquire);
        assert_eq!(link.grant(8, "second"), ["a", "b"]);
    }

    #[test]
    fn an_ended_instance_is_replaced_only_if_it_is_needed() {
        for (is_needed, step) in [(false, Step::Wait), (true, Step::Acquire)] {
            let mut link = TestLink::default();
            let _ = link.want();
            let _ = link.grant(7, "first");
            assert_eq!(link.retire(7, is_needed), step);
            assert_eq!(link.is_active(), is_needed);
        }
    }

    #[test]
    fn a_waiting_request_can_be_withdrawn_once() {
        let mut link = TestLink::default();
        let _ = link.enqueue(1, "a", false);
        assert!(!link.withdraw(1, |_| false) && !link.withdraw(2, |_| true));
        assert!(link.withdraw(1, |_| true) && !link.withdraw(1, |_| true));
        assert!(link.grant(7, "first").is_empty());
    }

    #[test]
    fn a_lease_is_given_back_only_while_there_is_one() {
        let mut link = TestLink::default();
        assert_eq!(link.release(), None);
        let _ = link.want();
        assert_eq!(link.release(), None);
        assert!(link.is_active(), "the lease that is requested still comes");
        let _ = link.grant(7, "first");
        assert_eq!(link.release(), Some("first"));
        assert!(!link.is_active());
    }
}
