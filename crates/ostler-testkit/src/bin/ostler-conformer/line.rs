//! Messages to and from the client.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use serde_json::{Value, json};

/// The line to the client.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// What came while something else was waited for.
    waiting: VecDeque<Value>,
    asked: u64,
}

impl Line {
    /// The next message, until there are none.
    pub(crate) fn next(&mut self) -> Option<Value> {
        self.waiting.pop_front().or_else(hear)
    }

    /// Asks the client, and waits for its answer.
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

/// Says something to the client.
pub(crate) fn say(message: &Value) {
    // A client that no longer reads has closed stdin as well.
    let _ = writeln!(std::io::stdout(), "{message}");
}

/// Tells the client something.
pub(crate) fn notify(method: &str, params: &Value) {
    say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
}

fn hear() -> Option<Value> {
    let mut text = String::new();
    let read = std::io::stdin().lock().read_line(&mut text).ok()?;
    if read == 0 { None } else { serde_json::from_str(&text).ok() }
}
