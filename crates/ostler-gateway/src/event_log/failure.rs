//! Failures of instances as shown to operators: bounded in size, and without secrets.

use ostler::keeper::{Ending, ServerLimits};
use serde::{Deserialize, Serialize};

use crate::config::masked_line;
use crate::variant;

/// Number of stderr lines that are kept.
const LINES: usize = 10;
/// Longest kept line, in characters.
const LONGEST_LINE: usize = 300;

/// Why an instance failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The cause, such as an exit or a failed handshake.
    pub cause: String,
    /// Exit status of the program, if it exited before ostler stopped it: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub status: Option<String>,
    /// Last lines of stderr, with secrets masked.
    pub stderr: Vec<String>,
}

impl Failure {
    /// Returns `None` for an instance that ended for another reason than a failure.
    pub(crate) fn of(ending: &Ending) -> Option<Self> {
        ending.cause.is_failure().then(|| Self {
            cause: variant::readable(&ending.cause.to_string()).into_owned(),
            status: ending.status.map(|status| status.to_string()),
            stderr: last_lines(&ending.stderr),
        })
    }

    /// The cause with the exit status.
    pub fn summary(&self) -> String {
        match &self.status {
            Some(status) => format!("{} ({status})", self.cause),
            None => self.cause.clone(),
        }
    }
}

fn last_lines(stderr: &str) -> Vec<String> {
    // A truncated text may begin inside a secret, which could not be recognised, so its first word is dropped.
    let is_cut = stderr.len() >= ServerLimits::default().stderr;
    let whole = stderr.split_once(char::is_whitespace).filter(|_| is_cut);
    let lines = whole.map_or(stderr, |(_, whole)| whole).lines();
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let shown = |line: &&str| masked_line(line).chars().take(LONGEST_LINE).collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_no_part_of_a_secret() {
        let many: Vec<String> = (0..100).map(|number| format!("line {number}\n")).collect();
        let many = many.join("\n");
        assert_eq!(last_lines(&many).len(), LINES);
        assert_eq!(last_lines(&many).last().map(String::as_str), Some("line 99"));
        let long = "x".repeat(10 * LONGEST_LINE);
        assert_eq!(last_lines(&long), ["x".repeat(LONGEST_LINE)]);
        let cut = format!("3cret {}\ntoken=s3cret", "x ".repeat(ServerLimits::default().stderr));
        let lines = last_lines(&cut);
        assert!(lines.iter().all(|line| !line.contains("3cret")), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("token=…"));
    }
}
