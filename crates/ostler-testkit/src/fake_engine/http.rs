//! The part of HTTP that the fake needs: one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

/// A request with a Content-Length body.
pub(super) struct Request {
    pub(super) method: String,
    /// Without a version and without the query.
    pub(super) path: String,
    pub(super) query: String,
    /// Method and path.
    pub(super) line: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// `None` if the peer sent nothing.
    pub(super) fn read(stream: &mut UnixStream) -> io::Result<Option<Self>> {
        let mut reader = BufReader::new(stream);
        let mut lines = reader.by_ref().lines();
        let Some(first) = lines.next() else { return Ok(None) };
        let first = first?;
        let mut length = 0;
        for line in lines {
            let line = line?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            let said = line.strip_prefix("content-length:").and_then(|n| n.trim().parse().ok());
            length = said.unwrap_or(length);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut words = first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let versioned = path.strip_prefix("/v1.").and_then(|rest| rest.split_once('/'));
        let path = versioned.map_or(path.to_owned(), |(_, rest)| format!("/{rest}"));
        let line = format!("{method} {path}");
        Ok(Some(Self { line, method, path, query: query.to_owned(), body }))
    }
}

/// An answer to be sent.
pub(super) struct Answer<'a> {
    pub(super) stream: &'a mut UnixStream,
    pub(super) version: &'a str,
}

impl Answer<'_> {
    pub(super) fn whole(&mut self, status: u16, body: &Value) -> io::Result<()> {
        let (head, body) = self.text(status, body);
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body.as_bytes())
    }

    /// Announces the full length and sends half of it.
    pub(super) fn half(&mut self, status: u16, body: &Value) -> io::Result<()> {
        let (head, body) = self.text(status, body);
        let whole = format!("{head}{body}");
        let missing = body.len().div_ceil(2).max(3);
        self.stream.write_all(&whole.as_bytes()[..whole.len() - missing])
    }

    fn text(&self, status: u16, body: &Value) -> (String, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = format!("Content-Length: {}\r\n", body.len());
        let length = if status == 204 { "" } else { &length };
        let version = format!("Api-Version: {}\r\n", self.version);
        (format!("HTTP/1.1 {status} scripted\r\n{version}{length}\r\n"), body)
    }
}

/// The label that a list is filtered by.
pub(super) fn label_in(query: &str) -> String {
    let filters =
        query.split('&').find_map(|part| part.strip_prefix("filters=")).unwrap_or_default();
    let filters: Value = serde_json::from_str(&unescaped(filters)).unwrap_or_default();
    filters["label"][0].as_str().unwrap_or_default().to_owned()
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or(("", part));
        plain.extend(u8::from_str_radix(code, 16).ok().map(char::from));
        plain.push_str(rest);
    }
    plain
}
