//! A client's stay: from its handshake until it says goodbye, or has been away for too long.
//!
//! While the client is there, its stay is a session of the gateway like any other. When it has been away for a while
//! that session ends, with all that it holds; what the client has said of itself is kept, and the next thing that it
//! says begins a session that knows it.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::limits::{INBOX, Limits, REQUESTS};
use super::mail::Mail;
use super::pass::Pass;
use super::refusal::Refusal;
use crate::client::Memory;
use crate::gateway::{Visitor, lock};
use crate::house::House;
use crate::transport::{End, Source, Words};

/// Between two looks whether a client is there, at least.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// One client's stay.
#[derive(Debug)]
pub(super) struct Stay {
    pub(super) id: u128,
    pub(super) pass: Arc<Pass>,
    /// The server that it wants, or all.
    pub(super) server: Option<String>,
    /// The version that was agreed upon.
    pub(super) version: String,
    pub(super) mail: Arc<Mail>,
    pub(super) limits: Limits,
    /// The stream of a client that has only one, for all that it is told.
    pub(super) only: OnceLock<u64>,
    /// Boxed, because room for many is made at once.
    inbox: mpsc::Sender<Box<Letter>>,
    presence: Mutex<Presence>,
    end: CancellationToken,
}

/// A client that begins its stay.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) pass: Arc<Pass>,
    pub(super) server: Option<String>,
    pub(super) version: String,
    pub(super) visitor: Visitor,
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

/// What a client has said, as its session hears it.
struct Inbox<'a> {
    first: Option<Box<Letter>>,
    rest: &'a mut mpsc::Receiver<Box<Letter>>,
    mail: &'a Mail,
}

impl Stay {
    /// A stay of which nobody knows yet, and what its client says.
    pub(super) fn new(
        id: u128,
        arrival: Arrival,
        limits: Limits,
    ) -> (Arc<Self>, mpsc::Receiver<Box<Letter>>) {
        let (inbox, letters) = mpsc::channel(INBOX);
        let stay = Self {
            id,
            end: arrival.pass.withdrawn().child_token(),
            pass: arrival.pass,
            server: arrival.server,
            version: arrival.version,
            mail: Arc::default(),
            limits,
            only: OnceLock::new(),
            inbox,
            presence: Mutex::new(Presence { count: 0, since: Instant::now() }),
        };
        (Arc::new(stay), letters)
    }

    /// Its client is there, as long as this is held.
    pub(super) fn attend(self: &Arc<Self>) -> Attendance {
        lock(&self.presence).count += 1;
        Attendance(Arc::clone(self))
    }

    /// Since when its client has been away, if it is.
    pub(super) fn away_since(&self) -> Option<Instant> {
        let presence = lock(&self.presence);
        (presence.count == 0).then_some(presence.since)
    }

    /// Its client says something.
    pub(super) fn say(&self, letter: Letter) -> Result<(), Refusal> {
        if self.mail.in_flight() + letter.ids.len() > REQUESTS {
            return Err(Refusal::Busy);
        }
        self.inbox.try_send(Box::new(letter)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refusal::Busy,
            mpsc::error::TrySendError::Closed(_) => Refusal::UnknownSession,
        })
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.mail.end();
        self.end.cancel();
    }

    /// Lives it, to its end.
    pub(super) async fn live(
        self: &Arc<Self>,
        visitor: Visitor,
        mut letters: mpsc::Receiver<Box<Letter>>,
        house: &House,
    ) {
        let mut memory = Memory::default();
        while let Some(letter) = self.next(&mut letters, house).await {
            let mail = Arc::clone(&self.mail);
            let inbox = Inbox { first: Some(letter), rest: &mut letters, mail: &mail };
            let out = Arc::clone(&self.mail);
            let detach = house.detach_timeout().unwrap_or(self.limits.detach);
            let gone = async {
                tokio::select! {
                    () = self.over(house) => self.mail.end(),
                    () = self.away_for(detach) => {}
                }
            };
            memory = house.gateway().attend(visitor.clone(), memory, inbox, out, gone).await;
        }
        self.mail.end();
    }

    /// What is said next, if its client comes back.
    async fn next(
        &self,
        letters: &mut mpsc::Receiver<Box<Letter>>,
        house: &House,
    ) -> Option<Box<Letter>> {
        tokio::select! {
            biased;
            () = self.over(house) => None,
            letter = letters.recv() => letter,
            () = self.away_for(self.limits.expiry) => None,
        }
    }

    /// Waits until it is ended by its client, with the token that has let it in, or with the gateway.
    async fn over(&self, house: &House) {
        tokio::select! {
            () = self.end.cancelled() => {}
            () = house.closed().cancelled() => {}
        }
    }

    /// Waits until its client has been away for so long. It is looked at from time to time, because nobody should
    /// have to be woken whenever a request is answered.
    async fn away_for(&self, limit: Duration) {
        let limit = limit.max(SHORTEST_LOOK);
        loop {
            match self.away_since().map(|since| since + limit) {
                None => sleep(limit).await,
                Some(until) if Instant::now() < until => sleep_until(until.into()).await,
                Some(_) => return,
            }
        }
    }
}

impl Attendance {
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

impl Source for Inbox<'_> {
    async fn hear(&mut self, mut each: impl FnMut(Words)) -> Result<(), End> {
        let letter = match self.first.take() {
            Some(letter) => letter,
            // Somebody who can say something holds the other end.
            None => self.rest.recv().await.ok_or(End::Gone)?,
        };
        open(*letter, self.mail, &mut each);
        while let Ok(letter) = self.rest.try_recv() {
            open(*letter, self.mail, &mut each);
        }
        Ok(())
    }
}

fn open(letter: Letter, mail: &Mail, each: &mut impl FnMut(Words)) {
    let Letter { words: Some(words), ids, track } = letter else { return };
    if mail.expect(&ids, track) {
        each(words);
    } else if let Some(id) = ids.first() {
        mail.refuse(id, track, "a request with this id is in flight already");
    }
}
