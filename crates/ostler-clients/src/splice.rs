//! Replacements of byte ranges in a text, all in terms of the original.

use std::ops::Range;

/// Replacements that were collected for one text.
#[derive(Default)]
pub(crate) struct Splices(Vec<(Range<usize>, String)>);

impl Splices {
    pub(crate) fn put(&mut self, range: Range<usize>, text: impl Into<String>) {
        self.0.push((range, text.into()));
    }

    pub(crate) fn cut(&mut self, range: Range<usize>) {
        self.put(range, "");
    }

    /// The text with all replacements; `None` if two of them overlap.
    pub(crate) fn apply(mut self, text: &str) -> Option<String> {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(text.len());
        let mut at = 0;
        for (range, replacement) in &self.0 {
            result.push_str(text.get(at..range.start)?);
            result.push_str(replacement);
            at = range.end;
        }
        result.push_str(text.get(at..)?);
        Some(result)
    }
}
