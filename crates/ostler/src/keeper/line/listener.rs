//! Interfaces that the host implements: handshake and listener.

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

/// Makes an instance ready. The keeper knows no method of MCP, so the host implements this.
///
/// The future is dropped when the server's start limit has passed.
pub trait Handshake: Send + Sync {
    /// Initialises a server that has just started. Returns why it cannot be used, if so.
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a>;
}

/// A handshake in progress.
pub type Greeting<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// No handshake: an instance is ready as soon as its program runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHandshake;

impl Handshake for NoHandshake {
    fn greet<'a>(&'a self, _: &'a Talk) -> Greeting<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Receives notifications and requests of servers.
///
/// The task that reads the server calls it, which keeps the order of messages, so it must not block.
pub trait Listener: Send + Sync {
    /// Takes a notification or a request.
    fn hear(&self, from: &Talk, message: Frame);
}

/// Answers every request of a server with an error, so that it does not wait forever, and drops
/// notifications.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefuseRequests;

impl Listener for RefuseRequests {
    fn hear(&self, from: &Talk, message: Frame) {
        if message.kind() == Kind::Request {
            let refusal = message.refusal(METHOD_NOT_FOUND, "this host answers no requests");
            if let Ok(refusal) = Frame::parse(refusal) {
                // The server may have ended.
                let _ = from.notify(&refusal);
            }
        }
    }
}

/// The host's handle to one instance, for the handshake and for responses. Messages sent through it do
/// not count as use.
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

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Its number within its keeper.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sends a request and waits for the response.
    pub async fn call(&self, request: &Frame, limit: Duration) -> Result<Frame, CallError> {
        self.line.call(request, limit).await
    }

    /// Sends a request without waiting for the response. Its id must not be a number, as the ids of calls are.
    pub fn say(&self, request: &Frame) -> Result<(), CallError> {
        self.line.say(request)
    }

    /// Sends a notification, or the response to a request of the server.
    pub fn notify(&self, message: &Frame) -> Result<(), CallError> {
        self.line.notify(message)
    }
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Talk({})", self.key)
    }
}
