//! HTTP client of a gateway, driven request by request by a test.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

/// Bound on every read.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one gateway.
#[derive(Clone, Debug)]
pub struct Web {
    /// Address of the gateway.
    pub address: SocketAddr,
    /// Path, such as `/mcp`.
    pub path: String,
    /// Sent with every request.
    pub headers: BTreeMap<String, String>,
}

/// Response, as far as it was read.
#[derive(Debug)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    headers: BTreeMap<String, String>,
    connection: BufReader<TcpStream>,
    rest: Rest,
    text: Vec<u8>,
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Event id.
    pub id: Option<String>,
    /// Event name, if any.
    pub name: Option<String>,
    /// `retry`, in milliseconds.
    pub retry: Option<String>,
    /// Data.
    pub data: String,
}

#[derive(Debug)]
enum Rest {
    Exactly(usize),
    Chunks,
    Over,
}

impl Web {
    /// A client of this path with this token, which speaks the newest version that has sessions.
    pub fn new(address: SocketAddr, path: &str, token: &str) -> Self {
        let headers = [
            ("Host", address.to_string()),
            ("Authorization", format!("Bearer {token}")),
            ("Accept", "application/json, text/event-stream".into()),
            ("Content-Type", "application/json".into()),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).into();
        Self { address, path: path.to_owned(), headers }
    }

    /// The same with another header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same without a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Opens a session with a complete handshake, and returns a client in that session.
    #[must_use]
    pub fn enter(&self) -> Self {
        self.enter_with("2025-11-25", &json!({}))
    }

    /// Opens a session of this version with these capabilities.
    #[must_use]
    pub fn enter_with(&self, version: &str, capabilities: &Value) -> Self {
        let inside = self.welcome(self.send("POST", &hello(version, capabilities)));
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(inside.send("POST", ready).status, 202);
        inside
    }

    /// The same client in the session that this response opened.
    #[must_use]
    pub fn welcome(&self, mut reply: Reply) -> Self {
        let id = reply.header("mcp-session-id").map(ToOwned::to_owned);
        let answer = reply.message();
        assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
        self.clone().with("Mcp-Session-Id", &id.expect("a session"))
    }

    /// The id of its session.
    pub fn session(&self) -> &str {
        &self.headers["Mcp-Session-Id"]
    }

    /// Sends a request, and reads the head of the response.
    pub fn send(&self, method: &str, body: &str) -> Reply {
        Reply::read(self.begin(method, body)).expect("an answer")
    }

    /// Sends a request.
    pub fn begin(&self, method: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(self.text(method, body).as_bytes()).expect("a reading peer");
        stream
    }

    /// Opens a connection without sending anything.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a listening gateway");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    /// Text of a request.
    pub fn text(&self, method: &str, body: &str) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let (path, length) = (&self.path, body.len());
        let headers: String = headers.collect();
        format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
    }

    /// Posts a request.
    pub fn request(&self, id: &Value, method: &str, params: &Value) -> Reply {
        self.send("POST", &request(id, method, params))
    }

    /// Calls a tool, and reads its result.
    pub fn tool(&self, name: &str, arguments: &Value) -> Value {
        let params = json!({ "name": name, "arguments": arguments });
        let answer = self.request(&json!(7), "tools/call", &params).message();
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Opens a stream to listen to.
    pub fn listen(&self) -> Reply {
        let reply = self.send("GET", "");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply
    }
}

/// A handshake.
pub fn hello(version: &str, capabilities: &Value) -> String {
    let info = json!({ "name": "web", "version": "1" });
    let params =
        json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
    request(&json!(0), "initialize", &params)
}

/// Address in the output of a gateway that listens on HTTP.
pub fn address_in(said: &str) -> Option<SocketAddr> {
    said.split("://").nth(1)?.split('/').next()?.parse().ok()
}

/// Text of a request.
pub fn request(id: &Value, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

impl Reply {
    /// Reads the head of an answer.
    pub fn read(stream: TcpStream) -> io::Result<Self> {
        let mut connection = BufReader::new(stream);
        let first = line(&mut connection)?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer: {first:?}")))?;
        let mut headers = BTreeMap::new();
        loop {
            let header = line(&mut connection)?;
            let Some((name, value)) = header.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let rest = match length {
            Some(length) => Rest::Exactly(length),
            None if headers.contains_key("transfer-encoding") => Rest::Chunks,
            None => Rest::Over,
        };
        Ok(Self { status, headers, connection, rest, text: Vec::new() })
    }

    /// One of its headers.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// All of its text.
    pub fn text(&mut self) -> String {
        while self.more().expect("the whole answer") {}
        String::from_utf8(std::mem::take(&mut self.text)).expect("text")
    }

    /// The next message: of a stream, or all of it.
    pub fn message(&mut self) -> Value {
        let text = if self.is_stream() { self.said().expect("an event").data } else { self.text() };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// The next message, which has to be a call of this method.
    pub fn expect(&mut self, method: &str) -> Value {
        let message = self.message();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// The next event with data; `None` at the end.
    pub fn said(&mut self) -> Option<Event> {
        loop {
            let event = self.event()?;
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next event, with or without data; `None` at the end.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = parse(std::str::from_utf8(&event).expect("text"));
                if event != Event::default() {
                    return Some(event);
                }
            } else if !self.more().unwrap_or(false) {
                return None;
            }
        }
    }

    /// Cuts the connection.
    pub fn cut(self) {
        let _ = self.connection.get_ref().shutdown(Shutdown::Both);
    }

    /// The connection, for the next request.
    pub fn into_stream(self) -> TcpStream {
        self.connection.into_inner()
    }

    /// Reads more bytes. Returns whether there were any.
    fn more(&mut self) -> io::Result<bool> {
        let length = match self.rest {
            Rest::Exactly(length) => length,
            Rest::Chunks => {
                let size = line(&mut self.connection)?;
                usize::from_str_radix(&size, 16).map_err(io::Error::other)?
            }
            Rest::Over => 0,
        };
        let begin = self.text.len();
        self.text.resize(begin + length, 0);
        self.connection.read_exact(&mut self.text[begin..])?;
        match self.rest {
            Rest::Chunks if length > 0 => drop(line(&mut self.connection)?),
            _ => self.rest = Rest::Over,
        }
        Ok(length > 0)
    }
}

fn parse(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        match name {
            "id" => event.id = Some(value.to_owned()),
            "event" => event.name = Some(value.to_owned()),
            "retry" => event.retry = Some(value.to_owned()),
            "data" => event.data.push_str(value),
            _ => {}
        }
    }
    event
}

fn line(connection: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}
