//! Escapes untrusted text for display on a terminal.
//!
//! Client names, command lines, container names and server output can contain characters that control a terminal
//! (move the cursor, erase lines, set the clipboard) or that make a text look like another one (right-to-left
//! overrides, zero-width spaces). [`Visible`] shows those as escapes and all others unchanged.

use std::fmt::{self, Display, Write};

/// Displays a value with every hidden character escaped: `\u{1b}`, `\n`, `\u{202e}`.
#[derive(Clone, Copy, Debug)]
pub struct Visible<T>(pub T);

/// Whether a character controls a terminal, or is invisible and changes how the text around it looks: control
/// characters (C0, DEL, C1), line separators, and zero-width and bidirectional format characters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

impl<T: Display> Display for Visible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'b>(&'f mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        while let Some((at, c)) = text.char_indices().find(|(_, c)| is_hidden(*c)) {
            self.0.write_str(&text[..at])?;
            write!(self.0, "{}", c.escape_default())?;
            text = &text[at + c.len_utf8()..];
        }
        self.0.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped_and_others_are_unchanged() {
        for (text, shown) in [
            ("plain ä 漢字 🐎 \\n", "plain ä 漢字 🐎 \\n"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{1b}[2J\u{7}\u{7f}\0", "\\u{1b}[2J\\u{7}\\u{7f}\\u{0}"),
            ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
            ("a\u{202e}b\u{2066}c\u{200b}\u{feff}", "a\\u{202e}b\\u{2066}c\\u{200b}\\u{feff}"),
            ("\u{e0041}\u{2028}", "\\u{e0041}\\u{2028}"),
            ("", ""),
        ] {
            assert_eq!(Visible(text).to_string(), shown);
        }
    }

    #[test]
    fn every_hidden_character_of_unicode_is_escaped() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let shown = Visible(&all).to_string();
        assert!(!shown.contains(is_hidden));
        assert!(!shown.contains(char::is_control));
        assert!(shown.chars().count() > 1_000_000);
    }
}
