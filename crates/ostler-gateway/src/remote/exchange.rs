//! One request, sent once, and its answer.

use ostler::Frame;

use super::failure::Failure;
use super::link::{Answer, Link};
use super::outlet::frame_of;
use super::stream::{follow, is_answer};

/// Sends a request, and passes on what comes of it.
pub(super) async fn exchange(link: &Link, request: &Frame) {
    if let Err(failure) = attempt(link, request).await {
        link.fail(request, &failure).await;
    }
}

/// The same, for one who wants to know why not.
pub(super) async fn attempt(link: &Link, request: &Frame) -> Result<(), Failure> {
    let answer = link.post(request).await?;
    if request.method() == b"initialize" {
        link.note_session(answer.headers());
    }
    // An old server answers elsewhere.
    if link.state.endpoint.get().is_some() {
        return Ok(());
    }
    match link.answer(answer).await? {
        Answer::Stream(body) => follow(link, request, body).await,
        Answer::Whole(body) => {
            let message = frame_of(&body).filter(|message| is_answer(message, request));
            let message = message.ok_or_else(|| Failure::NoMessage("application/json".into()))?;
            link.note_version(&message);
            link.out.say(&message.line()).await;
            Ok(())
        }
        Answer::Empty => Err(Failure::NoMessage("nothing".into())),
    }
}
