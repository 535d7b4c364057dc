//! Lines and tables for people, safe for untrusted text.

use std::fmt::Display;

use ostler::visible::Visible;
use ostler_gateway::config::Problems;

use crate::json_text;

/// Lines of text without hidden characters. Text is added as whole lines: a line break inside a name is shown as an escape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn of(line: impl Display) -> Self {
        let mut page = Self::new();
        page.line(line);
        page
    }

    pub(crate) fn line(&mut self, line: impl Display) {
        self.0.push_str(&Visible(line).to_string());
        self.0.push('\n');
    }

    /// Adds a text of several lines. Line breaks and tabs are kept, all other hidden characters are escaped.
    pub(crate) fn text_block(&mut self, text: &str) {
        for line in text.lines() {
            let pieces = line.split('\t').map(|piece| Visible(piece).to_string());
            self.0.push_str(&pieces.collect::<Vec<_>>().join("\t"));
            self.0.push('\n');
        }
    }

    /// Adds JSON that was laid out by [`json_text::pretty`].
    pub(crate) fn json(&mut self, json: &str) {
        self.0.push_str(&json_text::escaped(json));
        self.0.push('\n');
    }

    /// Adds the errors of a configuration, each with `file:line:column` in front, as editors expect.
    pub(crate) fn problems(&mut self, problems: &Problems) {
        problems.to_string().lines().for_each(|line| self.line(line));
    }

    /// Adds a table. Columns are as wide as their widest cell, and numbers are right-aligned. Cells never contain two spaces
    /// in a row, which would look like the end of a column.
    pub(crate) fn table<const N: usize>(&mut self, headers: [&str; N], rows: &[[String; N]]) {
        let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(cell)).collect();
        let headers = headers.map(String::from);
        let lines: Vec<&[String; N]> = std::iter::once(&headers).chain(&rows).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
        let numeric: Vec<bool> = (0..N).map(|column| is_numeric(&rows, column)).collect();
        for line in lines {
            let cells = line.iter().zip(&widths).zip(&numeric).map(|((cell, width), right)| {
                if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            self.line(cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Text of a table cell: visible characters, whitespace collapsed.
pub(crate) fn cell(text: &String) -> String {
    let mut cell = String::with_capacity(text.len());
    for c in Visible(text).to_string().chars() {
        match c {
            c if c.is_whitespace() && cell.ends_with(' ') => {}
            c if c.is_whitespace() => cell.push(' '),
            c => cell.push(c),
        }
    }
    cell
}

/// A text of at most `width` characters; a longer one ends with an ellipsis.
pub(crate) fn shortened(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

fn is_numeric<const N: usize>(rows: &[[String; N]], column: usize) -> bool {
    rows.iter().all(|row| row[column].starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let mut page = Page::new();
        let rows = [["long name".into(), "7".into()], ["a".into(), "123".into()]];
        page.table(["NAME", "PID"], &rows);
        assert_eq!(page.text(), "NAME       PID\nlong name    7\na          123\n");
    }

    #[test]
    fn a_cell_forges_neither_a_row_nor_a_column() {
        let mut page = Page::new();
        let rows =
            [["a\nb  c\u{a0}\u{3000}d\u{202e}".into(), "x".into()], ["e".into(), "y".into()]];
        page.table(["NAME", "WHAT"], &rows);
        let lines: Vec<&str> = page.text().lines().collect();
        assert_eq!(lines[1..], ["a\\nb c d\\u{202e}  x", "e                 y"]);
    }

    #[test]
    fn a_value_with_line_breaks_stays_on_one_line() {
        let mut page = Page::of("a\nb");
        page.line("c\rd");
        assert_eq!(page.text(), "a\\nb\nc\\rd\n");
    }
}
