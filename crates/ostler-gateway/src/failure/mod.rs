//! Failures of instances as shown to operators and callers: bounded in size, and without secrets.
//!
//! A [`Failure`] is made of the [`Ending`] of an instance. Operators get it in events; callers get it as the text of an
//! error, and its fields in `data.gateway` of the error. Clients may print an error as it is, so callers get it without
//! control characters; commands escape them on output.

mod advice;
mod output;

use ostler::keeper::{Cause, Ending, Fault, Server, ServerLimits, TargetView};
use ostler::visible::is_hidden;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::advice::{Facts, advice};
use crate::config::masked_line;
use crate::variant;

/// Number of stderr lines that are shown.
const LINES: usize = 10;
/// Number of stderr lines that are searched for advice: a stack trace may hide the message above it.
const SEARCHED_LINES: usize = 40;
/// Longest kept line of output, in characters.
const LONGEST_LINE: usize = 300;
/// Longest kept cause or command, in characters.
const LONGEST_CAUSE: usize = 1000;

/// Why an instance failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cause, such as an exit or a failed handshake.
    pub cause: String,
    /// Exit status of the program, if it exited before ostler stopped it: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub status: Option<String>,
    /// The command that was run, as configured and with secrets masked; `None` for a remote server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Origin of the remote server's URL; `None` for a local server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What to do about it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// First line of stdout that is not an MCP message, with secrets masked, if it was not ready yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Last lines of stderr, with secrets masked.
    #[serde(default)]
    pub stderr: Vec<String>,
}

impl Failure {
    /// Returns `None` for an instance that ended for another reason than a failure.
    pub(crate) fn of(ending: &Ending) -> Option<Self> {
        ending.cause.is_failure().then(|| Self::from(ending))
    }

    /// Failure of a server that has not ended.
    pub(crate) fn without_end(server: &Server, cause: &str) -> Self {
        let (command, url) = command_or_url(&server.target_view());
        Self { cause: bounded(&masked_line(cause)), command, url, ..Self::default() }
    }

    /// The cause with the exit status.
    pub fn summary(&self) -> String {
        match &self.status {
            Some(status) => format!("{} ({status})", self.cause),
            None => self.cause.clone(),
        }
    }

    /// All but the summary, a line for each fact: what was tried, what to do, and its last output.
    pub fn lines(&self) -> Vec<String> {
        let facts = [
            ("command", &self.command),
            ("url", &self.url),
            ("what to do", &self.advice),
            ("not MCP on stdout", &self.stdout),
        ];
        let facts = facts.iter().filter_map(|(name, fact)| Some((*name, fact.as_ref()?)));
        let stderr = self.stderr.iter().map(|line| ("stderr", line));
        facts.chain(stderr).map(|(name, fact)| format!("{name}: {fact}")).collect()
    }

    /// The summary and all other facts, a line for each.
    fn text(&self, server: &str) -> String {
        let first = format!("{server}: {}", self.summary());
        std::iter::once(first).chain(self.lines()).collect::<Vec<_>>().join("\n  ")
    }

    /// The facts as fields of an object, with the server and this reason.
    fn details(&self, server: &str, reason: &str) -> Value {
        let mut details = json!({ "reason": reason, "server": server });
        if let (Value::Object(details), Ok(Value::Object(facts))) =
            (&mut details, serde_json::to_value(self))
        {
            let is_empty = |fact: &Value| fact.is_null() || *fact == json!([]);
            details.extend(facts.into_iter().filter(|(_, fact)| !is_empty(fact)));
        }
        details
    }

    /// The same without control characters; line breaks and tabs become spaces.
    fn plain(self) -> Self {
        let plain = |text: String| {
            let spaced = text.chars().map(|c| if c.is_ascii_whitespace() { ' ' } else { c });
            spaced.filter(|c| !is_hidden(*c)).collect::<String>()
        };
        Self {
            cause: plain(self.cause),
            status: self.status,
            command: self.command.map(plain),
            url: self.url.map(plain),
            advice: self.advice.map(plain),
            stdout: self.stdout.map(plain),
            stderr: self.stderr.into_iter().map(plain).collect(),
        }
    }
}

impl From<&Ending> for Failure {
    fn from(ending: &Ending) -> Self {
        let (cause, status) = (&ending.cause, ending.status);
        let searched = last_lines(&ending.stderr, SEARCHED_LINES);
        let stdout = ending.stray.as_deref().map(line);
        let (command, url) = command_or_url(&ending.target);
        let server = variant::name(&ending.server);
        let facts = Facts { server, cause, status, stdout: stdout.as_deref(), stderr: &searched };
        let advice = advice(&facts);
        let stderr = shown(searched);
        let (cause, status) = (text(cause), status.map(|status| status.to_string()));
        Self { cause, status, command, url, advice, stdout, stderr }
    }
}

/// An instance's end for its callers: the text of an error, and the details for programs, with this reason.
pub(crate) fn explain(ending: &Ending, reason: &str) -> (String, Value) {
    let (server, failure) = (variant::name(&ending.server), Failure::from(ending).plain());
    (failure.text(server), failure.details(server, reason))
}

/// Why a client can't use a server, as [`explain`] says it.
pub(crate) fn explain_unavailable(
    server: &str,
    reason: &str,
    advice: Option<&str>,
) -> (String, Value) {
    let advice = advice.map(ToOwned::to_owned);
    let failure = Failure { cause: reason.to_owned(), advice, ..Failure::default() }.plain();
    (failure.text(server), failure.details(server, "unavailable"))
}

fn command_or_url(target: &TargetView) -> (Option<String>, Option<String>) {
    match target {
        TargetView::Command(command) => (Some(bounded(command)), None),
        TargetView::Address(address) => (None, Some(bounded(address))),
    }
}

/// Text of a cause. Those that quote a server are masked.
fn text(cause: &Cause) -> String {
    let text = cause.to_string();
    let text = variant::readable(&text);
    match cause {
        Cause::Unhealthy(Fault::Handshake(_) | Fault::Lost(_)) => bounded(&masked_line(&text)),
        _ => bounded(&text),
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST_CAUSE).collect()
}

/// A line of output, masked and bounded.
fn line(line: &str) -> String {
    masked_line(line).chars().take(LONGEST_LINE).collect()
}

/// The last lines to show. Of more lines than that, those of a JavaScript stack trace are left out.
fn shown(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > LINES {
        let is_frame = |line: &str| {
            line.starts_with(char::is_whitespace) && line.trim_start().starts_with("at ")
        };
        lines.retain(|line| !is_frame(line));
    }
    lines.split_off(lines.len().saturating_sub(LINES))
}

/// The last lines that are not blank, at most `count`.
fn last_lines(stderr: &str, count: usize) -> Vec<String> {
    // A truncated text may begin inside a secret, which could not be recognised, so its first word is dropped.
    let is_cut = stderr.len() >= ServerLimits::default().stderr;
    let whole = stderr.split_once(char::is_whitespace).filter(|_| is_cut);
    let lines = whole.map_or(stderr, |(_, whole)| whole).lines();
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|text| line(text)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn ending(cause: Cause, stderr: &str) -> Ending {
        Ending {
            server: "s".into(),
            cause,
            status: Some(ExitStatus::from_raw(7 << 8)),
            stderr: stderr.into(),
            stray: Some("token=s3cret \u{1b}[31mhello".into()),
            target: TargetView::Command("npx -y x".into()),
        }
    }

    #[test]
    fn only_the_last_lines_are_kept_and_no_part_of_a_secret() {
        let many: Vec<String> = (0..100).map(|number| format!("line {number}\n")).collect();
        let many = many.join("\n");
        let shown_of = |stderr: &str| shown(last_lines(stderr, SEARCHED_LINES));
        assert_eq!(shown_of(&many).len(), LINES);
        assert_eq!(shown_of(&many).last().map(String::as_str), Some("line 99"));
        let long = "x".repeat(10 * LONGEST_LINE);
        assert_eq!(shown_of(&long), ["x".repeat(LONGEST_LINE)]);
        let cut = format!("3cret {}\ntoken=s3cret", "x ".repeat(ServerLimits::default().stderr));
        let lines = shown_of(&cut);
        assert!(lines.iter().all(|line| !line.contains("3cret")), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("token=…"));
    }

    #[test]
    fn a_message_above_a_long_stack_trace_is_found_and_shown() {
        let trace = "    at x (node:internal/y:1:2)\n".repeat(30);
        let stderr = format!("Error: A_KEY is missing\n{trace}Node.js v20.0.0\n");
        let failure = Failure::from(&ending(Cause::Exited, &stderr));
        assert_eq!(failure.stderr, ["Error: A_KEY is missing", "Node.js v20.0.0"]);
        assert_eq!(failure.advice.as_deref(), Some("set A_KEY in its `env`"));
    }

    #[test]
    fn callers_get_each_fact_on_a_line_and_as_a_field() {
        let (text, details) = explain(&ending(Cause::Exited, "A_KEY is missing\u{7}\n"), "why");
        let lines = [
            "s: it has exited (exit status: 7)",
            "  command: npx -y x",
            "  what to do: set A_KEY in its `env`",
            "  not MCP on stdout: token=… [31mhello",
            "  stderr: A_KEY is missing",
        ];
        assert_eq!(text, lines.join("\n"));
        let expected = json!({
            "reason": "why",
            "server": "s",
            "cause": "it has exited",
            "status": "exit status: 7",
            "command": "npx -y x",
            "advice": "set A_KEY in its `env`",
            "stdout": "token=… [31mhello",
            "stderr": ["A_KEY is missing"],
        });
        assert_eq!(details, expected);
    }

    #[test]
    fn a_cause_that_quotes_a_server_is_masked_and_every_cause_is_bounded() {
        let fault = Fault::Handshake("it said token=s3cret".into());
        let failure = Failure::from(&ending(Cause::Unhealthy(fault), ""));
        assert_eq!(failure.cause, "the handshake failed: it said token=…");
        let fault = Fault::Lost("x".repeat(10 * LONGEST_CAUSE));
        let failure = Failure::from(&ending(Cause::Unhealthy(fault), ""));
        assert_eq!(failure.cause.len(), LONGEST_CAUSE);
    }
}
