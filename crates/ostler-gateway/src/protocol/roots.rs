//! A client's roots: the directories that it works in. They decide with which other clients of its agent it shares
//! servers, so that no server is told the directories of one client and used by another.

use std::sync::Arc;
use std::time::Duration;

use ostler::Frame;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::message;

/// The longest list of roots, in bytes: it becomes part of an instance's key. A client with a longer one shares nothing.
const LONGEST: usize = 64 << 10;

/// What is known of the roots of one client.
#[derive(Debug, Default)]
pub(crate) struct Roots(watch::Sender<State>);

/// A list of roots as JSON, written in the one way in which lists are compared.
pub(crate) type RootList = Arc<str>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// The client was not asked yet.
    #[default]
    Unasked,
    /// The client has this time to answer the request with this number.
    Asked {
        number: u64,
        until: Instant,
    },
    Told(RootList),
    /// The client has not answered in time, or not with a list of roots.
    Untold,
}

impl Roots {
    /// Those of a client that has told them before.
    pub(crate) fn known(list: Option<RootList>) -> Self {
        Self(watch::Sender::new(list.map_or(State::Unasked, State::Told)))
    }

    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow() != State::Unasked
    }

    /// The client is asked now, under this number. What it has told before does not count any more.
    pub(crate) fn expect(&self, number: u64, limit: Duration) {
        self.0.send_replace(State::Asked { number, until: Instant::now() + limit });
    }

    /// The client has answered a request. Returns whether it was the one for its roots.
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

    /// The list, as far as the client has told it.
    pub(crate) fn told(&self) -> Option<RootList> {
        match &*self.0.borrow() {
            State::Told(list) => Some(Arc::clone(list)),
            State::Unasked | State::Asked { .. } | State::Untold => None,
        }
    }

    /// Waits until the client has told its roots or its time is over. None if it has not told them.
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

    /// Whether these are still the roots that are known, or still none.
    pub(crate) fn are(&self, list: Option<&RootList>) -> bool {
        match &*self.0.borrow() {
            State::Told(told) => Some(told) == list,
            State::Asked { .. } => false,
            State::Unasked | State::Untold => list.is_none(),
        }
    }
}

/// The list of roots in an answer.
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
        // A server may take the first one for the most important.
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
