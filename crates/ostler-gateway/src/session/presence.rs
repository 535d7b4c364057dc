//! Log entries for clients that connect and disconnect.

use std::sync::Arc;
use std::time::Instant;

use ostler::keeper::Who;

use crate::agents::AgentSession;
use crate::client::Client;
use crate::event_log::{EventLog, LoggedEvent};
use crate::protocol::initialize::client_name;
use crate::route::Route;

/// A connected client. Logs that the client has connected, and on drop that it has disconnected.
#[derive(Debug)]
pub(crate) struct Presence {
    event_log: Arc<EventLog>,
    client: Arc<Client>,
    who: Who,
    server: Option<String>,
    since: Instant,
    /// Held for its drop: a detected agent is closed some time after its last session.
    _agent: Option<AgentSession>,
}

impl Presence {
    pub(crate) fn new(
        event_log: &Arc<EventLog>,
        client: &Arc<Client>,
        who: &Who,
        (route, pid): (&Route, Option<i32>),
        agent: Option<AgentSession>,
    ) -> Self {
        let server = match route {
            Route::One(name) => Some(name.to_string()),
            Route::All => None,
        };
        let pid = pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        event_log.add(LoggedEvent::now("connected", server.clone(), format!("{who}{pid}")));
        Self {
            event_log: Arc::clone(event_log),
            client: Arc::clone(client),
            who: who.clone(),
            server,
            since: Instant::now(),
            _agent: agent,
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let name = self.client.initialize().and_then(|initialize| client_name(&initialize.info));
        let name = name.map(|name| format!(", client {name}")).unwrap_or_default();
        let seconds = self.since.elapsed().as_secs();
        let detail = format!("{}{name}, after {seconds} s", self.who);
        self.event_log.add(LoggedEvent::now("disconnected", self.server.take(), detail));
    }
}
