//! Turns: when a request may begin at its instance.
//!
//! Two things limit that: the concurrency limit of the server (`maxConcurrency`, a `Turn` of the keeper) and, at an
//! instance that serves one calling session at a time, the calls of other sessions (a `CallerPermit`). If both are
//! free, the request is sent at once. Otherwise the session moves to another instance if it may, at most once for
//! each request, or a task waits for the permits, no longer than the keeper's queue timeout.

use std::sync::Arc;

use ostler::keeper::{Demand, Turn};
use tokio::time::timeout;

use super::Session;
use super::leased::LeasedInstance;
use super::links::TaskOutput;
use super::parcel::Parcel;
use crate::client::Location;
use crate::protocol::message::code;
use crate::upstream::{CallerPermit, Downstream};

/// Permits that a call needs to begin at an instance.
pub(super) struct CallPermit {
    pub(super) turn: Turn,
    /// For an instance that serves one calling session at a time.
    pub(super) caller_permit: Option<CallerPermit>,
}

impl LeasedInstance {
    /// Permit for a call of this client, if it is free now.
    fn try_permit(&self) -> Option<CallPermit> {
        let upstream = &self.attachment.upstream;
        let caller_permit = if upstream.has_one_caller() {
            Some(upstream.admit(self.client.number())?)
        } else {
            None
        };
        Some(CallPermit { turn: self.lease.try_turn()?, caller_permit })
    }

    /// Waits for a permit. The place in the caller queue is taken now, not when the future is polled first.
    fn permit(&self) -> impl Future<Output = CallPermit> + Send + use<> {
        let upstream = &self.attachment.upstream;
        let caller_permit =
            upstream.has_one_caller().then(|| upstream.queue_up(self.client.number()));
        let lease = self.lease.clone();
        async move {
            let caller_permit = match caller_permit {
                // The queue drops an entry only after its request was withdrawn.
                Some(caller_permit) => caller_permit.await.ok(),
                None => None,
            };
            CallPermit { turn: lease.turn().await, caller_permit }
        }
    }
}

impl Session {
    /// Sends a request as soon as its instance may take it.
    pub(super) fn send_in_turn(
        &mut self,
        server: &Arc<str>,
        leased: &LeasedInstance,
        mut parcel: Parcel,
    ) {
        if let Some(permit) = leased.try_permit() {
            return self.send_now(server, leased, parcel, permit.turn);
        }
        if self.may_move(server, leased, &parcel) {
            parcel.has_moved = true;
            self.let_go(server);
            return self.forward(server, parcel);
        }
        let (server, permit, id) = (Arc::clone(server), leased.permit(), parcel.id());
        let has_one_caller = leased.attachment.upstream.has_one_caller();
        let limit = self.scope.queue_timeout();
        let output = self.tasks.spawn(async move {
            let permit = timeout(limit, permit).await;
            let why = if has_one_caller {
                "it serves one session at a time, and others had calls with it"
            } else {
                "as many calls as `maxConcurrency` allows were in flight"
            };
            let permit = permit.map_err(|_| format!("{server}: {why} for {limit:?}"));
            TaskOutput::Turn(server, parcel, permit)
        });
        self.client.calls().wait_at(&id, Location::Task(output));
    }

    /// Sends a request that has its permit, or fails it after the timeout.
    pub(super) fn take_turn(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        permit: Result<CallPermit, String>,
    ) {
        let permit = match permit {
            Ok(permit) => permit,
            Err(text) => {
                return self.client.fail(&parcel.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        };
        let leased = self.leased(server).cloned();
        let is_there = |leased: &LeasedInstance| {
            let upstream = &leased.attachment.upstream;
            permit.caller_permit.as_ref().is_none_or(|caller_permit| caller_permit.is_of(upstream))
        };
        match leased.filter(is_there) {
            Some(leased) => self.send_now(server, &leased, parcel, permit.turn),
            None => self.forward(server, parcel),
        }
    }

    /// Whether the session may take another lease for this request: an instance without calls of other sessions
    /// exists or can be started. A session with subscriptions stays with its instance.
    fn may_move(&self, server: &Arc<str>, leased: &LeasedInstance, parcel: &Parcel) -> bool {
        let can_be_elsewhere = || {
            let demand = Demand { is_undivided: true, ..self.demand_now(server) };
            self.server_set.id(server).is_some_and(|id| self.scope.has_undivided(&id, &demand))
        };
        leased.attachment.upstream.has_one_caller()
            && !parcel.has_moved
            && self.client.topics(|of| *of == **server).is_empty()
            && can_be_elsewhere()
    }
}
