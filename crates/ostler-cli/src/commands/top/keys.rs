//! Keys of a terminal in raw mode.

/// Longest sequence that a terminal sends for one key; a longer one is dropped.
const LONGEST: usize = 16;
const ESCAPE: u8 = 0x1b;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    /// ^C, which raw mode turns into a key.
    Interrupt,
}

/// Decodes keys from bytes, which may arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
}

/// What the first bytes are.
enum Step {
    Key(Key, usize),
    /// Bytes without a meaning here.
    Skip(usize),
    Incomplete,
}

impl Keys {
    /// Adds bytes and returns the keys that are complete.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        loop {
            match step(&self.pending[at..]) {
                Step::Key(key, length) => {
                    keys.push(key);
                    at += length;
                }
                Step::Skip(length) => at += length,
                Step::Incomplete => break,
            }
        }
        self.pending.drain(..at);
        keys
    }

    /// Whether a key may be incomplete.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends the wait for the rest of a key: an escape byte alone is the key Escape.
    pub(super) fn flush(&mut self) -> Option<Key> {
        let pending = std::mem::take(&mut self.pending);
        (pending.first() == Some(&ESCAPE)).then_some(Key::Escape)
    }
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [] | [ESCAPE] | [ESCAPE, b'[' | b'O'] => Step::Incomplete,
        [ESCAPE, b'[' | b'O', rest @ ..] => sequence(rest),
        // A key with Alt, or Escape and another key.
        [ESCAPE, ..] => Step::Key(Key::Escape, 1),
        [0x03, ..] => Step::Key(Key::Interrupt, 1),
        [b'\r' | b'\n', ..] => Step::Key(Key::Enter, 1),
        [0x08 | 0x7f, ..] => Step::Key(Key::Backspace, 1),
        [byte, ..] if byte.is_ascii_control() => Step::Skip(1),
        bytes => character(bytes),
    }
}

/// The rest of a sequence: parameters, then one final byte.
fn sequence(rest: &[u8]) -> Step {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return if rest.len() > LONGEST { Step::Skip(rest.len() + 2) } else { Step::Incomplete };
    };
    let length = end + 3;
    let key = match (&rest[..end], rest[end]) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        (_, b'M') => Key::Enter,
        _ => return Step::Skip(length),
    };
    Step::Key(key, length)
}

fn character(bytes: &[u8]) -> Step {
    let start = &bytes[..bytes.len().min(4)];
    let valid = match str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            str::from_utf8(&start[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() => return Step::Incomplete,
        Err(_) => return Step::Skip(1),
    };
    let c = valid.chars().next();
    c.map_or(Step::Skip(1), |c| Step::Key(Key::Char(c), c.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_also_in_pieces() {
        let bytes = "a\u{1b}[A\u{1b}OBé\u{1b}[5~\u{1b}[1;5C\u{1b}[6~\r\u{7f}\u{3}\u{1}q".as_bytes();
        let expected = [
            Key::Char('a'),
            Key::Up,
            Key::Down,
            Key::Char('é'),
            Key::PageUp,
            Key::PageDown,
            Key::Enter,
            Key::Backspace,
            Key::Interrupt,
            Key::Char('q'),
        ];
        assert_eq!(Keys::default().feed(bytes), expected);
        let mut keys = Keys::default();
        let one_by_one: Vec<Key> = bytes.chunks(1).flat_map(|byte| keys.feed(byte)).collect();
        assert_eq!(one_by_one, expected);
        assert!(!keys.is_pending());
    }

    #[test]
    fn an_escape_byte_alone_is_the_key() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert!(keys.is_pending());
        assert_eq!(keys.flush(), Some(Key::Escape));
        assert_eq!(keys.feed(b"\x1bq"), [Key::Escape, Key::Char('q')]);
    }

    #[test]
    fn garbage_is_dropped() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\xff\xfe\x1b[999999999999999999999"), []);
        assert!(!keys.is_pending());
        assert_eq!(keys.feed(b"\xc3"), []);
        assert_eq!(keys.flush(), None);
        assert_eq!(keys.feed(b"q"), [Key::Char('q')]);
    }
}
