//! Client on a pair of pipes, to a server or to a gateway.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;
use crate::load::{Caller, Turns};

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// Larger than any response, in bytes.
const CHUNK: usize = 4 << 10;

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    heard: Vec<u8>,
    turns: Turns,
}

impl Client {
    /// Starts a command without a handshake.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the command has no stdout")?;
        Ok(Self { child, input, output, heard: Vec::new(), turns: Turns::new() })
    }

    /// Starts a command and does the handshake.
    pub(crate) fn meet(command: &mut Command) -> Result<Self> {
        let mut client = Self::start(command)?;
        client.shake_hands()?;
        Ok(client)
    }

    pub(crate) fn shake_hands(&mut self) -> Result<()> {
        self.say(INITIALIZE)?;
        self.hear()?;
        self.say(INITIALIZED)
    }

    /// Waits for a complete line.
    fn hear(&mut self) -> Result<()> {
        while !self.has_heard()? {}
        Ok(())
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }
}

impl Caller for Client {
    fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or("its stdin is closed")?;
        Ok(input.write_all(format!("{line}\n").as_bytes())?)
    }

    fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    fn has_heard(&mut self) -> Result<bool> {
        let before = self.heard.len();
        self.heard.resize(before + CHUNK, 0);
        let read = self.output.read(&mut self.heard[before..])?;
        self.heard.truncate(before + read);
        if read == 0 {
            return Err("the command has ended".into());
        }
        if !self.heard.ends_with(b"\n") {
            return Ok(false);
        }
        let is_answer = !self.heard.windows(8).any(|part| part == b"\"error\":");
        let text = String::from_utf8_lossy(&self.heard).into_owned();
        self.heard.clear();
        if is_answer { Ok(true) } else { Err(format!("error response: {text}").into()) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
