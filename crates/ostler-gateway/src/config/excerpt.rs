//! Excerpts of configuration lines in error messages, without secrets.
//!
//! The line with a problem may contain a secret, and need not be valid JSON. So it is split into pieces by a tolerant
//! scanner, and only punctuation, keys and the words `true`, `false` and `null` are shown. Strings, numbers and
//! comments are masked, unless the value itself is what the message is about and is never secret (`Marked::Plain`). A
//! key that looks as if it contained a value is masked as well.

use std::fmt;
use std::ops::Range;

use ostler::visible::is_hidden;

/// Characters shown on either side of the marked text.
const MARGIN: usize = 48;

/// Bytes of a line that are scanned on either side of the marked text. The bound keeps errors in a file that is a
/// single long line cheap.
const SIGHT: usize = 1024;

/// Longest row of carets.
const MAX_CARETS: usize = 48;

/// Whether the marked text may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    /// The text is a key, or a value that is never secret.
    Plain,
    /// The text may be secret.
    Hidden,
}

/// A masked line with carets below the marked text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    line: String,
    /// Columns of the carets, in characters.
    carets: Range<usize>,
}

/// A token of a line.
struct Piece {
    source: Range<usize>,
    kind: Kind,
    /// Text that replaces the token when it is hidden.
    mask: &'static str,
}

/// Kind of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Brackets, commas, colons and white space.
    Frame,
    /// A key, or `true`, `false` or `null`.
    Known,
    /// A key with characters that suggest that it contains a value.
    OddKey,
    /// Anything else.
    Value,
}

impl Kind {
    /// Whether a token of this kind is shown; `marked` is set if the token is part of the marked text.
    fn is_shown(self, marked: Option<Marked>) -> bool {
        match self {
            Self::Frame => true,
            Self::Known => marked != Some(Marked::Hidden),
            Self::Value => marked == Some(Marked::Plain),
            Self::OddKey => false,
        }
    }
}

impl Excerpt {
    /// Makes the excerpt of a line with `range` (in bytes) marked.
    pub(super) fn of(line: &str, range: &Range<usize>, marked: Marked) -> Self {
        let (line, range) = in_sight(line, range);
        let mut shown = String::new();
        let (mut start, mut end) = (None, 0);
        for piece in pieces(line) {
            let is_marked = piece.source.start < range.end.max(range.start + 1)
                && piece.source.end > range.start;
            let before = shown.chars().count();
            if piece.kind.is_shown(is_marked.then_some(marked)) {
                shown.extend(line[piece.source].chars().map(printable));
            } else {
                shown.push_str(piece.mask);
            }
            if is_marked {
                start.get_or_insert(before);
                end = shown.chars().count();
            }
        }
        let start = start.unwrap_or_else(|| shown.chars().count());
        Self::window(&shown, start..end.clamp(start + 1, start + MAX_CARETS))
    }

    /// Cuts a long line to the part around the carets.
    fn window(shown: &str, carets: Range<usize>) -> Self {
        let length = shown.chars().count();
        let from = carets.start.saturating_sub(MARGIN);
        let to = length.min(carets.end + MARGIN);
        let (left, right) = (if from > 0 { "…" } else { "" }, if to < length { "…" } else { "" });
        let middle: String = shown.chars().skip(from).take(to.saturating_sub(from)).collect();
        let shift = left.chars().count();
        let carets = carets.start - from + shift..carets.end - from + shift;
        Self { line: format!("{left}{middle}{right}"), carets }
    }

    /// Writes the line with its number, and the carets below it.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, number: usize) -> fmt::Result {
        let number = number.to_string();
        let (gutter, before) = (" ".repeat(number.len()), " ".repeat(self.carets.start));
        writeln!(f, "  {number} | {}", self.line)?;
        write!(f, "  {gutter} | {before}{}", "^".repeat(self.carets.len()))
    }
}

/// Cuts a line to the part that is scanned. If the cut is inside a string, the excerpt masks more than necessary.
fn in_sight<'l>(line: &'l str, range: &Range<usize>) -> (&'l str, Range<usize>) {
    let from = line.floor_char_boundary(range.start.saturating_sub(SIGHT));
    let end = range.end.min(range.start + SIGHT);
    let to = line.ceil_char_boundary((end + SIGHT).min(line.len()));
    (&line[from..to], range.start - from..end - from)
}

/// Replaces control characters, which could be terminal escape sequences.
fn printable(c: char) -> char {
    if is_hidden(c) { ' ' } else { c }
}

fn is_frame(c: char) -> bool {
    c.is_whitespace() || "{}[],:".contains(c)
}

/// Whether a key contains only characters of names: a key such as `"TOKEN=value"` contains a secret by mistake.
fn is_plain_key(key: &str) -> bool {
    key.chars().all(|c| c.is_alphanumeric() || "\"_-.$@/ ".contains(c))
}

/// Splits a line, which need not be valid, into tokens. Whatever is not certainly a key is a value.
fn pieces(line: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut at, mut before) = (0, None);
    while let Some(first) = line[at..].chars().next() {
        let (length, kind, mask) = piece(&line[at..], first, before);
        if !first.is_whitespace() {
            before = Some(first);
        }
        pieces.push(Piece { source: at..at + length, kind, mask });
        at += length;
    }
    pieces
}

/// First token of a text: its length in bytes, its kind, and its mask. `before` is the last character before it.
fn piece(rest: &str, first: char, before: Option<char>) -> (usize, Kind, &'static str) {
    if is_frame(first) {
        return (first.len_utf8(), Kind::Frame, "");
    }
    if first == '"' {
        let length = string_length(rest);
        let opens = matches!(before, None | Some('{' | ','));
        let is_key = opens && rest[length..].trim_start().starts_with(':');
        let kind = match (is_key, is_plain_key(&rest[..length])) {
            (true, true) => Kind::Known,
            (true, false) => Kind::OddKey,
            (false, _) => Kind::Value,
        };
        return (length, kind, "\"…\"");
    }
    if rest.starts_with("//") {
        return (rest.len(), Kind::Value, "// …");
    }
    if rest.starts_with("/*") {
        return (rest.find("*/").map_or(rest.len(), |end| end + 2), Kind::Value, "/* … */");
    }
    let length = rest.find(|c| is_frame(c) || c == '"').unwrap_or(rest.len());
    let is_known = matches!(&rest[..length], "true" | "false" | "null");
    (length, if is_known { Kind::Known } else { Kind::Value }, "…")
}

/// Length of the string that a text begins with. An unterminated string ends with the line.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, marked: &str, how: Marked) -> String {
        let start = line.find(marked).unwrap();
        let excerpt = Excerpt::of(line, &(start..start + marked.len()), how);
        let carets = " ".repeat(excerpt.carets.start) + &"^".repeat(excerpt.carets.len());
        format!("{}\n{carets}", excerpt.line)
    }

    #[test]
    fn values_are_left_out() {
        let line = r#"  "env": { "TOKEN": "s3cret", "N": 42, "B": true }, "shar": "all" // s3cret"#;
        assert_eq!(
            shown(line, "\"shar\"", Marked::Plain),
            "  \"env\": { \"TOKEN\": \"…\", \"N\": …, \"B\": true }, \"shar\": \"…\" // …\n\
             \u{20}                                             ^^^^^^"
        );
    }

    #[test]
    fn a_wrong_value_is_shown_only_if_it_is_no_secret() {
        let line = r#""idleTimeout": "10x""#;
        assert_eq!(
            shown(line, "\"10x\"", Marked::Plain),
            format!("{line}\n{}^^^^^", " ".repeat(15))
        );
        assert_eq!(
            shown(line, "\"10x\"", Marked::Hidden),
            format!("\"idleTimeout\": \"…\"\n{}^^^", " ".repeat(15))
        );
    }

    #[test]
    fn broken_lines_hide_possible_secrets() {
        for line in [
            r#""TOKEN": s3cret"#,
            r#""TOKEN": "s3cret"#,
            r#""TOKEN": "a": "s3cret""#,
            r#""TOKEN": "s3cret": 1"#,
            r#"s3cret", "KEY": "s3cret""#,
            r#"/* "TOKEN": "s3cret" "#,
            r#"// "TOKEN": "s3cret""#,
            r#""a\"": "s3cret""#,
            r#"{ "TOKEN=s3cret": 1 }"#,
            "'s3cret': 's3cret'",
        ] {
            for at in 0..=line.len() {
                let excerpt = Excerpt::of(line, &(at..at), Marked::Hidden);
                assert!(!excerpt.line.contains("s3cret"), "{line}: {}", excerpt.line);
            }
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_mistake() {
        let line = format!("{}\"wrong\": 1{}", "[],".repeat(1000), ",{}".repeat(1000));
        let text = shown(&line, "\"wrong\"", Marked::Plain);
        assert!(text.starts_with("…[],[]"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
    }
}
