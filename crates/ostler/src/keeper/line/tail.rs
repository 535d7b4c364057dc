//! The last bytes of a stream.

use std::collections::VecDeque;

/// Ring of the latest bytes; the limit is given with each push.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8], limit: usize) {
        self.bytes.extend(&bytes[bytes.len().saturating_sub(limit)..]);
        let excess = self.bytes.len().saturating_sub(limit);
        self.bytes.drain(..excess);
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::default();
        tail.push(b"abc", 5);
        tail.push(b"def", 5);
        assert_eq!(tail.text(), "bcdef");
        tail.push(b"0123456789", 5);
        assert_eq!(tail.text(), "56789");
        tail.push(b"", 2);
        assert_eq!(tail.text(), "89");
    }
}
