//! Servers with an instance for each call (`share: call`).

use std::sync::Arc;

use ostler::keeper::CallError;

use super::Session;
use super::links::{Grant, LeaseError, TaskOutput};
use super::parcel::Parcel;
use crate::client::Location;
use crate::protocol::message::code;

impl Session {
    /// Sends a request to an instance that serves this call only.
    pub(super) fn forward_per_call(&mut self, server: &Arc<str>, parcel: Parcel) {
        let id = parcel.id();
        let output =
            self.for_lease(server, |server, lease| TaskOutput::PerCall(server, parcel, lease));
        self.client.calls().wait_at(&id, Location::Task(output));
    }

    /// Sends a request to the instance that was acquired for it, or fails it.
    pub(super) fn call_on_own_instance(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        granted: Result<Grant, LeaseError>,
    ) {
        let grant = match granted {
            Ok(grant) => grant,
            Err(reason) => return self.refuse(server, [parcel], &reason),
        };
        let turn = grant.lease.try_turn();
        let (Some(leased), Some(turn)) = (self.hold_lease(server, grant), turn) else {
            // The instance has ended meanwhile.
            return self.forward_per_call(server, parcel);
        };
        match leased.send(&parcel, turn) {
            Ok(()) => {}
            // The request was not sent, so the next instance can have it.
            Err(CallError::Closed) => {
                // The call is closed if the client has already got an error because the instance ended.
                if self.client.calls().is_open(&parcel.id()) {
                    self.forward_per_call(server, parcel);
                }
            }
            Err(error) => {
                let text = error.to_string();
                self.client.fail(&parcel.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        }
    }
}
