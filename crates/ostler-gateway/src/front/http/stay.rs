//! A client's stay: from its handshake until it says goodbye, or has been away for too long.
//!
//! While the client is there, its stay is a session of the gateway like any other. When it has been away for a while
//! that session ends, with all that it holds; what the client has said of itself is kept, and the next thing that it
//! says begins a session that knows it.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::limits::{INBOX, Limits, REQUESTS};
use super::mail::{Expected, Mail};
use super::refusal::Refusal;
use crate::client::Memory;
use crate::gateway::Visitor;
use crate::house::{House, Pass};
use crate::mutex::lock;
use crate::quota::{Account, Purse};
use crate::session::Desk;
use crate::transport::{Silence, Words};

/// Between two looks whether a client is there, at least.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// One client's stay.
#[derive(Debug)]
pub(super) struct Stay {
    pub(super) id: u128,
    pub(super) pass: Arc<Pass>,
    /// Counts the bytes of its requests that wait.
    pub(super) purse: Arc<Purse>,
    /// The server that it wants, or all.
    pub(super) server: Option<String>,
    /// The version that was agreed upon.
    pub(super) version: String,
    pub(super) mail: Arc<Mail>,
    pub(super) limits: Limits,
    /// The stream of a client that has only one, for all that it is told.
    pub(super) only: OnceLock<u64>,
    place: Mutex<Place>,
    /// Something is for a session that has not begun.
    knocked: Notify,
    presence: Mutex<Presence>,
    /// By its client, with the token that has let it in, or with the gateway.
    end: CancellationToken,
}

/// A client that begins its stay.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) pass: Arc<Pass>,
    pub(super) purse: Arc<Purse>,
    pub(super) server: Option<String>,
    pub(super) version: String,
    pub(super) visitor: Visitor,
}

/// Where what a client says is heard.
#[derive(Debug)]
enum Place {
    /// Nowhere: it has no session, and this is for the next one.
    Away(VecDeque<Letter>),
    At(Arc<Desk>),
    /// There will be none any more.
    Over,
}

#[derive(Debug)]
struct Presence {
    /// Requests that are answered, and streams that are read, at this moment.
    count: usize,
    /// When there was the last.
    since: Instant,
}

/// Shows that a client is there.
#[derive(Debug)]
pub(super) struct Attendance(Arc<Stay>);

/// Something that a client has said.
#[derive(Debug, Default)]
pub(super) struct Letter {
    /// Nothing, if it only shows that its client is there.
    pub(super) words: Option<Words>,
    /// The requests in it.
    pub(super) ids: Vec<Bytes>,
    /// The stream for the answers to them.
    pub(super) track: u64,
}

impl Stay {
    /// A stay of which nobody knows yet.
    pub(super) fn new(id: u128, arrival: Arrival, limits: Limits) -> Self {
        Self {
            id,
            end: arrival.pass.withdrawn().child_token(),
            pass: arrival.pass,
            purse: arrival.purse,
            server: arrival.server,
            version: arrival.version,
            mail: Arc::default(),
            limits,
            only: OnceLock::new(),
            place: Mutex::new(Place::Away(VecDeque::new())),
            knocked: Notify::new(),
            presence: Mutex::new(Presence { count: 0, since: Instant::now() }),
        }
    }

    /// Its client is there, as long as this is held.
    pub(super) fn attend(self: &Arc<Self>) -> Attendance {
        lock(&self.presence).count += 1;
        Attendance(Arc::clone(self))
    }

    /// What its principal uses of the gateway.
    pub(super) fn account(&self) -> &Arc<Account> {
        self.purse.account()
    }

    /// Since when its client has been away, if it is.
    pub(super) fn away_since(&self) -> Option<Instant> {
        let (is_present, since) = self.presence();
        (!is_present).then_some(since)
    }

    /// Whether its client is there, and when it was there last without that.
    pub(super) fn presence(&self) -> (bool, Instant) {
        let presence = lock(&self.presence);
        (presence.count > 0, presence.since)
    }

    /// Its client says something.
    pub(super) fn say(&self, letter: Letter) -> Result<(), Refusal> {
        if self.mail.in_flight() + letter.ids.len() > REQUESTS {
            return Err(Refusal::Busy);
        }
        // Locked while it is heard, so that what was said first is heard first.
        match &mut *lock(&self.place) {
            Place::At(desk) => self.open(letter, desk)?,
            Place::Away(letters) if letters.len() >= INBOX => return Err(Refusal::Busy),
            Place::Away(letters) => {
                letters.push_back(letter);
                self.knocked.notify_one();
            }
            Place::Over => return Err(Refusal::UnknownSession),
        }
        Ok(())
    }

    fn open(&self, letter: Letter, desk: &Desk) -> Result<(), Refusal> {
        let Letter { words: Some(words), ids, track } = letter else { return Ok(()) };
        match self.mail.expect(&ids, track, self.account()) {
            Expected::Yes => desk.hear(words),
            Expected::Repeated => {
                if let Some(id) = ids.first() {
                    self.mail.refuse(id, track, "a request with this id is in flight already");
                }
            }
            Expected::TooMany => return Err(Refusal::Requests(self.account().most_requests())),
        }
        Ok(())
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.mail.end();
        self.end.cancel();
    }

    /// Lives it, to its end.
    pub(super) async fn live(&self, visitor: Visitor, house: &House) {
        let mut memory = Memory::default();
        while self.is_wanted().await {
            let (out, purse) = (Arc::clone(&self.mail), Arc::clone(&self.purse));
            let desk = Arc::new(house.gateway().attend(visitor.clone(), memory, out, purse));
            self.sit_down(&desk);
            let detach = house.detach_timeout().unwrap_or(self.limits.detach);
            let gone = async {
                tokio::select! {
                    () = self.end.cancelled() => self.mail.end(),
                    () = self.away_for(detach) => {}
                }
            };
            desk.serve(Silence, gone).await;
            *lock(&self.place) = Place::Away(VecDeque::new());
            memory = desk.close();
        }
        *lock(&self.place) = Place::Over;
        self.mail.end();
    }

    /// Waits until its client says something. False if it never will.
    async fn is_wanted(&self) -> bool {
        let knocked = async {
            // It may be from before, and answered already.
            while !self.has_letters() {
                self.knocked.notified().await;
            }
        };
        tokio::select! {
            biased;
            () = self.end.cancelled() => false,
            () = knocked => true,
            () = self.away_for(self.limits.expiry) => false,
        }
    }

    fn has_letters(&self) -> bool {
        matches!(&*lock(&self.place), Place::Away(letters) if !letters.is_empty())
    }

    /// From now on what its client says is heard at this desk.
    fn sit_down(&self, desk: &Arc<Desk>) {
        let mut place = lock(&self.place);
        if let Place::Away(letters) = mem::replace(&mut *place, Place::At(Arc::clone(desk))) {
            for letter in letters {
                let (first, track) = (letter.ids.first().cloned(), letter.track);
                if let (Err(refusal), Some(id)) = (self.open(letter, desk), first) {
                    self.mail.refuse(&id, track, &refusal.to_string());
                }
            }
        }
    }

    /// Waits until its client has been away for so long; while it is there, whoever has waited for an answer for too
    /// long gets a stream. Both are looked at from time to time, because nobody should
    /// have to be woken whenever a request is answered.
    async fn away_for(&self, limit: Duration) {
        let limit = limit.max(SHORTEST_LOOK);
        let look = (self.limits.patience / 2).clamp(SHORTEST_LOOK, limit);
        loop {
            match self.away_since().map(|since| since + limit) {
                None => {
                    sleep(look).await;
                    self.mail.stream_late(self.limits.patience);
                }
                Some(until) if Instant::now() < until => sleep_until(until.into()).await,
                Some(_) => return,
            }
        }
    }
}

impl Attendance {
    /// Whose client it is.
    pub(super) fn stay(&self) -> &Stay {
        &self.0
    }

    /// How often its client is shown that we are there.
    pub(super) fn keep_alive(&self) -> Duration {
        self.0.limits.keep_alive
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut presence = lock(&self.0.presence);
        presence.count -= 1;
        presence.since = Instant::now();
    }
}
