//! The gateway's own reader of HTTP/1 against hyper: the same bytes are the same requests with the same bodies, or are
//! refused with the same status, wherever the parts of them end that arrive together.
//!
//! The first byte of an input is the size of these parts. Both readers may differ only as [`Difference`] lists:
//!
//! | difference | the gateway | hyper | why |
//! |---|---|---|---|
//! | `Coding` | refuses every `Transfer-Encoding` but a single `chunked` | accepts lists that end with `chunked` | the gateway decodes no other coding |
//! | `LengthAndCoding` | refuses `Content-Length` beside `Transfer-Encoding` | ignores the length | a proxy that believes the length sees another request |
//! | `Size` | heads of 16 KiB and bodies of 16 MiB at most: 431 and 413 | larger heads; 431 for a length that it can't count | limits of the gateway |
//! | `Digits` | 16 digits in the size of a chunk | any number of leading zeros | no client needs more |
//! | `LineFeed` | refuses a line feed without a carriage return in a trailer | accepts it | others see the end of the body there |
//! | `Trailer` | skips trailers | refuses those that are no headers, or more than 100 | nothing reads them, and the body ends at the same byte |
//! | `Target` | reads the path and the query only | refuses what is no URI | a path is served only if it names a server |
//! | `NotServed` | has nothing at targets of other forms, and answers 404 | understands or refuses them | only a proxy is sent such targets |
//! | `Fragment` | refuses a target with a fragment | removes the fragment | clients keep fragments to themselves, and readers differ in where the path ends |
//! | `Close` | ends the connection after each request of HTTP/1.0, and if `close` is among other bytes of `Connection` | goes on | a client can always open another connection |
//! | `Http2` | answers 400 to the first bytes of an HTTP/2 connection | ends the connection without an answer | a person sees what is wrong |
//! | `Order` | looks at the target before it looks at the length of the body | counts first, and answers 431 | the head has two faults, and both refuse it |
#![no_main]

mod difference;
mod oracle;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use libfuzzer_sys::fuzz_target;
use ostler_gateway::fuzzing::{End, Reading, Request, read_all};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use self::difference::Difference;

/// A client that sends parts of this size, closes its side, and takes everything.
struct Client<'a> {
    unsent: &'a [u8],
    size: usize,
}

impl AsyncRead for Client<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.size.min(self.unsent.len()).min(into.remaining());
        let (part, rest) = self.unsent.split_at(size);
        into.put_slice(part);
        self.unsent = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Client<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

thread_local! {
    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().build().expect("a runtime");
}

fn read(sent: &[u8], size: usize) -> Reading {
    RUNTIME.with(|runtime| runtime.block_on(read_all(Client { unsent: sent, size })))
}

/// Both readings up to the first place from which on they may differ.
fn compare(sent: &[u8], ours: &Reading, theirs: &oracle::Reading) -> Option<Difference> {
    let allowed = |difference: Option<Difference>| {
        Some(difference.unwrap_or_else(|| panic!("{ours:#?}\n{theirs:#?}")))
    };
    let mut rest = theirs.requests.iter();
    let whole = ours.requests.iter().map(|request| (request, Ok(&request.body[..])));
    let cut = ours.without_body.iter().map(|request| (request, Err(ours.end)));
    for (request, body) in whole.chain(cut) {
        let Some(other) = rest.next() else {
            let end = body.err();
            let status = theirs.refused.unwrap_or_default();
            return allowed(difference::refused_by_hyper(sent, status, request, end));
        };
        compare_heads(request, other);
        let is_same = match (body, other.no_body) {
            (Ok(body), None) => body == other.body,
            (Err(End::Gone), Some(oracle::NoBody::Gone)) => true,
            (Err(End::Refused(400)), Some(oracle::NoBody::Refused)) => true,
            _ => false,
        };
        if !is_same {
            return allowed(difference::of_bodies(sent, body, other));
        }
    }
    match (ours.end, rest.next(), theirs.refused) {
        (End::Refused(status), Some(other), _) if ours.without_body.is_none() => {
            allowed(difference::refused_by_us(sent, status, other))
        }
        (End::Refused(400), None, None) if theirs.is_http2 => Some(Difference::Http2),
        (End::Refused(status), None, Some(refused)) if ours.without_body.is_none() => {
            if status == refused { None } else { allowed(difference::of_refusals(status, refused)) }
        }
        (End::Asked, next, refused) if next.is_some() || refused.is_some() => allowed(
            theirs.requests[ours.requests.len() - 1..].first().and_then(difference::of_ends),
        ),
        (_, None, None) => None,
        _ => allowed(None),
    }
}

fn compare_heads(ours: &Request, theirs: &oracle::Request) {
    assert_eq!(ours.method, theirs.method);
    assert_eq!(sorted(&ours.headers), sorted(&theirs.headers));
    if (&ours.path, &ours.query) != (&theirs.path, &theirs.query) {
        let difference = difference::of_targets(ours);
        assert!(difference.is_some(), "{ours:#?}\n{theirs:#?}");
    }
}

/// By name, in lower case. hyper keeps the first of several lengths that are the same number.
fn sorted(headers: &[(String, Vec<u8>)]) -> Vec<(String, &[u8])> {
    let headers = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), &value[..]));
    let mut headers: Vec<_> = headers.collect();
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    headers.dedup_by(|one, other| one.0 == other.0 && one.0 == "content-length");
    headers
}

/// What arrives in parts is the same, only that an error in a head is seen when its end arrives.
fn compare_parts(whole: &Reading, parts: &Reading) {
    assert_eq!(whole.requests, parts.requests);
    assert_eq!(whole.without_body, parts.without_body);
    let is_unseen = matches!((whole.end, parts.end), (End::Refused(_), End::Closed));
    assert!(whole.end == parts.end || is_unseen, "{whole:#?}\n{parts:#?}");
}

fuzz_target!(|data: &[u8]| {
    let Some((size, sent)) = data.split_first() else { return };
    let whole = read(sent, sent.len().max(1));
    compare_parts(&whole, &read(sent, usize::from(*size).max(1)));
    compare(sent, &whole, &oracle::read_all(sent));
});
