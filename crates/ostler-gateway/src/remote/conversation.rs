//! One instance of a remote server.
//!
//! `Conversation::run` reads messages from the instance's input and posts them. Each request runs in a task of its own;
//! notifications and responses are posted in order, before the next message is read. `initialize` also picks the
//! transport: with `Carrier::Any`, a server that answers with 400, 404 or 405 is tried again over HTTP+SSE. After
//! `notifications/initialized`, a Streamable HTTP session also listens on the server's standalone event stream.
//!
//! The conversation ends when the keeper cancels it, when the input ends, or when the `Link` reports that the session
//! is lost. Then all tasks are aborted, the session is deleted at the server, and all connections are closed.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use ostler::pipe::Lines;
use ostler::{Frame, Kind};
use tokio::io::DuplexStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::Carrier;
use super::exchange::{attempt, exchange};
use super::failure::Failure;
use super::link::Link;
use super::{legacy_sse, stream};
use crate::protocol::message;

/// One session with a remote server and the tasks that belong to it.
pub(super) struct Conversation {
    link: Arc<Link>,
    carrier: Carrier,
    /// Requests in flight, which return their ids, and event stream readers. Dropping the set aborts them.
    tasks: JoinSet<Option<Bytes>>,
    /// Requests in flight, by JSON-RPC id.
    pending: HashMap<Bytes, AbortHandle>,
}

impl Conversation {
    pub(super) fn new(link: Link, carrier: Carrier) -> Self {
        let (tasks, pending) = (JoinSet::new(), HashMap::new());
        Self { link: Arc::new(link), carrier, tasks, pending }
    }

    /// Carries messages until the keeper cancels `leave` or the session fails. Returns the reason.
    pub(super) async fn run(mut self, input: DuplexStream, leave: CancellationToken) -> String {
        let link = Arc::clone(&self.link);
        let reason = tokio::select! {
            biased;
            () = leave.cancelled() => "it was left".to_owned(),
            reason = link.lost() => reason,
            () = self.carry(input) => "its session ended".to_owned(),
        };
        self.tasks.shutdown().await;
        drop(self);
        link.leave(link.limits.leave).await;
        link.http.clone().close().await;
        reason
    }

    async fn carry(&mut self, mut input: DuplexStream) {
        let mut lines = Lines::default();
        loop {
            let mut messages = Vec::new();
            let each = |line: &[u8]| messages.extend(Frame::parse(Bytes::copy_from_slice(line)));
            let read = lines.read(&mut input, self.link.limits.message, each).await;
            // In order: a notification must have arrived before the next message is sent.
            for message in messages {
                self.pass_on(message).await;
            }
            if read.is_err() {
                return;
            }
        }
    }

    async fn pass_on(&mut self, message: Frame) {
        match (message.kind(), message.method()) {
            (Kind::Request, b"initialize") => self.begin(&message).await,
            (Kind::Request, _) => self.send(message),
            (_, b"notifications/cancelled") => {
                self.tell(&message).await;
                self.forget(&message);
            }
            (_, b"notifications/initialized") => {
                self.tell(&message).await;
                if self.link.state.endpoint.get().is_none() {
                    let link = Arc::clone(&self.link);
                    self.tasks.spawn(async move {
                        stream::listen(&link).await;
                        None
                    });
                }
            }
            _ => self.tell(&message).await,
        }
    }

    /// Sends `initialize`, and picks the transport if the configuration leaves it open.
    async fn begin(&mut self, request: &Frame) {
        let begun = match self.carrier {
            Carrier::Sse => self.begin_old(request).await,
            Carrier::Http => attempt(&self.link, request).await,
            Carrier::Any => match attempt(&self.link, request).await {
                Err(failure) if may_be_old(&failure) => {
                    // If HTTP+SSE fails as well, the first failure is the more informative one.
                    self.begin_old(request).await.map_err(|_| failure)
                }
                begun => begun,
            },
        };
        if let Err(failure) = begun {
            self.link.fail(request, &failure).await;
        }
    }

    async fn begin_old(&mut self, request: &Frame) -> Result<(), Failure> {
        let (body, events) = legacy_sse::open(&self.link).await?;
        let link = Arc::clone(&self.link);
        self.tasks.spawn(async move {
            stream::hear_all(&link, body, events).await;
            None
        });
        attempt(&self.link, request).await
    }

    fn send(&mut self, request: Frame) {
        while let Some(done) = self.tasks.try_join_next() {
            if let Ok(Some(id)) = done {
                self.pending.remove(&id);
            }
        }
        let (link, id) = (Arc::clone(&self.link), Bytes::copy_from_slice(request.id()));
        let done = id.clone();
        let task = self.tasks.spawn(async move {
            exchange(&link, &request).await;
            Some(done)
        });
        self.pending.insert(id, task);
    }

    async fn tell(&self, message: &Frame) {
        match self.link.tell(message).await {
            Ok(()) => {}
            Err(failure @ Failure::Forgotten(_)) => self.link.lose(&failure),
            Err(failure) => {
                self.link.out.complain(&format!("a message did not arrive: {failure}")).await;
            }
        }
    }

    /// Aborts a request that the client cancelled: many servers never answer it.
    fn forget(&mut self, cancelled: &Frame) {
        let id = message::param(cancelled, &["requestId"]);
        if let Some(task) = id.and_then(|id| self.pending.remove(&cancelled.bytes()[id])) {
            task.abort();
        }
    }
}

/// Whether a server that rejects `initialize` like this may support only HTTP+SSE.
fn may_be_old(failure: &Failure) -> bool {
    const OLD: [StatusCode; 3] =
        [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    matches!(failure, Failure::Status { status, .. } if OLD.contains(status))
}
