//! What the host does about what servers say.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::{CallError, Line};
use crate::frame::{Frame, Kind};
use crate::keeper::key::Key;

/// JSON-RPC: there is no such method.
const METHOD_NOT_FOUND: i32 = -32601;

/// How an instance becomes ready. The keeper knows no method of any protocol, so the host says it.
///
/// It has the server's start limit in all; whatever it has begun is dropped then.
pub trait Handshake: Send + Sync {
    /// Talks to a server that has just started until it can be used, or says why it can't.
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a>;
}

/// A handshake in progress.
pub type Greeting<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Ready as soon as the program runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHandshake;

impl Handshake for NoHandshake {
    fn greet<'a>(&'a self, _: &'a Talk) -> Greeting<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Hears what servers say without being asked: notifications and requests of their own.
///
/// It is called by the task that reads the server, so that order is kept; it may not wait.
pub trait Listener: Send + Sync {
    /// A message that is no answer.
    fn hear(&self, from: &Talk, message: Frame);
}

/// Refuses every request of a server, so that it does not wait for ever, and drops the rest.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefuseRequests;

impl Listener for RefuseRequests {
    fn hear(&self, from: &Talk, message: Frame) {
        if message.kind() == Kind::Request {
            let refusal = message.refusal(METHOD_NOT_FOUND, "this host answers no requests");
            if let Ok(refusal) = Frame::parse(refusal) {
                // A server that has gone needs no answer.
                let _ = from.notify(&refusal);
            }
        }
    }
}

/// The host's line to one instance, for handshakes and answers. What is said here is no use of it.
#[derive(Clone)]
pub struct Talk {
    pub(super) line: Arc<Line>,
    key: Key,
    number: u64,
}

impl Talk {
    pub(in crate::keeper) fn new(line: Arc<Line>, key: Key, number: u64) -> Self {
        Self { line, key, number }
    }

    /// Whose instance it is.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its number within its keeper.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A request and its answer.
    pub async fn call(&self, request: &Frame, limit: Duration) -> Result<Frame, CallError> {
        self.line.call(request, limit).await
    }

    /// A request whose answer nobody needs; its id has to be one that no call can have.
    pub fn say(&self, request: &Frame) -> Result<(), CallError> {
        self.line.say(request)
    }

    /// A notification, or an answer to a request of the server.
    pub fn notify(&self, message: &Frame) -> Result<(), CallError> {
        self.line.notify(message)
    }
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Talk({})", self.key)
    }
}
