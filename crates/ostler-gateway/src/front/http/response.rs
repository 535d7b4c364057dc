//! HTTP responses.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::StatusCode;

use super::head::{Exchange, Form};
use super::sse::SseBody;

/// Response with its status and content.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: StatusCode,
    /// Extra header, which most responses don't have.
    pub(super) header: Option<(&'static str, Cow<'static, str>)>,
    pub(super) content: Content,
}

/// Body of a response.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    /// One JSON message, with the line end that it has on a pipe.
    Json(Bytes),
    /// Event stream.
    Events(Box<SseBody>),
}

impl Response {
    /// Response with one JSON message.
    pub(super) fn json(line: Bytes) -> Self {
        Self { status: StatusCode::OK, header: None, content: Content::Json(line) }
    }

    /// Response with an event stream.
    pub(super) fn events(stream: SseBody) -> Self {
        Self { status: StatusCode::OK, header: None, content: Content::Events(Box::new(stream)) }
    }

    /// Response without a body.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, header: None, content: Content::Nothing }
    }

    /// Writes the status line and the headers.
    pub(super) fn put_head(&self, exchange: &Exchange, to: &mut Vec<u8>) -> io::Result<()> {
        let reason = self.status.canonical_reason().unwrap_or_default();
        write!(to, "HTTP/1.1 {} {reason}\r\n", self.status.as_u16())?;
        match &self.content {
            Content::Nothing => to.extend_from_slice(b"content-length: 0\r\n"),
            Content::Json(line) => {
                to.extend_from_slice(b"content-type: application/json\r\n");
                write!(to, "content-length: {}\r\n", line.len())?;
            }
            Content::Events(_) => {
                to.extend_from_slice(b"content-type: text/event-stream\r\n");
                to.extend_from_slice(b"cache-control: no-cache, no-transform\r\n");
                // Keeps nginx and similar proxies from buffering the stream.
                to.extend_from_slice(b"x-accel-buffering: no\r\n");
                if exchange.form == Form::Chunks {
                    to.extend_from_slice(b"transfer-encoding: chunked\r\n");
                }
            }
        }
        if let Some((name, value)) = &self.header {
            write!(to, "{name}: {value}\r\n")?;
        }
        if exchange.ends {
            to.extend_from_slice(b"connection: close\r\n");
        }
        DATE.with_borrow_mut(|date| write!(to, "date: {}\r\n\r\n", date.now()))
    }
}

thread_local! {
    static DATE: RefCell<Date> = RefCell::default();
}

/// Cached `Date` header, formatted once per second.
#[derive(Default)]
struct Date {
    /// Unix time in seconds.
    time: u64,
    text: String,
}

impl Date {
    fn now(&mut self) -> &str {
        let now = SystemTime::now();
        let time = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.time != time || self.text.is_empty() {
            *self = Self { time, text: httpdate::fmt_http_date(now) };
        }
        &self.text
    }
}
