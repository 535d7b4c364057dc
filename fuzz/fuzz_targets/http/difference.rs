//! Where the gateway may read something else than hyper.

use hyper::Uri;
use ostler_gateway::fuzzing::{End, Request};

use crate::oracle::{self, NoBody};

/// A difference that is meant. The table in the documentation of this fuzz target says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    Coding,
    LengthAndCoding,
    Size,
    Digits,
    LineFeed,
    Trailer,
    Target,
    NotServed,
    Fragment,
    Close,
    Http2,
    Order,
}

/// hyper has read a request whose head the gateway refused with this status.
pub fn refused_by_us(sent: &[u8], status: u16, theirs: &oracle::Request) -> Option<Difference> {
    if status == 431 {
        return (sent.len() > 16 << 10).then_some(Difference::Size);
    }
    let codings: Vec<&[u8]> = theirs.all("transfer-encoding").collect();
    match codings[..] {
        // hyper has removed the fragment from its target.
        [] => sent.contains(&b'#').then_some(Difference::Fragment),
        [only] if only.eq_ignore_ascii_case(b"chunked") => {
            // hyper has removed the length from its headers.
            if contains(sent, b"content-length") {
                return Some(Difference::LengthAndCoding);
            }
            sent.contains(&b'#').then_some(Difference::Fragment)
        }
        _ => Some(Difference::Coding),
    }
}

/// The gateway has read a request whose head hyper refused with this status.
pub fn refused_by_hyper(
    sent: &[u8],
    status: u16,
    ours: &Request,
    end: Option<End>,
) -> Option<Difference> {
    match (status, end) {
        // Lengths that hyper keeps for itself.
        (431, Some(End::Refused(413))) => Some(Difference::Size),
        (400, _) if !ours.is_served() => Some(Difference::NotServed),
        (400, _) if !is_uri(&target(ours)) || names_malformed_gateway(sent) => {
            Some(Difference::Target)
        }
        _ => None,
    }
}

/// Both have refused the same head, with these statuses.
pub fn of_refusals(ours: u16, theirs: u16) -> Option<Difference> {
    (ours == 400 && theirs == 431).then_some(Difference::Order)
}

/// Both have read a request, with different targets.
pub fn of_targets(ours: &Request) -> Option<Difference> {
    (!ours.is_served()).then_some(Difference::NotServed)
}

/// Both have read the same head. The gateway has no body, because of `end`, or this one.
pub fn of_bodies(
    sent: &[u8],
    ours: Result<&[u8], End>,
    theirs: &oracle::Request,
) -> Option<Difference> {
    let is_chunked = theirs.all("transfer-encoding").next().is_some();
    match (ours, theirs.no_body) {
        (Err(End::Refused(413)), Some(NoBody::Gone)) => Some(Difference::Size),
        (Err(End::Refused(400)), None | Some(NoBody::Gone)) if is_chunked => {
            if has_long_number(sent) {
                Some(Difference::Digits)
            } else {
                has_bare_line_feed(sent).then_some(Difference::LineFeed)
            }
        }
        // All data has come, so that only trailers can be wrong.
        (Ok(body), Some(NoBody::Refused)) if is_chunked && body == theirs.body => {
            Some(Difference::Trailer)
        }
        // hyper counts them before the last one has come.
        (Err(End::Gone), Some(NoBody::Refused)) if is_chunked => {
            (lines(sent) > 100).then_some(Difference::Trailer)
        }
        _ => None,
    }
}

/// The gateway ends the connection after this request, and hyper goes on.
pub fn of_ends(theirs: &oracle::Request) -> Option<Difference> {
    let asks = theirs.all("connection").any(|value| contains(value, b"close"));
    (theirs.is_oldest_version || asks).then_some(Difference::Close)
}

fn target(request: &Request) -> String {
    if request.query.is_empty() {
        return request.path.clone();
    }
    format!("{}?{}", request.path, request.query)
}

fn is_uri(target: &str) -> bool {
    target.parse::<Uri>().is_ok()
}

/// Whether some target names a gateway by what is no URI. The gateway reads only what comes after the name.
fn names_malformed_gateway(sent: &[u8]) -> bool {
    let words = sent.split(|byte| byte.is_ascii_whitespace());
    let named = words.filter(|word| word.starts_with(b"http://") || word.starts_with(b"https://"));
    named.map(Uri::try_from).any(|uri| uri.is_err())
}

fn has_long_number(sent: &[u8]) -> bool {
    sent.split(|byte| !byte.is_ascii_hexdigit()).any(|digits| digits.len() > 16)
}

fn has_bare_line_feed(sent: &[u8]) -> bool {
    sent.windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
}

fn lines(sent: &[u8]) -> usize {
    sent.split(|byte| *byte == b'\n').count()
}

/// Regardless of case.
fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
