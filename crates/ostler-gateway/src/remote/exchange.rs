//! One request, sent once, and its response.

use ostler::Frame;

use super::failure::Failure;
use super::link::{Answer, Link};
use super::outlet::frame_of;
use super::stream::{follow, is_answer};

/// Sends a request and writes the response, or an error, to the instance's output.
pub(super) async fn exchange(link: &Link, request: &Frame) {
    if let Err(failure) = attempt(link, request).await {
        link.fail(request, &failure).await;
    }
}

/// Like `exchange`, but returns a failure instead of writing it.
pub(super) async fn attempt(link: &Link, request: &Frame) -> Result<(), Failure> {
    let answer = link.post(request).await?;
    if request.method() == b"initialize" {
        link.note_session(answer.headers());
    }
    // An HTTP+SSE server sends the response on its event stream.
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
