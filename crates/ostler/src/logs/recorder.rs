//! Turns what one instance writes into stored lines: without secrets, and within a rate and a length.

use std::borrow::Cow;
use std::time::SystemTime;

use super::entry::{Entry, Source, millis};
use crate::id::InstanceId;
use crate::mask::masked_line;

/// Longest line in bytes; the rest of a longer one is dropped.
pub const LONGEST_LINE: usize = 8 << 10;
/// Most bytes that are stored per instance and second; lines beyond are dropped and counted.
pub const PER_SECOND: usize = 256 << 10;
/// Most bytes of a block that waits to be written, except for the last line; lines beyond are dropped and counted.
pub const MOST_WAITING: usize = 4 * PER_SECOND;
/// Length of the window that [`PER_SECOND`] applies to, in milliseconds.
const WINDOW: u64 = 1000;

/// Recorder of one instance. Holds at most one incomplete line.
#[derive(Debug)]
pub struct Recorder {
    instance: Option<InstanceId>,
    number: Option<u64>,
    /// Beginning of a line whose end has not come yet, at most [`LONGEST_LINE`] bytes.
    partial: Vec<u8>,
    /// The line was stored as too long; the rest up to its end is dropped.
    is_skipping: bool,
    /// Start of the present window, in milliseconds since 1970.
    window: u64,
    /// Bytes that may still be stored in this window.
    left: usize,
    /// Lines dropped since the last stored one.
    dropped: u64,
}

impl Recorder {
    /// A recorder for an instance with this number within its gateway.
    pub fn new(number: Option<u64>) -> Self {
        Self {
            instance: None,
            number,
            partial: Vec::new(),
            is_skipping: false,
            window: 0,
            left: PER_SECOND,
            dropped: 0,
        }
    }

    /// Sets the id of the instance, once it has one.
    pub fn identify(&mut self, instance: InstanceId) {
        self.instance = Some(instance);
    }

    /// Appends the lines that `bytes` complete to `block`, which may also hold lines of other instances.
    pub fn write(&mut self, at: SystemTime, bytes: &[u8], block: &mut Vec<u8>) {
        let at = millis(at);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            match part.strip_suffix(b"\n") {
                Some(end) => self.end_line(at, end, block),
                None => self.extend_line(at, part, block),
            }
        }
    }

    /// Appends a line of ostler's own, after an incomplete line of the instance.
    pub fn note(&mut self, at: SystemTime, text: &str, block: &mut Vec<u8>) {
        self.finish(at, block);
        self.entry(millis(at), Source::Ostler, text.into(), false).store(block);
    }

    /// Appends an incomplete line as a whole one, and the number of dropped lines.
    pub fn finish(&mut self, at: SystemTime, block: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.end_line(millis(at), b"", block);
        }
        self.tell_dropped(millis(at), block);
    }

    fn end_line(&mut self, at: u64, end: &[u8], block: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_skipping) {
            return;
        }
        if self.partial.is_empty() {
            return self.store(at, end, block);
        }
        let mut line = std::mem::take(&mut self.partial);
        line.extend_from_slice(end);
        self.store(at, &line, block);
    }

    /// Adds to an incomplete line. One that is too long is stored at once, because its end may never come.
    fn extend_line(&mut self, at: u64, part: &[u8], block: &mut Vec<u8>) {
        if self.is_skipping {
            return;
        }
        let room = LONGEST_LINE - self.partial.len();
        self.partial.extend_from_slice(&part[..part.len().min(room + 1)]);
        if part.len() > room {
            let line = std::mem::take(&mut self.partial);
            self.store(at, &line, block);
            self.is_skipping = true;
        }
    }

    fn store(&mut self, at: u64, line: &[u8], block: &mut Vec<u8>) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let cut = line.len() > LONGEST_LINE;
        let line = if cut { whole_words(&line[..LONGEST_LINE]) } else { line };
        self.open_window(at);
        if line.len() > self.left {
            return self.close_window();
        }
        if block.len() >= MOST_WAITING {
            self.dropped += 1;
            return;
        }
        let (before, dropped) = (block.len(), self.dropped);
        self.tell_dropped(at, block);
        let text = masked_line(&String::from_utf8_lossy(line));
        self.entry(at, Source::Stderr, text.into(), cut).store(block);
        let stored = block.len() - before;
        if stored > self.left {
            block.truncate(before);
            self.dropped = dropped;
            return self.close_window();
        }
        self.left -= stored;
    }

    /// Drops a line, and with it all later ones of this window, so that what is stored has few holes.
    fn close_window(&mut self) {
        (self.left, self.dropped) = (0, self.dropped + 1);
    }

    fn open_window(&mut self, at: u64) {
        // A clock that was set back opens a window as well.
        if at < self.window || at - self.window >= WINDOW {
            (self.window, self.left) = (at, PER_SECOND);
        }
    }

    /// Appends how many lines were dropped before this moment, if any.
    fn tell_dropped(&mut self, at: u64, block: &mut Vec<u8>) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            let most = PER_SECOND >> 10;
            let text = format!("lines dropped: {dropped} (more than {most} KiB/s, or a slow disk)");
            self.entry(at, Source::Ostler, text.into(), false).store(block);
        }
    }

    fn entry<'a>(&self, at: u64, source: Source, text: Cow<'a, str>, cut: bool) -> Entry<'a> {
        Entry { at, instance: self.instance, number: self.number, source, text, cut }
    }
}

/// A line without its last word, which was cut: half a secret would not be recognised. A single word stays.
fn whole_words(line: &[u8]) -> &[u8] {
    line.iter().rposition(|byte| *byte == b' ').map_or(line, |end| &line[..end])
}
