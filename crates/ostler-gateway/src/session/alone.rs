//! Servers of which each call has an instance of its own (`share: call`).

use std::sync::Arc;
use std::time::Duration;

use ostler::Frame;
use ostler::keeper::{CallError, Lease};
use tokio::time::timeout;

use super::Session;
use super::parcel::{Parcel, Place, Queue};
use super::reach::{Errand, NoLease, Reach, acquire, is_list};
use crate::hub::LISTS;
use crate::message::{self, code};

/// For a server to list all that it has, once it is ready.
const LOOK: Duration = Duration::from_secs(10);

impl Session {
    /// Brings a request to an instance that nobody else uses, before or after.
    pub(super) fn forward_alone(&mut self, server: &Arc<str>, parcel: Parcel) {
        if asks_what_there_is(&parcel.frame) && !self.looked.contains(server) {
            if !matches!(self.reach.get(server), Some(Reach::Waiting(_))) {
                self.look_at(server);
            }
            return self.enqueue(server, parcel);
        }
        let id = parcel.id();
        let errand = self.for_lease(server, |server, lease| Errand::Alone(server, parcel, lease));
        self.waiting.insert(id, |_| Place::Errand(errand));
    }

    /// Has an instance started to hear what there is; requests that wait for it are answered then.
    pub(super) fn look_at(&mut self, server: &Arc<str>) {
        self.reach.insert(Arc::clone(server), Reach::Waiting(Queue::new()));
        let (gateway, scope, menu) =
            (Arc::clone(&self.gateway), Arc::clone(&self.scope), Arc::clone(&self.menu));
        let (server, profile) = (Arc::clone(server), self.profile(server));
        self.errands.spawn(async move {
            let lease = acquire(&scope, &menu, &server, &profile).await;
            let looked = match lease {
                Ok(lease) => {
                    if let Some(upstream) = gateway.hub().upstream(lease.instance()) {
                        // What it has not listed by then is asked for when somebody needs it.
                        let _ = timeout(LOOK, upstream.listed()).await;
                    }
                    Ok(())
                }
                Err(reason) => Err(reason),
            };
            Errand::Looked(server, looked)
        });
    }

    pub(super) fn looked(&mut self, server: &Arc<str>, result: Result<(), NoLease>) {
        if let Err(reason) = result {
            return self.refuse_waiting(server, &reason);
        }
        self.looked.insert(Arc::clone(server));
        for parcel in self.dequeue(server) {
            let id = parcel.id();
            let list = LISTS.iter().find(|(list, _)| list.as_bytes() == parcel.frame.method());
            match (list, self.known(server)) {
                (Some((list, _)), _) => self.list(server, parcel, list, &id),
                (None, Some(known)) => self.welcome(&id, server, &known.initialize),
                (None, None) => {
                    let text = format!("{server}: it has not said what it is");
                    self.client.fail(&id, code::INTERNAL, &text, Some("upstream_failed"));
                }
            }
        }
    }

    /// A call has got its instance, or none.
    pub(super) fn call_alone(
        &mut self,
        server: &Arc<str>,
        parcel: Parcel,
        lease: Result<Lease, NoLease>,
    ) {
        self.waiting.remove(&parcel.id());
        let lease = match lease {
            Ok(lease) => lease,
            Err(reason) => return self.refuse(server, [parcel], &reason),
        };
        let turn = lease.try_turn();
        let (Some(held), Some(turn)) = (self.hold_lease(server, lease), turn) else {
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

/// Whether it can be answered by what is known of a server.
fn asks_what_there_is(frame: &Frame) -> bool {
    let is_first_page = || message::param(frame, &["cursor"]).is_none();
    frame.method() == b"initialize" || is_list(frame) && is_first_page()
}
