//! Why an instance failed, as operators see it: bounded, and without secrets.

use ostler::keeper::{Ending, ServerLimits};
use serde::{Deserialize, Serialize};

use crate::config::masked_line;
use crate::variant;

/// The last lines of stderr that are kept.
const LINES: usize = 10;
/// The longest of them, in characters.
const LONGEST_LINE: usize = 300;

/// Why an instance failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What happened: it has exited, its handshake failed, ...
    pub cause: String,
    /// How its program exited, if that was before ostler ended it: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub status: Option<String>,
    /// The last lines that it wrote to stderr, with a mask over what might be a secret.
    pub stderr: Vec<String>,
}

impl Failure {
    /// `None` for an instance that was ended for another reason than a failure.
    pub(super) fn of(ending: &Ending) -> Option<Self> {
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
    // A text that was cut off may begin inside of a secret, which could not be recognised.
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
