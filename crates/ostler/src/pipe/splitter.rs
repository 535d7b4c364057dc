//! Splits chunks into lines.

use memchr::memchr;

/// Most capacity of the line buffer that is kept after a long line, in bytes.
const KEPT: usize = 16 << 10;

/// Splitter state: the incomplete line.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    partial: Vec<u8>,
}

/// A line is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Splitter {
    /// Calls `each` for every complete line, without `\r\n` and byte order mark. Blank lines are skipped.
    pub(super) fn feed(
        &mut self,
        mut chunk: &[u8],
        limit: usize,
        mut each: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
            if self.partial.len() + line.len() > limit {
                return Err(TooLong);
            }
            if self.partial.is_empty() {
                give(line, &mut each);
            } else {
                self.partial.extend_from_slice(line);
                give(&self.partial, &mut each);
                self.partial.clear();
                self.partial.shrink_to(KEPT);
            }
            chunk = rest;
        }
        if self.partial.len() + chunk.len() > limit {
            return Err(TooLong);
        }
        self.partial.extend_from_slice(chunk);
        Ok(())
    }
}

fn give(line: &[u8], each: &mut impl FnMut(&[u8])) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if !line.iter().all(u8::is_ascii_whitespace) {
        each(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]], limit: usize) -> Result<Vec<String>, TooLong> {
        let mut splitter = Splitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            let each = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
            splitter.feed(chunk, limit, each)?;
        }
        Ok(lines)
    }

    #[test]
    fn lines_are_found_wherever_chunks_end() {
        let text = b"\xef\xbb\xbfone\r\n\n  \ntwo\nthree";
        for cut in 0..text.len() {
            let (left, right) = text.split_at(cut);
            assert_eq!(split(&[left, right], 100).unwrap(), ["one", "two"], "cut at {cut}");
        }
    }

    #[test]
    fn a_long_line_is_refused_with_and_without_its_end() {
        assert_eq!(split(&[b"12345", b"6"], 5), Err(TooLong));
        assert_eq!(split(&[b"123456\n"], 5), Err(TooLong));
        assert_eq!(split(&[b"123", b"45\n67\n"], 5).unwrap(), ["12345", "67"]);
    }
}
