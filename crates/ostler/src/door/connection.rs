//! One client connection of a Door, paired with one connection to the engine.
//!
//! The Door handles requests one after the other. It forwards each request and its response unchanged and only parses
//! where they end. A request that it has to edit (a create, an update, a commit) is buffered until its body is
//! complete. While it waits for a response it buffers what the client sends ahead, up to the buffer's size, and
//! forwards the client's end of file.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, sink, split};
use tokio::net::UnixStream;

use super::Door;
use super::denial::{ConnectionAfter, Denial};
use super::edit;
use super::head::{InvalidHead, RequestHead};
use super::query::cleared;
use super::relay::{
    ConnectionError, Next, OnClientGone, Response, buffer_ahead, copy_to_end, download, relay,
};
use super::route::{ImageSource, ObjectKind, Route};
use super::stream::{ReadSide, WriteSide};
use crate::engine::stream::Stream;
use crate::http::Body;

/// Bytes. Larger than any sensible body of a create.
const LARGEST_CREATE: usize = 16 << 20;

/// A request on its way to the engine: bytes of ours, then bytes of the client.
struct Upload {
    own: Vec<u8>,
    /// Length of the head that is still in the client's buffer.
    head: usize,
    /// The part of the body that is still to come from the client.
    body: Body,
}

pub(super) struct Connection {
    door: Rc<Door>,
    client_in: ReadSide<ReadHalf<UnixStream>>,
    client_out: WriteSide<WriteHalf<UnixStream>>,
    engine_in: ReadSide<ReadHalf<Box<dyn Stream>>>,
    engine_out: WriteSide<WriteHalf<Box<dyn Stream>>>,
}

impl Connection {
    pub(super) fn new(door: Rc<Door>, client: UnixStream, engine: Box<dyn Stream>) -> Self {
        let ((client_in, client_out), (engine_in, engine_out)) = (split(client), split(engine));
        Self {
            door,
            client_in: ReadSide::new(client_in),
            client_out: WriteSide::new(client_out),
            engine_in: ReadSide::new(engine_in),
            engine_out: WriteSide::new(engine_out),
        }
    }

    /// Serves requests until one side closes or sends something malformed.
    pub(super) async fn serve(mut self) -> Result<(), ConnectionError> {
        loop {
            let head = match self.next_request().await? {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(()),
                Err(denial) => return self.refuse(&denial).await,
            };
            let route = Route::of(&head.method, &head.target);
            match self.handle(&head, &route).await? {
                Next::Request => {}
                Next::Stream => return self.stream(&route).await,
                Next::End => return Ok(()),
            }
        }
    }

    /// Reads the next request head. `None`: the connection has ended.
    async fn next_request(
        &mut self,
    ) -> Result<Result<Option<RequestHead>, Denial>, ConnectionError> {
        loop {
            match RequestHead::parse(self.client_in.bytes()) {
                Ok(Some(head)) => return Ok(Ok(Some(head))),
                Ok(None) if self.client_in.is_full() => return Ok(Err(Denial::head_too_long())),
                Ok(None) => {}
                Err(InvalidHead::TooLong) => return Ok(Err(Denial::head_too_long())),
                Err(invalid) => return Ok(Err(Denial::invalid(&invalid))),
            }
            tokio::select! {
                more = self.client_in.fill() => if !more? { return Ok(Ok(None)) },
                // Between requests an engine sends nothing; it only closes idle connections.
                _ = self.engine_in.fill() => return Ok(Ok(None)),
            }
        }
    }

    async fn handle(&mut self, head: &RequestHead, route: &Route) -> Result<Next, ConnectionError> {
        if let Err(denial) = self.door.traffic.admit(route) {
            return self.deny(head, &denial).await;
        }
        // A create without a body creates nothing; the engine itself refuses it.
        if matches!(route, Route::Create(..) | Route::Update) && !head.body.is_complete() {
            return self.change(head, route).await;
        }
        if let Route::Image(source) = route {
            return self.make_image(head, *source).await;
        }
        let response = self.exchange(head, Upload::of(head), OnClientGone::Abort).await?;
        if let (Route::Exec, Some(exec)) = (route, response.created()) {
            self.door.traffic.exec_created(exec);
        }
        Ok(response.next)
    }

    /// Forwards a create or update with an edited body.
    async fn change(&mut self, head: &RequestHead, route: &Route) -> Result<Next, ConnectionError> {
        let original = self.client_in.bytes()[..head.length].to_vec();
        let body = match self.collect(head).await? {
            Ok(body) => body,
            Err(denial) => return self.refuse(&denial).await.map(|()| Next::End),
        };
        let changed = match route {
            Route::Create(kind, dialect) => {
                let Door { labels, sockets, .. } = &*self.door;
                edit::create(&body, *kind, *dialect, labels, sockets.as_ref())
            }
            _ => edit::update(&body),
        };
        let body = match changed {
            Ok(body) => body,
            Err(error) => return self.respond(&Denial::invalid(&error)).await,
        };
        let own = [head.with_length(&original, body.len()), body].concat();
        let upload = Upload { own, head: 0, body: Body::NONE };
        match route {
            Route::Create(kind, _) => self.create(head, upload, *kind).await,
            _ => Ok(self.exchange(head, upload, OnClientGone::Abort).await?.next),
        }
    }

    /// Forwards a request that makes an image, edited so that the image does not carry our labels.
    async fn make_image(
        &mut self,
        head: &RequestHead,
        source: ImageSource,
    ) -> Result<Next, ConnectionError> {
        let target = match cleared(&head.target, source) {
            Ok(target) => target,
            Err(error) => return self.deny(head, &Denial::invalid(&error)).await,
        };
        let changed = head.with_target(self.client_in.bytes(), &target);
        if source != ImageSource::Commit || head.body.is_complete() {
            self.client_in.consume(head.length);
            let upload = Upload { own: changed, head: 0, body: head.body };
            return Ok(self.exchange(head, upload, OnClientGone::Abort).await?.next);
        }
        let body = match self.collect(head).await? {
            Ok(body) => body,
            Err(denial) => return self.refuse(&denial).await.map(|()| Next::End),
        };
        if let Err(error) = edit::check_image_config(&body) {
            return self.respond(&Denial::invalid(&error)).await;
        }
        // Parsed again: the longer target has moved the framing lines.
        let Ok(Some(head)) = RequestHead::parse(&changed) else {
            return Err(ConnectionError::Gone);
        };
        let own = [head.with_length(&changed, body.len()), body].concat();
        let upload = Upload { own, head: 0, body: Body::NONE };
        Ok(self.exchange(&head, upload, OnClientGone::Abort).await?.next)
    }

    /// Forwards a create and waits for the response even if the client dies: the engine carries out the create anyway,
    /// and only its response tells when the container exists.
    async fn create(
        &mut self,
        head: &RequestHead,
        upload: Upload,
        kind: ObjectKind,
    ) -> Result<Next, ConnectionError> {
        let pending = match self.door.begin(kind).await {
            Ok(pending) => pending,
            Err(denial) => return self.respond(&denial).await,
        };
        let response = self.exchange(head, upload, OnClientGone::Finish).await;
        match &response {
            Ok(response @ Response { status: 201, .. }) if kind == ObjectKind::Container => {
                pending.created(response.created());
            }
            Err(_) if !self.door.is_local() => Door::expire_later(pending),
            // A local engine that closed the connection is not working on the create any more.
            Ok(_) | Err(_) => pending.finish(),
        }
        let next = response?.next;
        if self.client_out.is_gone() { Err(ConnectionError::Gone) } else { Ok(next) }
    }

    /// Reads the whole body of a request.
    async fn collect(
        &mut self,
        head: &RequestHead,
    ) -> Result<Result<Vec<u8>, Denial>, ConnectionError> {
        let too_long = || Ok(Err(Denial::body_too_long(LARGEST_CREATE)));
        if matches!(head.body, Body::Length(length) if length > LARGEST_CREATE as u64) {
            return too_long();
        }
        if head.expects_continue {
            self.client_out.write(crate::http::GO_ON).await;
        }
        self.client_in.consume(head.length);
        let (mut body, mut content) = (head.body, Vec::new());
        while !body.is_complete() {
            let bytes = self.client_in.bytes();
            let taken = body.advance(bytes, &mut |part| content.extend_from_slice(part))?;
            self.client_in.consume(taken);
            if content.len() > LARGEST_CREATE {
                return too_long();
            }
            if !body.is_complete() && !self.client_in.fill().await? {
                return Err(ConnectionError::Gone);
            }
        }
        Ok(Ok(content))
    }

    /// Forwards one request and its response.
    async fn exchange(
        &mut self,
        head: &RequestHead,
        upload: Upload,
        on_client_gone: OnClientGone,
    ) -> Result<Response, ConnectionError> {
        // Set once the request is sent, or can't be sent any more.
        let sent = Cell::new(None);
        let mut upload = pin!(async {
            sent.set(Some(upload.send(&mut self.client_in, &mut self.engine_out).await));
            buffer_ahead(&mut self.client_in, &mut self.engine_out, on_client_gone).await
        });
        let response =
            download(&mut self.engine_in, &mut self.client_out, &head.method, on_client_gone);
        let response = tokio::select! {
            response = response => response?,
            never = &mut upload => match never {},
        };
        // An engine may respond before it has read the whole request, and still read the rest.
        let sent = poll_fn(|cx| match (upload.as_mut().poll(cx), sent.take()) {
            (Poll::Ready(never), _) => match never {},
            (Poll::Pending, Some(sent)) => Poll::Ready(sent),
            (Poll::Pending, None) => Poll::Pending,
        });
        match sent.await {
            Ok(()) => Ok(response),
            Err(_) => Ok(Response { next: Next::End, ..response }),
        }
    }

    /// Copies bytes and ends of file in both directions until both have ended.
    async fn stream(mut self, route: &Route) -> Result<(), ConnectionError> {
        let up = copy_to_end(&mut self.client_in, &mut self.engine_out);
        let down = async {
            copy_to_end(&mut self.engine_in, &mut self.client_out).await;
            if let (Route::ExecStart(exec), false) = (route, self.client_out.is_gone()) {
                self.door.traffic.exec_ended(exec);
            }
        };
        tokio::join!(up, down);
        Ok(())
    }

    /// Discards the request and responds with a denial.
    async fn deny(&mut self, head: &RequestHead, denial: &Denial) -> Result<Next, ConnectionError> {
        if head.expects_continue {
            return self.refuse(denial).await.map(|()| Next::End);
        }
        let mut nowhere = WriteSide::new(sink());
        Upload::of(head).send(&mut self.client_in, &mut nowhere).await?;
        self.respond(denial).await
    }

    /// Responds with a denial to a request that was read already.
    async fn respond(&mut self, denial: &Denial) -> Result<Next, ConnectionError> {
        self.client_out.write(&denial.bytes(ConnectionAfter::KeepAlive)).await;
        Ok(Next::Request)
    }

    /// Responds with a denial and closes the connection, without reading the rest of the request.
    async fn refuse(&mut self, denial: &Denial) -> Result<(), ConnectionError> {
        self.client_out.write(&denial.bytes(ConnectionAfter::Close)).await;
        self.client_out.finish().await;
        Ok(())
    }
}

impl Upload {
    /// The unchanged request of the client.
    fn of(head: &RequestHead) -> Self {
        Self { own: Vec::new(), head: head.length, body: head.body }
    }

    async fn send(
        self,
        from: &mut ReadSide<impl AsyncRead + Unpin>,
        to: &mut WriteSide<impl AsyncWrite + Unpin>,
    ) -> Result<(), ConnectionError> {
        to.write(&self.own).await;
        relay(self.head, self.body, from, to, OnClientGone::Abort, &mut |_| {}).await
    }
}
