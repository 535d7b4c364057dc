//! What clients ask for: to say something, to listen, to leave.

use std::sync::Arc;

use hyper::StatusCode;
use ostler::Frame;

use super::Http;
use super::answer::{Answer, Content};
use super::guard::Caller;
use super::head::Head;
use super::headers;
use super::lobby::{Lobby, written};
use super::mail::First;
use super::path::{self, Way};
use super::refusal::Refusal;
use super::said::{Posted, Said};
use super::stay::{Arrival, Attendance, Letter, Stay};
use super::stream::{Opening, Stream};
use crate::protocol::message;
use crate::protocol::version;
use crate::quota::{Account, Purse};

/// What a request asks for, as far as its head says it.
#[derive(Debug)]
pub(super) enum Asked {
    /// What it gets.
    Answered(Answer),
    /// To say what its body holds.
    Post(Post),
}

/// A request of a client that may come in.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) asked: Asked,
    /// What its principal uses of the gateway.
    pub(super) account: Arc<Account>,
}

/// Whoever wants to say something.
#[derive(Debug)]
pub(super) enum Post {
    /// A client that comes for the first time, and the server that it wants.
    Arriving(Caller, Option<String>),
    Staying(Attendance),
    /// One that is told everything on this stream.
    Old(Arc<Stay>, u64),
}

impl Http {
    /// Looks at the head of a request.
    pub(super) fn admit(&self, head: &Head<'_>) -> Result<Admitted, Refusal> {
        let caller = self.guard.check(head, &self.house.passes())?;
        let account = Arc::clone(caller.pass.account(self.house.gateway().quotas()));
        account.pace(1).map_err(Refusal::Pace)?;
        Ok(Admitted { asked: self.ask(caller, head)?, account })
    }

    fn ask(&self, caller: Caller, head: &Head<'_>) -> Result<Asked, Refusal> {
        let (way, server) = path::parse(head.path)?;
        let server = server.as_deref();
        let answer = match (way, head.method) {
            (Way::Streamable, "POST") => return self.post(caller, server, head).map(Asked::Post),
            (Way::Streamable, "GET") => self.listen(&caller, server, head),
            (Way::Streamable, "DELETE") => self.leave(&caller, server, head),
            (Way::Old, "POST") => return self.post_old(&caller, server, head).map(Asked::Post),
            (Way::Old, "GET") => self.open_old(caller, server, head),
            _ => Err(Refusal::Method),
        };
        answer.map(Asked::Answered)
    }

    fn post(&self, caller: Caller, server: Option<&str>, head: &Head<'_>) -> Result<Post, Refusal> {
        headers::check_post(head)?;
        let Some(id) = headers::session(head) else {
            return Ok(Post::Arriving(caller, server.map(str::to_owned)));
        };
        let stay = self.find(id, &caller, server, head)?;
        // It is there while it sends, however long that takes.
        Ok(Post::Staying(stay.attend()))
    }

    /// What counts the bytes of somebody who wants to say something.
    pub(super) fn purse_of(&self, post: &Post) -> Arc<Purse> {
        match post {
            Post::Arriving(caller, _) => self.purse(caller),
            Post::Staying(attendance) => Arc::clone(&attendance.stay().purse),
            Post::Old(stay, _) => Arc::clone(&stay.purse),
        }
    }

    /// For a session that has not begun.
    fn purse(&self, caller: &Caller) -> Arc<Purse> {
        Purse::new(Arc::clone(caller.pass.account(self.house.gateway().quotas())))
    }

    /// Hears what is said, and answers it.
    pub(super) async fn hear(&self, post: Post, body: Posted) -> Result<Answer, Refusal> {
        match post {
            Post::Arriving(caller, server) => {
                self.arrive(caller, server.as_deref(), Said::parse(body, "")?).await
            }
            Post::Staying(attendance) => {
                let said = Said::parse(body, &attendance.stay().version)?;
                said.pace(attendance.stay().account())?;
                say(attendance, said).await
            }
            Post::Old(stay, track) => {
                let said = Said::parse(body, &stay.version)?;
                said.pace(stay.account())?;
                let Said { words, ids } = said;
                stay.say(Letter { words: Some(words), ids, track })?;
                Ok(Answer::empty(StatusCode::ACCEPTED))
            }
        }
    }

    /// A client's first words.
    async fn arrive(
        &self,
        caller: Caller,
        server: Option<&str>,
        said: Said,
    ) -> Result<Answer, Refusal> {
        let hello = said.hello().ok_or(Refusal::NoSession)?;
        let requested = message::text_param(hello, &["protocolVersion"]).unwrap_or_default();
        let stay = self.open(caller, server, version::agreed(&requested))?;
        let newcomer = Newcomer { stay: &stay, lobby: &self.lobby, is_told: false };
        let mut answer = say(stay.attend(), said).await?;
        if newcomer.settle(&answer) {
            answer.header = Some((headers::SESSION, written(stay.id).into()));
        }
        Ok(answer)
    }

    /// A stay for a client that speaks this version.
    pub(super) fn open(
        &self,
        caller: Caller,
        server: Option<&str>,
        version: &str,
    ) -> Result<Arc<Stay>, Refusal> {
        if self.house.closing().is_cancelled() {
            return Err(Refusal::Closing);
        }
        let server = server.map(str::to_owned);
        let purse = self.purse(&caller);
        let visitor = self.house.welcome_by_pass(server.clone(), caller.agent, &caller.pass)?;
        let version = version.to_owned();
        let arrival = Arrival { pass: caller.pass, purse, server, version, visitor };
        self.lobby.open(arrival, self.limits, &self.house)
    }

    fn listen(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Answer, Refusal> {
        headers::check_get(head)?;
        let id = headers::session(head).ok_or(Refusal::Method)?;
        let stay = self.find(id, caller, server, head)?;
        let attendance = stay.attend();
        let last = headers::last_event(head);
        let resumed = last.and_then(|(track, number)| stay.mail.resume(track, number));
        let reader = resumed.unwrap_or_else(|| stay.mail.listen());
        // Its session may have ended because it was away. If there is no room, somebody has said the same.
        let _ = stay.say(Letter::default());
        Ok(Answer::events(Stream::new(reader, opening(&stay), attendance)))
    }

    fn leave(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Answer, Refusal> {
        let id = headers::session(head).ok_or(Refusal::Method)?;
        let stay = self.find(id, caller, server, head)?;
        self.lobby.forget(&stay);
        Ok(Answer::empty(StatusCode::OK))
    }

    fn find(
        &self,
        id: &str,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Arc<Stay>, Refusal> {
        let stay = self.lobby.find(id, &caller.pass, server);
        let stay = stay.filter(|stay| stay.only.get().is_none()).ok_or(Refusal::UnknownSession)?;
        headers::check_version(head)?;
        Ok(stay)
    }
}

/// Brings what a client has said to its session, and waits for what it is told.
async fn say(attendance: Attendance, said: Said) -> Result<Answer, Refusal> {
    let stay = attendance.stay();
    let Said { words, ids } = said;
    let words = Some(words);
    if ids.is_empty() {
        stay.say(Letter { words, ids, track: 0 })?;
        return Ok(Answer::empty(StatusCode::ACCEPTED));
    }
    let reader = stay.mail.post();
    stay.say(Letter { words, ids, track: reader.track() })?;
    Ok(match reader.first().await {
        First::Answer(line) => Answer::json(line),
        First::Several => Answer::events(Stream::new(reader, opening(stay), attendance)),
        // A request needs an answer, even if there is nothing to say.
        First::Nothing => Answer::events(Stream::new(reader, Opening::Plain, attendance)),
        First::End => return Err(Refusal::UnknownSession),
    })
}

fn opening(stay: &Stay) -> Opening {
    if *stay.version < *version::LATEST { Opening::Plain } else { Opening::Primed }
}

/// A client that does not know the id of its session yet.
struct Newcomer<'a> {
    stay: &'a Stay,
    lobby: &'a Lobby,
    is_told: bool,
}

impl Newcomer<'_> {
    /// It is told, unless its handshake has failed. Whether it is.
    fn settle(mut self, answer: &Answer) -> bool {
        self.is_told = match &answer.content {
            Content::Json(line) => {
                let answer = Frame::parse(line.slice_ref(line.trim_ascii_end()));
                answer.is_ok_and(|answer| !answer.is_error())
            }
            Content::Nothing => false,
            Content::Events(_) => true,
        };
        self.is_told
    }
}

impl Drop for Newcomer<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.lobby.forget(self.stay);
        }
    }
}
