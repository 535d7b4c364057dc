//! Servers with an instance for each call (`share: call`).

use std::sync::Arc;

use ostler::keeper::CallError;

use super::Session;
use super::links::{Grant, LeaseError, TaskOutput};
use super::request::ClientRequest;
use crate::client::Location;
use crate::protocol::message::code;

impl Session {
    /// Sends a request to an instance that serves this call only.
    pub(super) fn forward_per_call(&mut self, server: &Arc<str>, request: ClientRequest) {
        let id = request.id();
        let output =
            self.for_lease(server, |server, lease| TaskOutput::PerCall(server, request, lease));
        self.client.calls().wait_at(&id, Location::Task(output));
    }

    /// Sends a request to the instance that was acquired for it, or fails it.
    pub(super) fn call_on_own_instance(
        &mut self,
        server: &Arc<str>,
        request: ClientRequest,
        granted: Result<Grant, LeaseError>,
    ) {
        let grant = match granted {
            Ok(grant) => grant,
            Err(reason) => {
                let failure = reason.failure(server);
                self.fail(&request, &failure);
                let waiting = self.link(server).refuse(failure);
                debug_assert!(waiting.is_empty(), "a server with `share: call` has no queue");
                return;
            }
        };
        let turn = grant.lease.try_turn();
        let (Some(leased), Some(turn)) = (self.hold_lease(server, grant), turn) else {
            // The instance has ended meanwhile.
            return self.forward_per_call(server, request);
        };
        match leased.send(&request, turn) {
            Ok(()) => {}
            // The request was not sent, so the next instance can have it.
            Err(CallError::Closed) => {
                // The call is closed if the client has already got an error because the instance ended.
                if self.client.calls().is_open(&request.id()) {
                    self.forward_per_call(server, request);
                }
            }
            Err(error) => {
                let text = error.to_string();
                self.client.fail(&request.id(), code::INTERNAL, &text, Some("unavailable"));
            }
        }
    }
}
