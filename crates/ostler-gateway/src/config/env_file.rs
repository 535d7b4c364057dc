//! Environment files: one `NAME=value` per line.

use std::path::Path;

use super::source::{self, Unreadable};
use super::template::is_name;
use crate::environment::Environment;

/// Largest accepted file, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Why an environment file can't be used. Messages never contain its contents, which are secret.
#[derive(Debug, thiserror::Error)]
pub enum EnvFileError {
    /// The file can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A line is malformed.
    #[error("line {line}: {what}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The problem.
        what: &'static str,
    },
}

pub(super) fn read(path: &Path) -> Result<Environment, EnvFileError> {
    parse(&source::read(path, MAX_SIZE)?)
}

/// Parses the text. Empty lines and comments are skipped; a quoted value may span several lines.
fn parse(text: &str) -> Result<Environment, EnvFileError> {
    let mut variables = Environment::default();
    let (mut rest, mut line) = (text, 1);
    loop {
        rest = rest.trim_start_matches(BLANK);
        let wrong = |what| EnvFileError::Line { line, what };
        match rest.chars().next() {
            None => return Ok(variables),
            Some('\n') => (rest, line) = (&rest[1..], line + 1),
            Some('#') => rest = &rest[end_of_line(rest)..],
            Some(_) => {
                let (name, value) = rest[..end_of_line(rest)]
                    .find('=')
                    .map(|at| (&rest[..at], &rest[at + 1..]))
                    .ok_or_else(|| wrong("expected NAME=value"))?;
                let name = name.strip_prefix("export ").unwrap_or(name).trim();
                if !is_name(name) {
                    return Err(wrong("no variable can have that name"));
                }
                let (said, after) = value_of(value).map_err(wrong)?;
                line += value[..value.len() - after.len()].matches('\n').count();
                variables.extend([(name, said)]);
                rest = after;
            }
        }
    }
}

const BLANK: [char; 3] = [' ', '\t', '\r'];

fn end_of_line(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Parses a value. Returns it with the rest of the text from the end of its line.
fn value_of(text: &str) -> Result<(String, &str), &'static str> {
    let text = text.trim_start_matches(BLANK);
    let (value, after) = match text.chars().next() {
        Some('\'') => {
            let (value, after) = text[1..].split_once('\'').ok_or("a quote is not closed")?;
            (value.to_owned(), after)
        }
        Some('"') => quoted(&text[1..])?,
        _ => {
            let (line, after) = text.split_at(end_of_line(text));
            let comment = line.find(" #").unwrap_or(line.len());
            (line[..comment].trim_end().to_owned(), after)
        }
    };
    let (remaining, after) = after.split_at(end_of_line(after));
    let remaining = remaining.trim_start_matches(BLANK);
    if !remaining.is_empty() && !remaining.starts_with('#') {
        return Err("something follows the closing quote");
    }
    if value.contains('\0') {
        return Err("it holds a NUL, which no process can be given");
    }
    Ok((value, after))
}

/// Parses a value in double quotes, up to the closing quote, with backslash escapes.
fn quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, other @ ('"' | '\\' | '$'))) => value.push(other),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            other => value.push(other),
        }
    }
    Err("a quote is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let read = parse(text).map_err(|error| error.to_string())?;
        let words = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            (name.into_string().unwrap(), value.into_string().unwrap())
        };
        Ok(read.into_iter().map(words).collect())
    }

    #[test]
    fn a_file_is_read_as_shells_and_tools_write_it() {
        let text = concat!(
            "# comment\r\n\n",
            "A=1\n",
            "  export B = two words # and a comment\n",
            "C='single $X \"' # comment\n",
            "D=\"a\\n\\\"b\\\" \\$ \\q\"\n",
            "E=\n",
            "F=a=b#c\r\n",
            "G=\"two\nlines\"\n",
            "A=2",
        );
        let expected = [
            ("A", "2"),
            ("B", "two words"),
            ("C", "single $X \""),
            ("D", "a\n\"b\" $ \\q"),
            ("E", ""),
            ("F", "a=b#c"),
            ("G", "two\nlines"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(text), Ok(expected.to_vec()));
    }

    #[test]
    fn a_malformed_line_is_named_without_its_contents() {
        for (text, expected) in [
            ("A=1\ns3cret\nB=2", "line 2: expected NAME=value"),
            ("\n\n1s3cret=1", "line 3: no variable can have that name"),
            ("=s3cret", "line 1: no variable can have that name"),
            ("A='s3cret", "line 1: a quote is not closed"),
            ("A=\"s3cret\\", "line 1: a quote is not closed"),
            ("A=\"x\ny\"\nB='1' s3cret", "line 3: something follows the closing quote"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}
