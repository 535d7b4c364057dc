//! The way of speaking HTTP of 2024-11-05: a client opens one stream, on which it is told where to post, and then
//! everything else. Its stay ends with that stream.

use std::sync::Arc;

use super::Http;
use super::answer::Answer;
use super::guard::Caller;
use super::head::Head;
use super::headers;
use super::lobby::{Ending, written};
use super::refusal::Refusal;
use super::requests::Post;
use super::stream::Stream;
use crate::protocol::version;

/// Where a client says which session it means.
const SESSION: &str = "session=";

impl Http {
    pub(super) fn open_old(
        &self,
        caller: Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Answer, Refusal> {
        headers::check_get(head)?;
        let stay = self.open(caller, server, version::OLDEST)?;
        let reader = stay.mail.listen();
        let _ = stay.only.set(reader.track());
        let endpoint = format!("{}?{SESSION}{}", head.path, written(stay.id));
        let attendance = stay.attend();
        let ending = Ending { lobby: Arc::clone(&self.lobby), stay };
        Ok(Answer::events(Stream::of_old(reader, &endpoint, attendance, ending)))
    }

    pub(super) fn post_old(
        &self,
        caller: &Caller,
        server: Option<&str>,
        head: &Head<'_>,
    ) -> Result<Post, Refusal> {
        headers::check_content(head)?;
        let mut pairs = head.query.split('&');
        let id = pairs.find_map(|pair| pair.strip_prefix(SESSION)).ok_or(Refusal::NoSession)?;
        let stay = self.lobby.find(id, &caller.pass, server);
        let stay = stay.ok_or(Refusal::UnknownSession)?;
        let track = *stay.only.get().ok_or(Refusal::UnknownSession)?;
        Ok(Post::Old(stay, track))
    }
}
