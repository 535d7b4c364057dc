//! Lines of a TOML file: with plain line breaks for the editor, and as they were for the result.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Longest time to look for the best match of lines. A worse match copies fewer lines, and means the same.
const MATCH_LIMIT: Duration = Duration::from_secs(2);

/// The text with plain line breaks, also after its last line.
pub(super) fn plain(text: &str) -> String {
    let mut plain = text.replace("\r\n", "\n");
    if !plain.is_empty() && !plain.ends_with('\n') {
        plain.push('\n');
    }
    plain
}

/// The edited text with the line breaks of the original: `before` is the original with plain line breaks.
pub(super) fn with_original_lines(original: &str, before: &str, edited: &str) -> String {
    let (newline, ends_bare) = (super::newline(original), !original.ends_with('\n'));
    let originals: Vec<&str> = original.split_inclusive('\n').collect();
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = edited.split_inclusive('\n').collect();
    let deadline = Some(Instant::now() + MATCH_LIMIT);
    let mut result = String::with_capacity(edited.len());
    for op in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
        if let DiffOp::Equal { old_index, len, .. } = op {
            originals[old_index..old_index + len].iter().for_each(|line| {
                close(&mut result, newline);
                result.push_str(line);
            });
        } else {
            for line in &new[op.new_range()] {
                close(&mut result, newline);
                result.push_str(line.strip_suffix('\n').unwrap_or(line));
                result.push_str(newline);
            }
        }
    }
    if ends_bare && !original.is_empty() {
        result.truncate(result.trim_end_matches(['\n', '\r']).len());
    }
    result
}

/// Ends a line that the original did not end.
fn close(result: &mut String, newline: &str) {
    if !result.is_empty() && !result.ends_with('\n') {
        result.push_str(newline);
    }
}
