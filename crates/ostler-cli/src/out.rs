//! The only way to stdout and stderr.
//!
//! Much of what commands print is untrusted: names of clients, command lines, container names, stderr of servers. It must
//! neither control the terminal nor imitate our own lines. So every text passes through [`Visible`] here, and
//! `clippy.toml` forbids `std::io::stdout` and `stderr` everywhere else. Line breaks inside a text are escaped like any
//! other control character; only [`Page`] and [`Screen`] make lines.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, StdoutLock, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ostler::visible::Visible;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::page::Page;
use crate::{exit, json_text};

/// Moves to the start of the line and clears it.
const CLEAR_LINE: &str = "\r\u{1b}[K";
/// A status line changes at most this often.
const SHOW_EVERY: Duration = Duration::from_millis(100);

/// Longest answer to a question, in bytes.
const LONGEST_ANSWER: u64 = 64;

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
    let written = serde_json::to_string(value).map_err(io::Error::other);
    let laid_out = written.map(|text| json_text::escaped(&json_text::pretty(&text)));
    exit::written(laid_out.and_then(|text| writeln!(stdout(), "{text}")))
}

/// Prints bytes that come from our own source alone, such as the manual page, without escaping.
pub(crate) fn generated(bytes: &[u8]) -> ExitCode {
    exit::written(stdout().write_all(bytes))
}

/// Stdout for protocol messages to a client.
pub(crate) fn protocol() -> io::Stdout {
    stdout()
}

/// Stdout for a full-screen display, which replaces hidden characters itself.
pub(crate) fn terminal() -> io::Stdout {
    stdout()
}

/// Duplicates of stdout and stderr, to be inherited by a server.
pub(crate) fn handed_over() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((stdout().as_fd().try_clone_to_owned()?, stderr().as_fd().try_clone_to_owned()?))
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether stderr is a terminal.
pub(crate) fn is_watched() -> bool {
    stderr().is_terminal()
}

/// Asks a question on the terminal. `None` if stdin or stderr is none.
pub(crate) fn ask(question: &str) -> Option<bool> {
    if !io::stdin().is_terminal() || !is_watched() {
        return None;
    }
    let _ = write!(stderr(), "{} [y/N] ", Visible(question));
    let mut answer = String::new();
    let is_read = io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut answer).is_ok();
    Some(is_read && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Line on stderr that is replaced as work goes on, and removed at the end. Only on a terminal.
#[derive(Debug)]
pub(crate) struct StatusLine {
    is_watched: bool,
    shown_at: Option<Instant>,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self { is_watched: is_watched(), shown_at: None }
    }

    /// Replaces the line, unless it was replaced less than [`SHOW_EVERY`] ago.
    pub(crate) fn show(&mut self, text: impl Display) {
        let is_recent = self.shown_at.is_some_and(|at| at.elapsed() < SHOW_EVERY);
        if self.is_watched && !is_recent {
            let columns = tcgetwinsize(stderr()).map_or(80, |size| usize::from(size.ws_col));
            let line: String =
                Visible(text).to_string().chars().take(columns.saturating_sub(1)).collect();
            let _ = write!(stderr(), "{CLEAR_LINE}{line}");
            self.shown_at = Some(Instant::now());
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.shown_at.is_some() {
            let _ = write!(stderr(), "{CLEAR_LINE}");
        }
    }
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
        self.write(&json_text::escaped(&json_text::compact(&text)))
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
    fn no_value_in_a_message_can_imitate_another_message() {
        assert_eq!(indented("one"), "one\n");
        assert_eq!(indented(""), "\n");
        assert_eq!(indented("a\u{1b}\n\n  b\nostler: c\r\n"), "a\\u{1b}\n\n  b\n  ostler: c\n");
    }
}
