//! Parses heads of HTTP requests and responses, as far as the Door needs them to find the end of the message.

use std::ops::Range;

use httparse::{EMPTY_HEADER, Header, Status};

use crate::http::{self, Body, InvalidFraming};

/// More header lines than any client of an engine sends.
const MOST_HEADERS: usize = 128;

/// Head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    /// Bytes, including the empty line.
    pub(super) length: usize,
    pub(super) method: String,
    /// Request target, still percent-encoded.
    pub(super) target: String,
    /// Position of the target in the head.
    target_at: Range<usize>,
    pub(super) body: Body,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
    /// Positions of the `Content-Length`, `Transfer-Encoding` and `Expect` lines, without their line breaks.
    framing_lines: Vec<Range<usize>>,
}

/// Head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) length: usize,
    pub(super) status: u16,
    pub(super) body: Body,
    /// Whether the connection turns into a raw stream in both directions after this head.
    pub(super) hijacked: bool,
}

/// Why a head can't be used.
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
    /// `None`: the head is not complete yet.
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
            expects_continue: http::says(request.headers, "expect", "100-continue"),
            framing_lines: framing_lines.map(|header| line_of(header, bytes)).collect(),
        }))
    }

    /// The head in `bytes` with another target.
    pub(super) fn with_target(&self, bytes: &[u8], target: &str) -> Vec<u8> {
        let Range { start, end } = self.target_at;
        [&bytes[..start], target.as_bytes(), &bytes[end..self.length]].concat()
    }

    /// The head in `bytes` with a new `Content-Length` in place of the framing lines.
    pub(super) fn with_length(&self, bytes: &[u8], length: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(self.length + 32);
        let mut from = 0;
        for line in &self.framing_lines {
            head.extend_from_slice(&bytes[from..line.start]);
            // Skips the line break too, which is CR LF or only LF.
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

impl ResponseHead {
    /// Parses the response to a request of this method. `None`: the head is not complete yet.
    pub(super) fn parse(bytes: &[u8], method: &str) -> Result<Option<Self>, InvalidHead> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
        let status = response.code.ok_or(InvalidHead::Syntax)?;
        let stated = http::of_answer(response.headers)?;
        let is_stream = stated.is_none()
            && ["application/vnd.docker.raw-stream", "application/vnd.docker.multiplexed-stream"]
                .iter()
                .any(|kind| http::says(response.headers, "content-type", kind));
        let body = match status {
            100..=199 | 204 | 304 => Body::NONE,
            _ if method == "HEAD" => Body::NONE,
            _ => stated.unwrap_or(Body::UntilClose),
        };
        let hijacked = status == 101 || (status == 200 && method == "POST" && is_stream);
        Ok(Some(Self { length, status, body, hijacked }))
    }

    /// Whether another head follows for the same request, as after `100 Continue`.
    pub(super) fn is_interim(self) -> bool {
        (100..200).contains(&self.status) && !self.hijacked
    }
}

/// Position of a header's line in `bytes`, without its line break.
fn line_of(header: &Header<'_>, bytes: &[u8]) -> Range<usize> {
    range_of(header.name.as_bytes(), bytes).start..range_of(header.value, bytes).end
}

/// Position of `part`, a slice of `bytes`, in `bytes`.
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
    fn a_new_content_length_replaces_the_framing_lines_only() {
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
    fn ambiguous_framing_is_refused() {
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
    fn a_response_head_shows_whether_a_stream_begins() {
        let raw = "Content-Type: application/vnd.docker.raw-stream\r\n";
        let cases = [
            ("POST", format!("HTTP/1.1 101 UPGRADED\r\n{raw}\r\n"), true),
            ("POST", format!("HTTP/1.1 200 OK\r\n{raw}\r\n"), true),
            ("POST", format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{raw}\r\n"), false),
            ("GET", format!("HTTP/1.1 200 OK\r\n{raw}\r\n"), false),
            ("POST", "HTTP/1.1 100 Continue\r\n\r\n".into(), false),
        ];
        for (method, text, hijacked) in cases {
            let head = ResponseHead::parse(text.as_bytes(), method).unwrap().unwrap();
            assert_eq!(head.hijacked, hijacked, "{text}");
        }
    }

    #[test]
    fn responses_without_a_body_have_none() {
        for (method, status) in [("HEAD", 200), ("GET", 204), ("GET", 304), ("POST", 100)] {
            let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 7\r\n\r\n");
            let head = ResponseHead::parse(text.as_bytes(), method).unwrap().unwrap();
            assert_eq!(head.body, Body::NONE, "{method} {status}");
        }
        let open = ResponseHead::parse(b"HTTP/1.1 200 OK\r\n\r\n", "GET").unwrap().unwrap();
        assert_eq!(open.body, Body::UntilClose);
    }
}
