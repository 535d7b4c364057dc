//! Calls that have to wait for their turn at an instance.

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

/// What a call needs to begin at an instance.
pub(super) struct CallPermit {
    pub(super) turn: Turn,
    /// Of an instance that serves one calling session at a time.
    pub(super) caller_permit: Option<CallerPermit>,
}

impl LeasedInstance {
    /// What a call of this client needs, if it can be had at once.
    fn try_permit(&self) -> Option<CallPermit> {
        let upstream = &self.attachment.upstream;
        let caller_permit = if upstream.has_one_caller() {
            Some(upstream.admit(self.client.number())?)
        } else {
            None
        };
        Some(CallPermit { turn: self.lease.try_turn()?, caller_permit })
    }

    /// The same, waited for. Its place in the order of calls is that of now.
    fn permit(&self) -> impl Future<Output = CallPermit> + Send + use<> {
        let upstream = &self.attachment.upstream;
        let caller_permit =
            upstream.has_one_caller().then(|| upstream.queue_up(self.client.number()));
        let lease = self.lease.clone();
        async move {
            let caller_permit = match caller_permit {
                // The queue drops a place only after its request was given up.
                Some(caller_permit) => caller_permit.await.ok(),
                None => None,
            };
            CallPermit { turn: lease.turn().await, caller_permit }
        }
    }
}

impl Session {
    /// Sends a request when it is its turn.
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

    /// It is the turn of a request, or it has waited for too long.
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

    /// Whether there is or can be an instance that no other session has calls with. A session with subscriptions stays
    /// where they are.
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
