//! Behaviours that a single `tools/call` requests with its arguments.

use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::serve::{notification, say, write_noise};
use crate::{acts, idle};

/// Interval of checks for the file of `until`.
const POLL: Duration = Duration::from_millis(1);

/// The recognised arguments; others are only repeated in the response.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one wish")]
pub(crate) struct Wishes {
    /// Write that many bytes to stderr first, without a newline.
    stderr_bytes: u64,
    /// Write this line to stderr first.
    complain: String,
    /// Write lines to stdout first that are no messages.
    noise: u32,
    /// Send `list_changed` for the tools first.
    list_changed: bool,
    /// Delay of the response, in milliseconds.
    delay_ms: u64,
    /// Respond once this file exists.
    until: Option<PathBuf>,
    /// Send this request to the client first; its response is part of ours.
    pub(crate) ask: Option<String>,
    /// Send these progress notifications first, each with the token of the call.
    progress: Vec<Value>,
    /// Answer with this result.
    pub(crate) result: Option<Value>,
    /// Answer with an error that has this message.
    pub(crate) error: Option<String>,
    /// Do not answer.
    never: bool,
    /// Write to stdout without a newline instead of answering, until killed.
    endless_line: bool,
    /// Exit instead of answering.
    pub(crate) exit: bool,
    /// After the answer: that many notifications ...
    notifications: u32,
    /// ... with this delay before each, in milliseconds.
    every_ms: u64,
    /// After that, stop reading.
    deaf: bool,
}

impl Wishes {
    pub(crate) fn of(params: &Value) -> Self {
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        serde_json::from_value(arguments).unwrap_or_default()
    }

    /// Whether the call gets a response.
    pub(crate) fn before(&self, token: &Value) -> bool {
        write_noise(self.stderr_bytes);
        if !self.complain.is_empty() {
            let _ = writeln!(io::stderr(), "{}", self.complain);
        }
        for number in 0..self.noise {
            let _ = say(&format!("[debug] {number}: {{this is no message"));
        }
        if self.list_changed {
            let _ = say(&notification("notifications/tools/list_changed").to_string());
        }
        for progress in &self.progress {
            let mut params = progress.clone();
            params["progressToken"] = token.clone();
            let mut progress = notification("notifications/progress");
            progress["params"] = params;
            let _ = say(&progress.to_string());
        }
        sleep(Duration::from_millis(self.delay_ms));
        while self.until.as_ref().is_some_and(|path| !path.exists()) {
            sleep(POLL);
        }
        if self.endless_line {
            acts::endless_line();
        }
        !self.never
    }

    pub(crate) fn after(&self) {
        for _ in 0..self.notifications {
            sleep(Duration::from_millis(self.every_ms));
            if say(&notification("notifications/message").to_string()).is_err() {
                return;
            }
        }
        if self.deaf {
            idle::forever();
        }
    }
}
