//! Roots of a client: the directories that it works in.
//!
//! The roots are part of the key under which clients of one agent share instances, so that no server learns the
//! directories of one client and serves another one. The gateway asks the client for its roots with a deadline, and
//! calls that need a server of the agent wait for the answer (`settled`). A client that does not answer in time, or
//! not with a list of roots, gets instances of its own. When the client announces a change, the gateway asks again,
//! and only the answer to the last request counts.

use std::sync::Arc;
use std::time::Duration;

use ostler::Frame;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::message;

/// Longest list of roots in bytes, because it becomes part of an instance's key. A client with a longer one shares no
/// instance.
const LONGEST: usize = 64 << 10;

/// Roots of one client, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Roots(watch::Sender<State>);

/// List of roots as JSON, in a normal form that can be compared.
pub(crate) type RootList = Arc<str>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// The gateway has not asked the client yet.
    #[default]
    Unasked,
    /// The client has until this time to answer the request with this number.
    Asked {
        number: u64,
        until: Instant,
    },
    Told(RootList),
    /// The client did not answer in time, or its answer was not a list of roots.
    Untold,
}

impl Roots {
    /// Starts from the roots that the client told in an earlier router session.
    pub(crate) fn known(list: Option<RootList>) -> Self {
        Self(watch::Sender::new(list.map_or(State::Unasked, State::Told)))
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() != State::Unasked
    }

    /// Notes that the gateway asks now, with a request of this number. Earlier answers no longer count.
    pub(crate) fn expect(&self, number: u64, limit: Duration) {
        self.0.send_replace(State::Asked { number, until: Instant::now() + limit });
    }

    /// Takes a response of the client. Returns whether it answers the request for roots.
    pub(crate) fn hear(&self, answer: &Frame) -> bool {
        let number = std::str::from_utf8(answer.id()).ok().and_then(|id| id.parse().ok());
        self.0.send_if_modified(|state| match state {
            State::Asked { number: asked, until } if Some(*asked) == number => {
                let in_time = Some(answer).filter(|_| Instant::now() < *until);
                *state = in_time.and_then(read).map_or(State::Untold, State::Told);
                true
            }
            _ => false,
        })
    }

    /// List of roots; `None` if the client has not told it.
    pub(crate) fn told(&self) -> Option<RootList> {
        match &*self.0.borrow() {
            State::Told(list) => Some(Arc::clone(list)),
            State::Unasked | State::Asked { .. } | State::Untold => None,
        }
    }

    /// Waits for the client's answer or its deadline. `None` if the client has not told its roots.
    pub(crate) async fn settled(&self) -> Option<RootList> {
        loop {
            let asked = self.0.borrow().clone();
            let State::Asked { until, .. } = asked else { return self.told() };
            let mut changes = self.0.subscribe();
            if timeout_at(until, changes.wait_for(|state| *state != asked)).await.is_err() {
                self.0.send_if_modified(|state| {
                    let is_late = *state == asked;
                    if is_late {
                        *state = State::Untold;
                    }
                    is_late
                });
            }
        }
    }

    /// Whether these are still the known roots, or there are still none. False while an answer is pending.
    pub(crate) fn are(&self, list: Option<&RootList>) -> bool {
        match &*self.0.borrow() {
            State::Told(told) => Some(told) == list,
            State::Asked { .. } => false,
            State::Unasked | State::Untold => list.is_none(),
        }
    }
}

/// List of roots in a response, if it is well formed and not too long.
fn read(answer: &Frame) -> Option<RootList> {
    if answer.is_error() {
        return None;
    }
    let edges = message::param(answer, &["roots"]).filter(|edges| edges.len() <= LONGEST)?;
    let list: Vec<Value> = serde_json::from_slice(&answer.bytes()[edges]).ok()?;
    let is_root = |root: &Value| root.get("uri").is_some_and(Value::is_string);
    let list = list.iter().all(is_root).then(|| Value::from(list).to_string())?;
    (list.len() <= LONGEST).then(|| list.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn answer(id: u64, result: &str) -> Frame {
        Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).unwrap()
    }

    #[test]
    fn lists_are_the_same_however_they_are_written() {
        let list = |result: &str| read(&answer(1, result));
        let one = list(r#"{"roots":[{"uri":"file:///a","name":"a"},{"uri":"b:"}]}"#);
        assert!(one.is_some());
        let same = r#"{"_meta":{}, "roots": [{"name":"\u0061","uri":"file:///a"}, {"uri":"b:"}]}"#;
        assert_eq!(list(same), one);
        // The order counts: a server may take the first root for the most important.
        assert_ne!(list(r#"{"roots":[{"uri":"b:"},{"uri":"file:///a","name":"a"}]}"#), one);
        assert_eq!(list(r#"{"roots":[]}"#).as_deref(), Some("[]"));
        let long = format!(r#"{{"roots":[{{"uri":"{}"}}]}}"#, "x".repeat(LONGEST));
        for none in [&long, "{}", "[]", r#"{"roots":{}}"#, r#"{"roots":[1]}"#] {
            assert_eq!(list(none), None, "{none:.60}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_only_in_time_and_to_the_last_question() {
        let roots = Roots::default();
        assert!(!roots.is_asked() && roots.are(None));
        roots.expect(1, LIMIT);
        roots.expect(2, LIMIT);
        assert!(!roots.hear(&answer(1, r#"{"roots":[{"uri":"old:"}]}"#)));
        let answers = async {
            tokio::time::advance(LIMIT / 2).await;
            assert!(roots.hear(&answer(2, r#"{"roots":[]}"#)));
        };
        let (settled, ()) = tokio::join!(roots.settled(), answers);
        assert_eq!(settled.as_deref(), Some("[]"));
        assert!(roots.are(settled.as_ref()) && !roots.are(None));
        roots.expect(3, LIMIT);
        assert_eq!(roots.settled().await, None);
        assert!(!roots.hear(&answer(3, r#"{"roots":[]}"#)) && roots.are(None));
    }
}
