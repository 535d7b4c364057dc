//! Turns: when a request may begin at its instance.
//!
//! Two things limit that: the concurrency limit of the server (`maxConcurrency`, a `Turn` of the keeper) and, at an
//! instance that serves one calling session at a time, the calls of other sessions (a `CallerPermit`). If one of them
//! is not free, the session moves to another instance if it may, at most once for
//! each request, or a task waits for the permits, no longer than the keeper's queue timeout.

use std::sync::Arc;

use ostler::keeper::Demand;
use tokio::time::timeout;

use super::Session;
use super::leased::{CallPermit, LeasedInstance};
use super::links::TaskOutput;
use super::request::ClientRequest;
use crate::client::Location;
use crate::protocol::message::code;
use crate::upstream::Downstream as _;

impl LeasedInstance {
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
    /// Sends a request once its instance, which is busy, may take it.
    pub(super) fn send_in_turn(
        &mut self,
        server: &Arc<str>,
        leased: &LeasedInstance,
        mut request: ClientRequest,
    ) {
        if self.may_move(server, leased, &request) {
            request.has_moved = true;
            self.let_go(server);
            return self.forward(server, request);
        }
        let (server, permit, id) = (Arc::clone(server), leased.permit(), request.id());
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
            TaskOutput::Turn(server, request, permit)
        });
        self.client.calls().wait_at(&id, Location::Task(output));
    }

    /// Sends a request that has its permit, or fails it after the timeout.
    pub(super) fn take_turn(
        &mut self,
        server: &Arc<str>,
        request: ClientRequest,
        permit: Result<CallPermit, String>,
    ) {
        let permit = match permit {
            Ok(permit) => permit,
            Err(text) => {
                return self.client.fail(&request.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        };
        let leased = self.leased(server).cloned();
        let is_there = |leased: &LeasedInstance| {
            let upstream = &leased.attachment.upstream;
            permit.caller_permit.as_ref().is_none_or(|caller_permit| caller_permit.is_of(upstream))
        };
        match leased.filter(is_there) {
            Some(leased) => self.send_now(server, &leased, request, permit.turn),
            None => self.forward(server, request),
        }
    }

    /// Whether the session may take another lease for this request: an instance without calls of other sessions
    /// exists or can be started. A session with subscriptions stays with its instance.
    fn may_move(
        &mut self,
        server: &Arc<str>,
        leased: &LeasedInstance,
        request: &ClientRequest,
    ) -> bool {
        if !leased.attachment.upstream.has_one_caller()
            || request.has_moved
            || !self.client.topics(|of| *of == **server).is_empty()
        {
            return false;
        }
        let demand = Demand { is_undivided: true, ..self.demand_now(server) };
        let id = self.servers.set.id(server);
        id.is_some_and(|id| self.scope.has_undivided(&id, &demand))
    }
}
