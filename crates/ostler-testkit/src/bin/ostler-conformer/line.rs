//! Messages to and from the client.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use serde_json::{Value, json};

/// Connection to the client on stdio.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Messages that arrived while a response was awaited.
    waiting: VecDeque<Value>,
    asked: u64,
}

impl Line {
    /// The next message; `None` at the end of input.
    pub(crate) fn next(&mut self) -> Option<Value> {
        self.waiting.pop_front().or_else(hear)
    }

    /// Sends a request to the client, and waits for the response.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.asked += 1;
        let id = format!("asked-{}", self.asked);
        say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let mut message = hear()?;
            if message["id"] == *id && message.get("method").is_none() {
                return message.get_mut("result").map(Value::take);
            }
            self.waiting.push_back(message);
        }
    }
}

/// Sends a message to the client.
pub(crate) fn say(message: &Value) {
    // A client that no longer reads has closed stdin as well.
    let _ = writeln!(std::io::stdout(), "{message}");
}

/// Sends a notification to the client.
pub(crate) fn notify(method: &str, params: &Value) {
    say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

fn hear() -> Option<Value> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_line(&mut text).ok()?;
    if read == 0 { None } else { serde_json::from_str(&text).ok() }
}
