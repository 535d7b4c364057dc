//! Calls that have to wait for their turn at an instance.

use std::sync::Arc;

use ostler::keeper::{Demand, Turn};
use tokio::time::timeout;

use super::Session;
use super::held::Held;
use super::parcel::{Parcel, Place};
use super::reach::Errand;
use crate::protocol::message::code;
use crate::upstream::{Admission, Downstream};

/// What a call needs to begin at an instance.
pub(super) struct Pass {
    pub(super) turn: Turn,
    /// Of an instance that serves one calling session at a time.
    pub(super) admission: Option<Admission>,
}

impl Held {
    /// What a call of this client needs, if it can be had at once.
    fn try_pass(&self) -> Option<Pass> {
        let upstream = &self.attachment.upstream;
        let admission = if upstream.has_one_caller() {
            Some(upstream.admit(self.client.number())?)
        } else {
            None
        };
        Some(Pass { turn: self.lease.try_turn()?, admission })
    }

    /// The same, waited for. Its place in the order of calls is that of now.
    fn pass(&self) -> impl Future<Output = Pass> + Send + use<> {
        let upstream = &self.attachment.upstream;
        let admission = upstream.has_one_caller().then(|| upstream.queue_up(self.client.number()));
        let lease = self.lease.clone();
        async move {
            let admission = match admission {
                // The queue drops a place only after its request was given up.
                Some(admission) => admission.await.ok(),
                None => None,
            };
            Pass { turn: lease.turn().await, admission }
        }
    }
}

impl Session {
    /// Sends a request when it is its turn.
    pub(super) fn send_in_turn(&mut self, server: &Arc<str>, held: &Held, mut parcel: Parcel) {
        if let Some(pass) = held.try_pass() {
            return self.send_now(server, held, parcel, pass.turn);
        }
        if self.may_move(server, held, &parcel) {
            parcel.has_moved = true;
            self.let_go(server);
            return self.forward(server, parcel);
        }
        let (server, pass, id) = (Arc::clone(server), held.pass(), parcel.id());
        let has_one_caller = held.attachment.upstream.has_one_caller();
        let limit = self.scope.queue_timeout();
        let errand = self.errands.spawn(async move {
            let pass = timeout(limit, pass).await;
            let why = if has_one_caller {
                "it serves one session at a time, and others had calls with it"
            } else {
                "as many calls as `maxConcurrency` allows were in flight"
            };
            let pass = pass.map_err(|_| format!("{server}: {why} for {limit:?}"));
            Errand::Turn(server, parcel, pass)
        });
        self.waiting.insert(id, |_| Place::Errand(errand));
    }

    /// It is the turn of a request, or it has waited for too long.
    pub(super) fn take_turn(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        pass: Result<Pass, String>,
    ) {
        self.waiting.remove(&parcel.id());
        let pass = match pass {
            Ok(pass) => pass,
            Err(text) => {
                return self.client.fail(&parcel.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        };
        let held = self.held(server).cloned();
        let is_there = |held: &Held| {
            let upstream = &held.attachment.upstream;
            pass.admission.as_ref().is_none_or(|admission| admission.is_of(upstream))
        };
        match held.filter(is_there) {
            Some(held) => self.send_now(server, &held, parcel, pass.turn),
            None => self.forward(server, parcel),
        }
    }

    /// Whether there is or can be an instance that no other session has calls with. A session with subscriptions stays
    /// where they are.
    fn may_move(&self, server: &Arc<str>, held: &Held, parcel: &Parcel) -> bool {
        let can_be_elsewhere = || {
            let demand = Demand { is_undivided: true, ..self.demand_now(server) };
            self.menu.id(server).is_some_and(|id| self.scope.has_undivided(&id, &demand))
        };
        held.attachment.upstream.has_one_caller()
            && !parcel.has_moved
            && self.client.topics(|of| *of == **server).is_empty()
            && can_be_elsewhere()
    }
}
