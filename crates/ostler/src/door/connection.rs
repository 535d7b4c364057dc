//! One connection of a client, with one of its own to the engine.
//!
//! Requests are taken one after the other. Each goes on as it is, and so does its answer, and of
//! neither more is understood than where it ends; only a create is held until its body is whole, and
//! changed. While the answer is awaited what the client sends is kept, and its end passed on, as far
//! as there is room.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, sink, split};
use tokio::net::UnixStream;

use super::Door;
use super::denial::{After, Denial};
use super::edit;
use super::head::{InvalidHead, RequestHead};
use super::query::cleared;
use super::relay::{Answer, Broken, Next, Patience, download, linger, pump, relay};
use super::route::{ImageSource, Route, Thing};
use super::stream::{Inlet, Outlet};
use crate::engine::stream::Stream;
use crate::http::Body;

/// Larger than the body of any create that makes sense.
const LARGEST_CREATE: usize = 16 << 20;
/// What goes to the engine: bytes of ours, then what the client sends.
struct Upload {
    own: Vec<u8>,
    head: usize,
    body: Body,
}

pub(super) struct Connection {
    door: Rc<Door>,
    client_in: Inlet<ReadHalf<UnixStream>>,
    client_out: Outlet<WriteHalf<UnixStream>>,
    engine_in: Inlet<ReadHalf<Box<dyn Stream>>>,
    engine_out: Outlet<WriteHalf<Box<dyn Stream>>>,
}

impl Connection {
    pub(super) fn new(door: Rc<Door>, client: UnixStream, engine: Box<dyn Stream>) -> Self {
        let ((client_in, client_out), (engine_in, engine_out)) = (split(client), split(engine));
        Self {
            door,
            client_in: Inlet::new(client_in),
            client_out: Outlet::new(client_out),
            engine_in: Inlet::new(engine_in),
            engine_out: Outlet::new(engine_out),
        }
    }

    /// Returns when both sides have nothing more to say, or one can't be understood.
    pub(super) async fn serve(mut self) -> Result<(), Broken> {
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

    /// `None`: there will be none.
    async fn next_request(&mut self) -> Result<Result<Option<RequestHead>, Denial>, Broken> {
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
                // It closes a connection that was idle for too long; it has nothing to say unasked.
                _ = self.engine_in.fill() => return Ok(Ok(None)),
            }
        }
    }

    async fn handle(&mut self, head: &RequestHead, route: &Route) -> Result<Next, Broken> {
        if let Err(denial) = self.door.traffic.admit(route) {
            return self.deny(head, &denial).await;
        }
        // What has no body makes nothing, and the engine says so itself.
        if matches!(route, Route::Create(..) | Route::Update) && !head.body.is_complete() {
            return self.change(head, route).await;
        }
        if let Route::Image(source) = route {
            return self.make_image(head, *source).await;
        }
        let answer = self.exchange(head, Upload::of(head), Patience::WithClient).await?;
        if let (Route::Exec, Some(exec)) = (route, answer.created()) {
            self.door.traffic.readied(exec);
        }
        Ok(answer.next)
    }

    /// Passes on a request with a body that is not the client's.
    async fn change(&mut self, head: &RequestHead, route: &Route) -> Result<Next, Broken> {
        let original = self.client_in.bytes()[..head.length].to_vec();
        let body = match self.collect(head).await? {
            Ok(body) => body,
            Err(denial) => return self.refuse(&denial).await.map(|()| Next::End),
        };
        let changed = match route {
            Route::Create(thing, dialect) => {
                let Door { labels, sockets, .. } = &*self.door;
                edit::create(&body, *thing, *dialect, labels, sockets.as_ref())
            }
            _ => edit::update(&body),
        };
        let body = match changed {
            Ok(body) => body,
            Err(error) => return self.answer(&Denial::invalid(&error)).await,
        };
        let own = [head.with_length(&original, body.len()), body].concat();
        let upload = Upload { own, head: 0, body: Body::NONE };
        match route {
            Route::Create(thing, _) => self.create(head, upload, *thing).await,
            _ => Ok(self.exchange(head, upload, Patience::WithClient).await?.next),
        }
    }

    /// Passes on a request for an image that does not carry our labels.
    async fn make_image(
        &mut self,
        head: &RequestHead,
        source: ImageSource,
    ) -> Result<Next, Broken> {
        let target = match cleared(&head.target, source) {
            Ok(target) => target,
            Err(error) => return self.deny(head, &Denial::invalid(&error)).await,
        };
        let changed = head.with_target(self.client_in.bytes(), &target);
        if source != ImageSource::Commit || head.body.is_complete() {
            self.client_in.consume(head.length);
            let upload = Upload { own: changed, head: 0, body: head.body };
            return Ok(self.exchange(head, upload, Patience::WithClient).await?.next);
        }
        let body = match self.collect(head).await? {
            Ok(body) => body,
            Err(denial) => return self.refuse(&denial).await.map(|()| Next::End),
        };
        if let Err(error) = edit::check_image_config(&body) {
            return self.answer(&Denial::invalid(&error)).await;
        }
        // With a longer target the lines about the length are elsewhere.
        let Ok(Some(head)) = RequestHead::parse(&changed) else { return Err(Broken::Gone) };
        let own = [head.with_length(&changed, body.len()), body].concat();
        let upload = Upload { own, head: 0, body: Body::NONE };
        Ok(self.exchange(&head, upload, Patience::WithClient).await?.next)
    }

    /// Whatever becomes of the client: the engine creates what it was asked for, and only its answer
    /// says when that is there.
    async fn create(
        &mut self,
        head: &RequestHead,
        upload: Upload,
        thing: Thing,
    ) -> Result<Next, Broken> {
        let flight = match self.door.begin(thing).await {
            Ok(flight) => flight,
            Err(denial) => return self.answer(&denial).await,
        };
        let answer = self.exchange(head, upload, Patience::UntilAnswered).await;
        match &answer {
            Ok(answer @ Answer { status: 201, .. }) if thing == Thing::Container => {
                flight.deliver(answer.created());
            }
            Err(_) if !self.door.is_local() => Door::lose(flight),
            // A local engine that has closed its end is no longer at work on it.
            Ok(_) | Err(_) => flight.land(),
        }
        let next = answer?.next;
        if self.client_out.is_gone() { Err(Broken::Gone) } else { Ok(next) }
    }

    /// The whole body of a request.
    async fn collect(&mut self, head: &RequestHead) -> Result<Result<Vec<u8>, Denial>, Broken> {
        let too_long = || Ok(Err(Denial::body_too_long(LARGEST_CREATE)));
        if matches!(head.body, Body::Length(length) if length > LARGEST_CREATE as u64) {
            return too_long();
        }
        if head.expects_word {
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
                return Err(Broken::Gone);
            }
        }
        Ok(Ok(content))
    }

    /// One request and its answer.
    async fn exchange(
        &mut self,
        head: &RequestHead,
        upload: Upload,
        patience: Patience,
    ) -> Result<Answer, Broken> {
        // Said once the request is on its way as a whole, or can't be any more.
        let sent = Cell::new(None);
        let mut upload = pin!(async {
            sent.set(Some(upload.send(&mut self.client_in, &mut self.engine_out).await));
            linger(&mut self.client_in, &mut self.engine_out, patience).await
        });
        let answer = download(&mut self.engine_in, &mut self.client_out, &head.method, patience);
        let answer = tokio::select! {
            answer = answer => answer?,
            never = &mut upload => match never {},
        };
        // An engine may answer before it has heard everything, and hear the rest nevertheless.
        let sent = poll_fn(|cx| match (upload.as_mut().poll(cx), sent.take()) {
            (Poll::Ready(never), _) => match never {},
            (Poll::Pending, Some(sent)) => Poll::Ready(sent),
            (Poll::Pending, None) => Poll::Pending,
        });
        match sent.await {
            Ok(()) => Ok(answer),
            Err(_) => Ok(Answer { next: Next::End, ..answer }),
        }
    }

    /// Bytes and their ends, both ways.
    async fn stream(mut self, route: &Route) -> Result<(), Broken> {
        let up = pump(&mut self.client_in, &mut self.engine_out);
        let down = async {
            pump(&mut self.engine_in, &mut self.client_out).await;
            if let (Route::ExecStart(exec), false) = (route, self.client_out.is_gone()) {
                self.door.traffic.ended(exec);
            }
        };
        tokio::join!(up, down);
        Ok(())
    }

    /// Answers in the engine's place, behind the request.
    async fn deny(&mut self, head: &RequestHead, denial: &Denial) -> Result<Next, Broken> {
        if head.expects_word {
            return self.refuse(denial).await.map(|()| Next::End);
        }
        let mut nowhere = Outlet::new(sink());
        Upload::of(head).send(&mut self.client_in, &mut nowhere).await?;
        self.answer(denial).await
    }

    /// The same for a request that was taken already.
    async fn answer(&mut self, denial: &Denial) -> Result<Next, Broken> {
        self.client_out.write(&denial.bytes(After::KeepAlive)).await;
        Ok(Next::Request)
    }

    /// Answers in the engine's place, whatever else may come.
    async fn refuse(&mut self, denial: &Denial) -> Result<(), Broken> {
        self.client_out.write(&denial.bytes(After::Close)).await;
        self.client_out.finish().await;
        Ok(())
    }
}

impl Upload {
    /// The request as it is.
    fn of(head: &RequestHead) -> Self {
        Self { own: Vec::new(), head: head.length, body: head.body }
    }

    async fn send(
        self,
        from: &mut Inlet<impl AsyncRead + Unpin>,
        to: &mut Outlet<impl AsyncWrite + Unpin>,
    ) -> Result<(), Broken> {
        to.write(&self.own).await;
        relay(self.head, self.body, from, to, Patience::WithClient, &mut |_| {}).await
    }
}
