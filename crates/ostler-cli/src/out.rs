//! The only way to stdout and stderr.
//!
//! Much of what commands print is untrusted: names of clients, command lines, container names, stderr of servers. It must
//! neither control the terminal nor imitate our own lines. So every text passes through [`Visible`] here, and
//! `clippy.toml` forbids `std::io::stdout` and `stderr` everywhere else. Line breaks inside a text are escaped like any
//! other control character; only [`Page`] and [`Screen`] make lines.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use ostler::visible::{Visible, is_hidden};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::exit;
use crate::page::Page;

/// Prints a message on stderr. Further lines are indented, so that no part of it looks like another message. Errors are
/// ignored: stderr may be closed.
pub(crate) fn say(message: impl Display) {
    let _ = stderr().write_all(indented(&format!("ostler: {message}")).as_bytes());
}

/// Like [`say`], without `ostler:` in front.
pub(crate) fn say_bare(message: impl Display) {
    let _ = stderr().write_all(indented(&message.to_string()).as_bytes());
}

fn indented(message: &str) -> String {
    let mut lines = message.lines();
    let first = format!("{}\n", Visible(lines.next().unwrap_or_default()));
    lines.fold(first, |mut text, line| {
        let is_indented = line.is_empty() || line.starts_with("  ");
        let indent = if is_indented { "" } else { "  " };
        text.extend([indent, &Visible(line).to_string(), "\n"]);
        text
    })
}

/// An error and its sources, separated by colons.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Prints a page on stdout.
pub(crate) fn print(page: &Page) -> ExitCode {
    exit::written(stdout().write_all(page.text().as_bytes()))
}

/// Prints one line on stdout.
pub(crate) fn print_line(line: impl Display) -> ExitCode {
    print(&Page::of(line))
}

/// Prints a page on stderr, without `ostler:` in front, for example lines that begin with a file position.
pub(crate) fn complain(page: &Page) {
    let _ = stderr().write_all(page.text().as_bytes());
}

/// Prints a value on stdout as JSON.
pub(crate) fn json(value: &impl Serialize) -> ExitCode {
    let written = serde_json::to_string_pretty(value).map_err(io::Error::other);
    exit::written(written.and_then(|text| writeln!(stdout(), "{}", escaped_json(&text))))
}

/// Prints bytes that come from our own source alone, such as the manual page, without escaping.
pub(crate) fn generated(bytes: &[u8]) -> ExitCode {
    exit::written(stdout().write_all(bytes))
}

/// Stdout for protocol messages to a client.
pub(crate) fn protocol() -> io::Stdout {
    stdout()
}

/// Duplicates of stdout and stderr, to be inherited by a server.
pub(crate) fn handed_over() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((stdout().as_fd().try_clone_to_owned()?, stderr().as_fd().try_clone_to_owned()?))
}

/// Whether stderr is a terminal.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Stdout for output that is printed line by line as it is produced.
pub(crate) struct Screen(StdoutLock<'static>);

impl Screen {
    pub(crate) fn new() -> Self {
        Self(stdout().lock())
    }

    pub(crate) fn line(&mut self, line: impl Display) -> io::Result<()> {
        self.write(&Visible(line).to_string())
    }

    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        self.write(&escaped_json(&text))
    }

    /// Waits, and returns early with `true` if the reader of stdout is gone.
    pub(crate) fn is_closed_within(limit: Duration) -> bool {
        let stdout = stdout();
        // Errors and hang-ups are reported without being asked for.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let limit = Timespec::try_from(limit).ok();
        matches!(poll(&mut fds, limit.as_ref()), Ok(1..))
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.0, "{line}")?;
        self.0.flush()
    }
}

/// JSON with all hidden characters escaped. serde escapes those below U+0020; the remaining line breaks are formatting, and
/// any other hidden character is inside a string.
fn escaped_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && c != '\n' {
            let mut units = [0; 2];
            let units = c.encode_utf16(&mut units).iter();
            escaped.extend(units.map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[expect(clippy::disallowed_methods, reason = "this is where all output passes")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[expect(clippy::disallowed_methods, reason = "this is where all output passes")]
fn stderr() -> io::Stderr {
    io::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_does_not_change_the_meaning_of_json() {
        let all: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let escaped = escaped_json(&serde_json::to_string_pretty(&[&all]).unwrap());
        assert!(!escaped.contains(|c| is_hidden(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<[String; 1]>(&escaped).unwrap(), [all]);
    }

    #[test]
    fn no_value_in_a_message_can_imitate_another_message() {
        assert_eq!(indented("one"), "one\n");
        assert_eq!(indented(""), "\n");
        assert_eq!(indented("a\u{1b}\n\n  b\nostler: c\r\n"), "a\\u{1b}\n\n  b\n  ostler: c\n");
    }
}
