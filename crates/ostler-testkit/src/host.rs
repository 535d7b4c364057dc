//! A host that embeds the library.

use crate::Launched;
use crate::stage::PATIENCE;

/// A running `ostler-host`.
#[derive(Debug)]
pub struct Host(pub Launched);

impl Host {
    /// Sends a command without waiting for it.
    pub fn order(&mut self, order: &str) {
        self.0.write(format!("{order}\n").as_bytes(), PATIENCE).expect("the host listens");
    }

    /// Sends a command, waits until it is done, and returns the host's output meanwhile.
    pub fn obey(&mut self, order: &str) -> String {
        self.order(order);
        self.expect(&format!("done: {order}"))
    }

    /// Waits for a line and returns the lines before it.
    pub(crate) fn expect(&mut self, expected: &str) -> String {
        let mut before = String::new();
        loop {
            let line = self.0.line(PATIENCE).expect("a line from the host");
            let line = line.unwrap_or_else(|| panic!("the host has ended: {}", self.0.stderr()));
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.trim_end() == expected {
                return before;
            }
            before.push_str(&line);
            before.push('\n');
        }
    }
}
