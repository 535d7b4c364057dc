//! One line of a log.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::id::InstanceId;

/// One line of a log, stored as one JSON object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// When ostler read or wrote it, in milliseconds since 1970.
    pub at: u64,
    /// Its instance; `None` if that has no id yet, or if the line concerns no instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    /// Number of the instance within its gateway; `None` for `ostler run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Its author.
    pub source: Source,
    /// The line, without its end and with secrets masked. Bytes that are not UTF-8 are replaced.
    pub text: Cow<'a, str>,
    /// Whether the end of a longer line was dropped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
}

/// Author of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The server or one of its descendants, on stderr.
    Stderr,
    /// ostler itself.
    Ostler,
}

impl Entry<'_> {
    /// Reads a stored line. `None` for anything that ostler did not write, such as a half-written line.
    pub fn parse(line: &[u8]) -> Option<Entry<'static>> {
        serde_json::from_slice(line).ok()
    }

    /// Appends the stored form with its line break.
    pub(super) fn store(&self, block: &mut Vec<u8>) {
        let before = block.len();
        // Neither a vector nor these fields can fail.
        match serde_json::to_writer(&mut *block, self) {
            Ok(()) => block.push(b'\n'),
            Err(_) => block.truncate(before),
        }
    }
}

impl Source {
    /// Its name, as it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Ostler => "ostler",
        }
    }
}

/// Converts a time to milliseconds since 1970.
pub(super) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
