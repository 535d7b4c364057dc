//! MCP client on stdio, driven line by line by a test.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// Bound on every wait, far beyond the time that a test needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client, driven line by line.
#[derive(Debug)]
pub struct LineClient {
    /// Pipe to the server; none after the client closed it.
    pub input: Option<PipeWriter>,
    lines: mpsc::Receiver<String>,
}

impl LineClient {
    /// A client at these ends of two pipes.
    pub fn new(input: PipeWriter, output: PipeReader) -> Self {
        Self { input: Some(input), lines: read(output) }
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("an open input");
        input.write_all(format!("{line}\n").as_bytes()).expect("a reading peer");
    }

    /// The next line, as it came.
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// Asserts that the peer has sent nothing else.
    pub fn assert_silence(&mut self) {
        self.say(r#"{"jsonrpc":"2.0","id":"silence?","method":"ping"}"#);
        assert_eq!(self.line(), r#"{"jsonrpc":"2.0","id":"silence?","result":{}}"#);
    }

    /// The next message.
    pub fn message(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next message, which has to be a call of this method.
    pub fn expect(&self, method: &str) -> Value {
        let message = self.message();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    /// Sends a request, without waiting for the response.
    pub fn request(&mut self, id: &Value, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(&line.to_string());
    }

    /// Sends `initialize` with these capabilities, without waiting for the response.
    pub fn hello(&mut self, capabilities: &Value) {
        self.hello_as("test", capabilities);
    }

    /// The same as a client of this name.
    pub fn hello_as(&mut self, name: &str, capabilities: &Value) {
        let info = json!({ "name": name, "version": "1" });
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info,
        });
        self.request(&json!(0), "initialize", &params);
    }

    /// Receives the response to `initialize`.
    pub fn welcome(&self) -> Value {
        let answer = self.message();
        assert_eq!(answer["id"], 0, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    /// Sends `notifications/initialized`.
    pub fn ready(&mut self) {
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// The whole handshake with a server that runs already.
    pub fn enter(&mut self) -> Value {
        self.enter_as("test")
    }

    /// The same as a client of this name.
    pub fn enter_as(&mut self, name: &str) -> Value {
        self.hello_as(name, &json!({}));
        let welcome = self.welcome();
        self.ready();
        welcome
    }

    /// Waits until the server sends nothing more.
    pub fn wait_closed(&self) {
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
    }
}

/// Reads lines on a thread, so that a test can bound its wait for each line.
fn read(output: PipeReader) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let pass = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(pass).expect("a thread");
    lines
}
