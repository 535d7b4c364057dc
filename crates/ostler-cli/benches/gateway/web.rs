//! Client on HTTP: one kept-alive connection with its own MCP session.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::Result;
use crate::client::{INITIALIZE, INITIALIZED};
use crate::load::{Caller, Turns};

/// Larger than any response, in bytes.
const CHUNK: usize = 4 << 10;

pub(crate) struct Web {
    stream: TcpStream,
    /// Request head, without the length.
    head: String,
    heard: Vec<u8>,
    turns: Turns,
}

impl Web {
    /// Connects to the server `echo` and does the handshake.
    pub(crate) fn meet(address: SocketAddr, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /mcp/echo HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        );
        let mut web = Self { stream, head, heard: Vec::new(), turns: Turns::new() };
        let welcome = web.ask(INITIALIZE)?;
        let header = welcome.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        web.head = format!(
            "{}Mcp-Session-Id: {}\r\n",
            web.head,
            header.ok_or("the response has no session id")?
        );
        web.ask(INITIALIZED)?;
        Ok(web)
    }

    fn ask(&mut self, body: &str) -> Result<String> {
        self.say(body)?;
        loop {
            if let Some(text) = self.read()? {
                return Ok(text);
            }
        }
    }

    /// Reads once. Returns the response if it is complete.
    fn read(&mut self) -> Result<Option<String>> {
        let before = self.heard.len();
        self.heard.resize(before + CHUNK, 0);
        let read = self.stream.read(&mut self.heard[before..])?;
        self.heard.truncate(before + read);
        if read == 0 {
            return Err("the gateway has closed the connection".into());
        }
        let text = std::str::from_utf8(&self.heard)?;
        let Some(end) = text.find("\r\n\r\n") else { return Ok(None) };
        let length = text[..end].lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(Ok(0), str::parse)?;
        if text.len() < end + 4 + length {
            return Ok(None);
        }
        if !text.starts_with("HTTP/1.1 20") || text.contains("\"error\":") {
            return Err(format!("error response: {text}").into());
        }
        let text = text.to_owned();
        self.heard.clear();
        Ok(Some(text))
    }
}

impl AsFd for Web {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Caller for Web {
    fn say(&mut self, body: &str) -> Result<()> {
        let text = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        Ok(self.stream.write_all(text.as_bytes())?)
    }

    fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    fn has_heard(&mut self) -> Result<bool> {
        Ok(self.read()?.is_some())
    }
}
