//! Servers of which each call has an instance of its own (`share: call`).

use std::sync::Arc;

use ostler::keeper::CallError;

use super::Session;
use super::parcel::{Parcel, Place};
use super::reach::{Errand, Grant, NoLease};
use crate::protocol::message::code;

impl Session {
    /// Brings a request to an instance that nobody else uses, before or after.
    pub(super) fn forward_alone(&mut self, server: &Arc<str>, parcel: Parcel) {
        let id = parcel.id();
        let errand = self.for_lease(server, |server, lease| Errand::Alone(server, parcel, lease));
        self.waiting.insert(id, |_| Place::Errand(errand));
    }

    /// A call has got its instance, or none.
    pub(super) fn call_alone(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        granted: Result<Grant, NoLease>,
    ) {
        self.waiting.remove(&parcel.id());
        let grant = match granted {
            Ok(grant) => grant,
            Err(reason) => return self.refuse(server, [parcel], &reason),
        };
        let turn = grant.lease.try_turn();
        let (Some(held), Some(turn)) = (self.hold_lease(server, grant), turn) else {
            // It has ended since.
            return self.forward_alone(server, parcel);
        };
        match held.send(&parcel, turn) {
            Ok(()) => {}
            // It was not sent, so that the next instance can have it.
            Err(CallError::Closed) => self.forward_alone(server, parcel),
            Err(error) => {
                let text = error.to_string();
                self.client.fail(&parcel.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        }
    }
}
