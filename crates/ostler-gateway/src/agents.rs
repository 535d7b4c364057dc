//! Agents, and how long those that ostler recognised by itself outlive their last session.
//!
//! A client may name its agent; the agent's instances then stop after each server's idle timeout. Most clients name
//! none, but tell their child processes which project they work in. ostler derives an agent from that, so that sessions
//! of one project share instances. No user asked for this sharing, so such an agent may not outlive its last session by
//! much: [`DetectedAgents`] counts the sessions of each detected agent, and closes the agent after a grace period in
//! which a restarted client may return.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ostler::keeper::Principal;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::mutex::lock;

/// Default time for which a detected agent outlives its last session.
pub(crate) const AGENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest name of an agent, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;

/// Whether a text can be the name of an agent.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.trim().len())
}

/// The agent that a client belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Name of the agent.
    pub name: String,
    /// Source of the name.
    pub origin: Origin,
}

/// Source of an agent's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user, the client or the configuration named the agent.
    Named,
    /// ostler derived the name from variables that a client sets for its child processes, such as its project
    /// directory.
    Found,
}

impl Agent {
    /// An agent that the user, the client or the configuration named.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), origin: Origin::Named }
    }

    /// An agent that ostler recognised by itself.
    pub fn found(name: impl Into<String>) -> Self {
        Self { name: name.into(), origin: Origin::Found }
    }
}

/// A detected agent of one principal.
type Key = (Principal, Arc<str>);

/// Session counts of all detected agents.
#[derive(Debug, Default)]
pub(crate) struct DetectedAgents {
    agents: Mutex<HashMap<Key, Sessions>>,
    /// Notified when an agent loses its last session.
    left: Notify,
}

/// Sessions of one agent.
#[derive(Clone, Copy, Debug)]
enum Sessions {
    /// Number of open sessions.
    Open(usize),
    /// Time at which the last session closed.
    ClosedAt(Instant),
}

/// Guard that counts as a session of a detected agent until it is dropped.
#[derive(Debug)]
pub(crate) struct AgentSession {
    agents: Arc<DetectedAgents>,
    key: Key,
}

impl DetectedAgents {
    /// Counts a session of this agent until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, principal: &Principal, name: &str) -> AgentSession {
        let key = (principal.clone(), Arc::from(name));
        let mut agents = lock(&self.agents);
        let sessions = agents.entry(key.clone()).or_insert(Sessions::Open(0));
        *sessions = match sessions {
            Sessions::Open(count) => Sessions::Open(*count + 1),
            Sessions::ClosedAt(_) => Sessions::Open(1),
        };
        AgentSession { agents: Arc::clone(self), key }
    }

    /// Calls `close` for every agent that had no session for `timeout`, as soon as that is due. Never returns.
    pub(crate) async fn close_unused(
        &self,
        timeout: impl Fn() -> Duration,
        close: impl Fn(&Principal, &str),
    ) {
        loop {
            // Created before the check, so that an agent that loses its last session meanwhile is not missed.
            let left = self.left.notified();
            match self.close_due(timeout(), &close) {
                Some(next) => tokio::select! {
                    () = sleep_until(next.into()) => {}
                    () = left => {}
                },
                None => left.await,
            }
        }
    }

    /// Closes the agents whose grace period is over. Returns when the next one ends.
    ///
    /// The lock is held during `close`: a session that enters meanwhile opens a new agent.
    fn close_due(&self, timeout: Duration, close: impl Fn(&Principal, &str)) -> Option<Instant> {
        let now = tokio::time::Instant::now().into_std();
        let mut next = None;
        lock(&self.agents).retain(|(principal, name), sessions| {
            let Sessions::ClosedAt(at) = *sessions else { return true };
            let end = at + timeout;
            if end <= now {
                close(principal, name);
                return false;
            }
            next = Some(next.map_or(end, |next: Instant| next.min(end)));
            true
        });
        next
    }
}

impl Drop for AgentSession {
    fn drop(&mut self) {
        let mut agents = lock(&self.agents.agents);
        let Some(sessions) = agents.get_mut(&self.key) else { return };
        *sessions = match *sessions {
            Sessions::Open(count) if count > 1 => Sessions::Open(count - 1),
            Sessions::Open(_) => Sessions::ClosedAt(tokio::time::Instant::now().into_std()),
            closed @ Sessions::ClosedAt(_) => closed,
        };
        if matches!(sessions, Sessions::ClosedAt(_)) {
            self.agents.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Runs the clock for this long and returns the agents that were closed.
    async fn closed_within(agents: &DetectedAgents, time: Duration) -> Vec<String> {
        let closed: Mutex<Vec<String>> = Mutex::default();
        let close = |_: &Principal, name: &str| lock(&closed).push(name.to_owned());
        let _ = tokio::time::timeout(time, agents.close_unused(|| TIMEOUT, close)).await;
        closed.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_is_closed_after_its_last_session_and_no_sooner() {
        let agents = Arc::new(DetectedAgents::default());
        let user = Principal::default();
        let (first, second) = (agents.enter(&user, "a"), agents.enter(&user, "a"));
        let _other = agents.enter(&user, "b");
        drop(first);
        assert!(closed_within(&agents, 2 * TIMEOUT).await.is_empty());
        drop(second);
        assert!(closed_within(&agents, TIMEOUT / 2).await.is_empty());
        assert_eq!(closed_within(&agents, TIMEOUT).await, ["a"]);
        assert!(closed_within(&agents, 2 * TIMEOUT).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_comes_back_in_time_keeps_the_agent() {
        let agents = Arc::new(DetectedAgents::default());
        let user = Principal::default();
        drop(agents.enter(&user, "a"));
        assert!(closed_within(&agents, TIMEOUT / 2).await.is_empty());
        let back = agents.enter(&user, "a");
        assert!(closed_within(&agents, 2 * TIMEOUT).await.is_empty());
        drop(back);
        assert_eq!(closed_within(&agents, 2 * TIMEOUT).await, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn agents_of_two_principals_with_one_name_are_two_agents() {
        let agents = Arc::new(DetectedAgents::default());
        let (user, token) = (Principal::default(), Principal::named("tokens.ci"));
        let _stays = agents.enter(&token, "a");
        drop(agents.enter(&user, "a"));
        let closed: Mutex<Vec<Principal>> = Mutex::default();
        let close = |principal: &Principal, _: &str| lock(&closed).push(principal.clone());
        let _ = tokio::time::timeout(2 * TIMEOUT, agents.close_unused(|| TIMEOUT, close)).await;
        assert_eq!(*lock(&closed), [user]);
    }
}
