//! What a head says about its body.

use httparse::Header;

use super::Body;

/// A head that contradicts itself, or that others could understand in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the head has contradictory body lengths")]
pub struct InvalidFraming;

/// What a client hears that waits to be told before it sends a body.
pub const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The body of a request of this minor version of HTTP/1.
pub fn of_request(headers: &[Header<'_>], version: u8) -> Result<Body, InvalidFraming> {
    let framing = Framing::of(headers)?;
    // Not everybody would heed it there, and some see the body's end elsewhere.
    if framing.chunked && version == 0 {
        return Err(InvalidFraming);
    }
    Ok(framing.body().unwrap_or(Body::NONE))
}

/// The body of an answer, if its head says anything about it.
pub fn of_answer(headers: &[Header<'_>]) -> Result<Option<Body>, InvalidFraming> {
    Framing::of(headers).map(Framing::body)
}

/// Whether one of the words in a header is this one, whatever is said about it behind a semicolon.
pub fn says(headers: &[Header<'_>], name: &str, word: &str) -> bool {
    let named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let mut words = named.flat_map(|header| header.value.split(|byte| *byte == b','));
    words.any(|one| {
        let one = one.split(|byte| *byte == b';').next().unwrap_or_default();
        one.trim_ascii().eq_ignore_ascii_case(word.as_bytes())
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    fn of(headers: &[Header<'_>]) -> Result<Self, InvalidFraming> {
        let mut framing = Self::default();
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = length_in(header.value).ok_or(InvalidFraming)?;
                if framing.length.is_some_and(|other| other != length) {
                    return Err(InvalidFraming);
                }
                framing.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if framing.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(InvalidFraming);
                }
                framing.chunked = true;
            }
        }
        // Whichever of the two others believe, the other one could hide a request from us.
        if framing.chunked && framing.length.is_some() {
            return Err(InvalidFraming);
        }
        Ok(framing)
    }

    fn body(self) -> Option<Body> {
        if self.chunked { Some(Body::CHUNKED) } else { self.length.map(Body::Length) }
    }
}

fn length_in(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
