//! Which stream of a client gets a message.
//!
//! Answers, and what came up because of a request, go to the stream of that request; all else to the newest
//! stream on which the client only listens. What nobody listens to waits, as long as it is not much. A stream that was
//! cut can be taken up again: what its client may not have got is kept for a while.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::limits::{BACKLOG, KEPT, KEPT_FOR, LISTENERS, UNCLAIMED, UNCLAIMED_COUNT};
use super::track::{Kind, Track};
use crate::mutex::lock;
use crate::protocol::message::{self, code};
use crate::quota::{Account, InFlightRequest};
use crate::transport::{About, Outlet, Weight};

/// All that is to be told to one client.
#[derive(Debug, Default)]
pub(super) struct Mail(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Every stream that somebody reads, or may take up again.
    tracks: BTreeMap<u64, Box<Track>>,
    /// The requests of the client that are not answered yet.
    posts: HashMap<Bytes, Post>,
    /// The streams on which it only listens, the newest last.
    listeners: Vec<u64>,
    /// What is for a listener, while there is none.
    unclaimed: VecDeque<Bytes>,
    /// Of streams and of readers.
    last: u64,
    has_ended: bool,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct Post {
    /// The stream that it came with.
    track: u64,
    #[expect(dead_code, reason = "held until it is dropped")]
    counted: InFlightRequest,
}

/// Whether requests are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Yes,
    /// One of them is in flight already.
    Repeated,
    /// The principal has as many in flight as it may have.
    TooMany,
}

/// Somebody who reads a stream, until somebody else does.
#[derive(Debug)]
pub(super) struct Reader {
    mail: Arc<Mail>,
    track: u64,
    number: u64,
}

/// A message with its place in its stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) track: u64,
    pub(super) number: u64,
    pub(super) line: Bytes,
}

/// What comes first in answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// Its answer, and nothing else.
    Answer(Bytes),
    /// Something else, so that there will be several.
    Several,
    /// It was taken back.
    Nothing,
    /// The session has ended.
    End,
}

impl Mail {
    /// A stream for the answer to a request that is not heard yet.
    pub(super) fn post(self: &Arc<Self>) -> Reader {
        let now = Instant::now();
        let mut state = self.state();
        state.tidy(now);
        state.open(self, Kind::Post, now)
    }

    /// A stream to listen to.
    pub(super) fn listen(self: &Arc<Self>) -> Reader {
        let now = Instant::now();
        let mut state = self.state();
        state.tidy(now);
        let reader = state.open(self, Kind::Listen, now);
        state.listen_to(reader.track);
        reader
    }

    /// Takes a stream up again after this event, if it is still there.
    pub(super) fn resume(self: &Arc<Self>, track: u64, after: u64) -> Option<Reader> {
        let mut state = self.state();
        state.tidy(Instant::now());
        let number = state.next();
        let found = state.tracks.get_mut(&track).filter(|track| track.is_streamed())?;
        found.rewind(after, number);
        if found.kind == Kind::Listen {
            state.listen_to(track);
        }
        Some(Reader { mail: Arc::clone(self), track, number })
    }

    /// From now on what is about these requests goes to this stream, if all of them may be in flight.
    pub(super) fn expect(&self, ids: &[Bytes], track: u64, account: &Arc<Account>) -> Expected {
        let mut state = self.state();
        if ids.iter().any(|id| state.posts.contains_key(id)) {
            return Expected::Repeated;
        }
        for id in ids {
            let Some(counted) = account.begin_request() else {
                for id in ids {
                    state.posts.remove(id);
                }
                return Expected::TooMany;
            };
            state.posts.insert(id.clone(), Post { track, counted });
        }
        if let Some(found) = state.tracks.get_mut(&track) {
            found.awaits += ids.len();
        }
        Expected::Yes
    }

    /// Answers a request that was not heard.
    pub(super) fn refuse(&self, id: &[u8], track: u64, text: &str) {
        let line = message::error(id, code::INVALID_REQUEST, text, None);
        let mut state = self.state();
        if let Some(found) = state.tracks.get_mut(&track) {
            found.push(line);
            found.answered(1);
        }
    }

    /// How many requests are not answered yet.
    pub(super) fn in_flight(&self) -> usize {
        self.state().posts.len()
    }

    /// Whoever has waited for an answer for so long gets a stream, on which it sees that we live.
    pub(super) fn stream_late(&self, limit: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        let late = |track: &&mut Box<Track>| track.is_late(now, limit);
        state.tracks.values_mut().filter(late).for_each(|track| {
            track.stream();
            track.wake();
        });
    }

    /// Nothing will be said any more, on any stream.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.tracks.values_mut().for_each(|track| track.wake());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn open(&mut self, mail: &Arc<Mail>, kind: Kind, now: Instant) -> Reader {
        let (track, number) = (self.next(), self.next());
        self.tracks.insert(track, Box::new(Track::new(kind, number, now)));
        Reader { mail: Arc::clone(mail), track, number }
    }

    fn listen_to(&mut self, track: u64) {
        self.listeners.retain(|one| *one != track);
        self.listeners.push(track);
        if self.listeners.len() > LISTENERS {
            let oldest = self.listeners.remove(0);
            if let Some(oldest) = self.tracks.get_mut(&oldest) {
                oldest.finish();
            }
        }
        let unclaimed = std::mem::take(&mut self.unclaimed);
        if let Some(track) = self.tracks.get_mut(&track) {
            for line in unclaimed {
                track.push(line);
            }
        }
    }

    /// Forgets what nobody will ask for any more.
    fn tidy(&mut self, now: Instant) {
        if self.tracks.is_empty() {
            return;
        }
        self.tracks.retain(|_, track| !track.is_over(now, KEPT_FOR));
        let mut kept: usize = self.tracks.values().map(|track| track.kept()).sum();
        for track in self.tracks.values_mut() {
            if kept <= KEPT {
                return;
            }
            kept -= track.forget(kept - KEPT);
        }
    }

    /// Takes a request off the list of those in flight. Its stream, if it is still there.
    fn answered(&mut self, id: &[u8]) -> Option<&mut Box<Track>> {
        let track = self.posts.remove(id)?.track;
        self.tracks.get_mut(&track)
    }

    /// The same for several, which came as one.
    fn all_answered(&mut self, ids: &[Bytes]) -> Option<&mut Box<Track>> {
        let mut tracks = ids.iter().filter_map(|id| self.posts.remove(id));
        let track = tracks.next()?.track;
        tracks.for_each(drop);
        self.tracks.get_mut(&track)
    }

    fn unclaimed(&mut self, line: Bytes) {
        self.unclaimed.push_back(line);
        let size = |all: &VecDeque<Bytes>| all.iter().map(Bytes::len).sum::<usize>();
        while self.unclaimed.len() > UNCLAIMED_COUNT || size(&self.unclaimed) > UNCLAIMED {
            self.unclaimed.pop_front();
        }
    }

    /// Whether so much may wait for this client.
    fn has_room(&self, length: usize, weight: Weight) -> bool {
        let waiting: usize = self.tracks.values().map(|track| track.waiting()).sum();
        match weight {
            Weight::Needed => waiting + length <= BACKLOG.max(length),
            Weight::Notice => waiting + length <= BACKLOG / 2,
        }
    }
}

impl Outlet for Mail {
    fn send(&self, line: Bytes, about: About<'_>, weight: Weight) {
        let mut state = self.state();
        let has_room = state.has_room(line.len(), weight);
        if !has_room && weight == Weight::Notice {
            return;
        }
        let track = match about {
            About::Answer(id) => state.answered(id),
            About::Answers(ids) => state.all_answered(ids),
            About::Request(id) => {
                let track = state.posts.get(id).map(|post| post.track);
                let is_read =
                    |track: &u64| state.tracks.get(track).is_some_and(|track| track.is_wanted());
                let track = track.filter(is_read).or(state.listeners.last().copied());
                track.and_then(|track| state.tracks.get_mut(&track))
            }
            About::Nothing => {
                let track = state.listeners.last().copied();
                track.and_then(|track| state.tracks.get_mut(&track))
            }
        };
        let Some(track) = track else {
            if matches!(about, About::Request(_) | About::Nothing) {
                state.unclaimed(line);
            }
            return;
        };
        if has_room {
            track.push(line);
        } else {
            // Whoever does not take what it has asked for has lost it.
            track.give_up();
        }
        if matches!(about, About::Answer(_) | About::Answers(_)) {
            let count = if let About::Answers(ids) = about { ids.len() } else { 1 };
            track.answered(count);
        }
    }

    fn withdraw(&self, id: &[u8]) {
        if let Some(track) = self.state().answered(id) {
            track.answered(1);
        }
    }

    fn drained(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// Whoever listens may listen on: the client may come back.
    fn close(&self) {
        let mut state = self.state();
        let posts = std::mem::take(&mut state.posts);
        for post in posts.values() {
            if let Some(track) = state.tracks.get_mut(&post.track) {
                track.finish();
            }
        }
    }
}

impl Reader {
    pub(super) fn track(&self) -> u64 {
        self.track
    }

    /// Waits until it is known what comes first.
    pub(super) async fn first(&self) -> First {
        std::future::poll_fn(|cx| self.poll_first(cx)).await
    }

    fn poll_first(&self, cx: &mut Context<'_>) -> Poll<First> {
        let mut state = self.mail.state();
        let has_ended = state.has_ended;
        let Some(track) = state.tracks.get_mut(&self.track) else { return Poll::Ready(First::End) };
        match (track.waiting_count(), track.is_finished()) {
            (0, _) if has_ended => Poll::Ready(First::End),
            (0, true) => Poll::Ready(First::Nothing),
            (0, false) if track.is_streamed() => Poll::Ready(First::Several),
            (0, false) => {
                track.wait(cx.waker());
                Poll::Pending
            }
            (1, true) => {
                let answer = track.take(self.number).map(|(_, line)| line);
                Poll::Ready(answer.map_or(First::End, First::Answer))
            }
            _ => Poll::Ready(First::Several),
        }
    }

    /// The stream can be taken up again from now on.
    pub(super) fn stream(&self) {
        if let Some(track) = self.mail.state().tracks.get_mut(&self.track) {
            track.stream();
        }
    }

    /// The next message; none if there will be none.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.mail.state();
        let has_ended = state.has_ended;
        let Some(track) = state.tracks.get_mut(&self.track) else { return Poll::Ready(None) };
        if !track.is_read_by(self.number) {
            return Poll::Ready(None);
        }
        if let Some((number, line)) = track.take(self.number) {
            return Poll::Ready(Some(Event { track: self.track, number, line }));
        }
        if has_ended || track.is_finished() {
            return Poll::Ready(None);
        }
        track.wait(cx.waker());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.mail.state();
        let Some(track) = state.tracks.get_mut(&self.track) else { return };
        if !track.is_read_by(self.number) {
            return;
        }
        let kind = track.kind;
        if track.leave() {
            state.tracks.remove(&self.track);
        }
        if kind == Kind::Listen {
            state.listeners.retain(|one| *one != self.track);
        }
    }
}
