//! The heads of requests and answers: just as much of them as decides what follows.

use std::ops::Range;

use httparse::{EMPTY_HEADER, Header, Status};

use crate::http::{self, Body, InvalidFraming};

/// More than any client of an engine sends.
const MOST_HEADERS: usize = 128;

/// What comes first on a connection, or next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    /// How long it is, with the empty line.
    pub(super) length: usize,
    pub(super) method: String,
    /// As it was sent.
    pub(super) target: String,
    /// Where in the head that is.
    target_at: Range<usize>,
    pub(super) body: Body,
    /// The client waits to be told before it sends the body.
    pub(super) expects_word: bool,
    /// The lines that say how long the body is, and that the client waits; without their line
    /// breaks.
    framing_lines: Vec<Range<usize>>,
}

/// What an engine says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerHead {
    pub(super) length: usize,
    pub(super) status: u16,
    pub(super) body: Body,
    /// From here on the connection belongs to a stream in both directions.
    pub(super) hijacked: bool,
}

/// Not a head that we can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidHead {
    #[error("the head is not valid HTTP/1.1")]
    Syntax,
    #[error(transparent)]
    Framing(#[from] InvalidFraming),
    #[error("the head has too many lines")]
    TooLong,
}

impl From<httparse::Error> for InvalidHead {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooLong,
            _ => Self::Syntax,
        }
    }
}

impl RequestHead {
    /// `None`: there is more to come.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, InvalidHead> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let Status::Complete(length) = request.parse(bytes)? else { return Ok(None) };
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(InvalidHead::Syntax);
        };
        let body = http::of_request(request.headers, request.version.unwrap_or_default())?;
        let is_framing = |name: &str| {
            ["content-length", "transfer-encoding", "expect"]
                .iter()
                .any(|framing| name.eq_ignore_ascii_case(framing))
        };
        let framing_lines = request.headers.iter().filter(|header| is_framing(header.name));
        Ok(Some(Self {
            length,
            method: method.to_owned(),
            target: target.to_owned(),
            target_at: range_of(target.as_bytes(), bytes),
            body,
            expects_word: http::says(request.headers, "expect", "100-continue"),
            framing_lines: framing_lines.map(|header| line_of(header, bytes)).collect(),
        }))
    }

    /// The head of a request for another target, and all else as it is in `bytes`.
    pub(super) fn with_target(&self, bytes: &[u8], target: &str) -> Vec<u8> {
        let Range { start, end } = self.target_at;
        [&bytes[..start], target.as_bytes(), &bytes[end..self.length]].concat()
    }

    /// The head for a body of another length: `bytes` with its own lines about that replaced.
    pub(super) fn with_length(&self, bytes: &[u8], length: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(self.length + 32);
        let mut from = 0;
        for line in &self.framing_lines {
            head.extend_from_slice(&bytes[from..line.start]);
            // With its line break, of which the second byte is the one that is always there.
            let rest = &bytes[line.end..self.length];
            from = line.end + rest.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        }
        head.extend_from_slice(&bytes[from..self.length]);
        let blank_line = if head.ends_with(b"\r\n") { 2 } else { 1 };
        head.truncate(head.len() - blank_line);
        head.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
        head
    }
}

impl AnswerHead {
    /// The answer to a request of this method. `None`: there is more to come.
    pub(super) fn parse(bytes: &[u8], method: &str) -> Result<Option<Self>, InvalidHead> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let Status::Complete(length) = answer.parse(bytes)? else { return Ok(None) };
        let status = answer.code.ok_or(InvalidHead::Syntax)?;
        let stated = http::of_answer(answer.headers)?;
        let is_stream = stated.is_none()
            && ["application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream"]
                .iter()
                .any(|kind| http::says(answer.headers, "content-type", kind));
        let body = match status {
            100..=199 | 204 | 304 => Body::NONE,
            _ if method == "HEAD" => Body::NONE,
            _ => stated.unwrap_or(Body::UntilClose),
        };
        let hijacked = status == 101 || (status == 200 && method == "POST" && is_stream);
        Ok(Some(Self { length, status, body, hijacked }))
    }

    /// Another head follows that answers the same request.
    pub(super) fn is_interim(self) -> bool {
        (100..200).contains(&self.status) && !self.hijacked
    }
}

/// Where in `bytes` the line of a header is, without its line break.
fn line_of(header: &Header<'_>, bytes: &[u8]) -> Range<usize> {
    range_of(header.name.as_bytes(), bytes).start..range_of(header.value, bytes).end
}

/// Where in `bytes` this part of them is.
fn range_of(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - bytes.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Result<Option<RequestHead>, InvalidHead> {
        RequestHead::parse(text.as_bytes())
    }

    #[test]
    fn a_head_gets_another_length_and_keeps_all_else() {
        let cases = [
            (
                "POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 7\r\nX: y\r\n\r\n{",
                "Host: b\r\nX: y\r\n",
            ),
            ("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX:y\r\n\r\n", "X:y\r\n"),
            ("POST /a HTTP/1.1\r\nExpect: 100-continue\r\ncontent-length:2  \r\n\r\n", ""),
            ("POST /a HTTP/1.1\nContent-Length: 7\nX: y\n\n", "X: y\n"),
        ];
        for (text, kept) in cases {
            let head = request(text).unwrap().unwrap();
            let changed = String::from_utf8(head.with_length(text.as_bytes(), 42)).unwrap();
            let line = text.split_inclusive('\n').next().unwrap();
            assert_eq!(changed, format!("{line}{kept}Content-Length: 42\r\n\r\n"));
        }
    }

    #[test]
    fn what_could_hide_a_request_is_refused() {
        let heads = [
            "Content-Length: 3\r\nTransfer-Encoding: chunked",
            "Content-Length: 3\r\nContent-Length: 4",
            "Content-Length: +3",
            "Content-Length: ",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ];
        for head in heads {
            let text = format!("POST / HTTP/1.1\r\n{head}\r\n\r\n");
            assert_eq!(request(&text), Err(InvalidHead::Framing(InvalidFraming)), "{head}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(request(old), Err(InvalidHead::Framing(InvalidFraming)));
        assert_eq!(request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Err(InvalidHead::Syntax));
    }

    #[test]
    fn answers_say_when_a_stream_begins() {
        let raw = "Content-Type: application/vnd.docker.raw-stream\r\n";
        let cases = [
            ("POST", format!("HTTP/1.1 101 UPGRADED\r\n{raw}\r\n"), true),
            ("POST", format!("HTTP/1.1 200 OK\r\n{raw}\r\n"), true),
            ("POST", format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{raw}\r\n"), false),
            ("GET", format!("HTTP/1.1 200 OK\r\n{raw}\r\n"), false),
            ("POST", "HTTP/1.1 100 Continue\r\n\r\n".into(), false),
        ];
        for (method, text, hijacked) in cases {
            let head = AnswerHead::parse(text.as_bytes(), method).unwrap().unwrap();
            assert_eq!(head.hijacked, hijacked, "{text}");
        }
    }

    #[test]
    fn answers_without_a_body_have_none() {
        for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304), ("POST", 100)] {
            let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 7\r\n\r\n");
            let head = AnswerHead::parse(text.as_bytes(), method).unwrap().unwrap();
            assert_eq!(head.body, Body::NONE, "{method} {status}");
        }
        let open = AnswerHead::parse(b"HTTP/1.1 200 OK\r\n\r\n", "GET").unwrap().unwrap();
        assert_eq!(open.body, Body::UntilClose);
    }
}
