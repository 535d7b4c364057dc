//! MCP servers on stdio, driven line by line by a test.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::wait::wait_until;

/// Bound on every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Socket at which puppets connect.
#[derive(Debug)]
pub struct Puppets {
    listener: UnixListener,
    directory: tempfile::TempDir,
}

/// One running server.
#[derive(Debug)]
pub struct Puppet {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Default for Puppets {
    fn default() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("strings")).expect("a socket");
        listener.set_nonblocking(true).expect("a socket that does not wait");
        Self { listener, directory }
    }
}

impl Puppets {
    /// The argument of `ostler-puppet`.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("strings")
    }

    /// The next server that is started.
    pub fn next(&self) -> Puppet {
        let started = || self.listener.accept().ok();
        let (stream, _) = wait_until("a server is started", PATIENCE, started);
        stream.set_nonblocking(false).expect("a stream that waits");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let writer = stream.try_clone().expect("a second end");
        Puppet { reader: BufReader::new(stream), writer }
    }

    /// Whether no server was started since the last one.
    pub fn is_idle(&self) -> bool {
        matches!(self.listener.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

impl Puppet {
    /// The next line of its input, unparsed.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line");
        assert!(line.ends_with('\n'), "its input has ended: {line:?}");
        line.truncate(line.len() - 1);
        line
    }

    /// The next message of its input.
    pub fn message(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next message, which has to be a call of this method.
    pub fn expect(&mut self, method: &str) -> Value {
        let message = self.message();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).expect("a reading peer");
    }

    /// Answers a request.
    pub fn answer(&mut self, request: &Value, result: &Value) {
        self.say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string());
    }

    /// Answers the handshake; returns the `initialize` request.
    pub fn greet(&mut self, capabilities: &Value) -> Value {
        let initialize = self.expect("initialize");
        let info = json!({ "name": "puppet", "version": "1" });
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
        });
        self.answer(&initialize, &result);
        self.expect("notifications/initialized");
        initialize
    }

    /// Whether its input ends, after the pending messages.
    pub fn has_ended(&mut self) -> bool {
        let mut line = String::new();
        matches!(self.reader.read_line(&mut line), Ok(0) | Err(_))
    }
}
