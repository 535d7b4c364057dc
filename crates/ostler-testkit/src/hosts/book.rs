//! Stored results in the build directory, and the tables of docs/hosts.md.
//!
//! Each result is a file of its own, so that one cell can be repeated. A table is written only if no result is missing.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::facts::{Facts, Limits};
use super::{Cell, End, Host, Outcome, Way};

/// The results.
#[derive(Debug)]
pub struct Book(PathBuf);

/// Why the page can't be written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A result is missing.
    #[error("no result for {0}: play it first")]
    Missing(String),
    /// The page has no place for a table.
    #[error("{} has no lines `{}` and `{}`", page.display(), begin(table), end(table))]
    NoMarks {
        /// The page.
        page: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// The page could not be read or written.
    #[error("{}", page.display())]
    Io {
        /// The page.
        page: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl Book {
    /// In the build directory.
    pub fn open() -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/hosts");
        fs::create_dir_all(&directory).expect("a directory for results");
        Self(directory)
    }

    /// Stores the result of a cell.
    pub fn keep_outcome(&self, outcome: &Outcome) {
        self.keep(&outcome_name(outcome.cell), outcome);
    }

    /// Stores the facts of a host.
    pub fn keep_facts(&self, facts: &Facts) {
        self.keep(&facts_name(facts.host), facts);
    }

    fn keep(&self, name: &str, value: &impl Serialize) {
        let text = serde_json::to_string_pretty(value).expect("JSON");
        fs::write(self.0.join(name), text).expect("a file for a result");
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, PageError> {
        let text = fs::read_to_string(self.0.join(name));
        let value = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        value.ok_or_else(|| PageError::Missing(name.to_owned()))
    }

    /// Writes the tables into the page, between their marks.
    pub fn write(&self, page: &Path) -> Result<(), PageError> {
        let failed = |source| PageError::Io { page: page.to_owned(), source };
        let mut text = fs::read_to_string(page).map_err(failed)?;
        let tables = [
            ("limits", self.limits()?),
            ("environment", self.environment()?),
            ("matrix", self.matrix()?),
        ];
        for (table, content) in tables {
            let replaced = replace(&text, table, &content);
            text = replaced.ok_or_else(|| PageError::NoMarks { page: page.to_owned(), table })?;
        }
        fs::write(page, text).map_err(failed)
    }

    fn facts(&self) -> Result<Vec<Facts>, PageError> {
        Host::ALL.into_iter().map(|host| self.read(&facts_name(host))).collect()
    }

    fn limits(&self) -> Result<String, PageError> {
        let mut text = header(&[
            "host",
            "`clientInfo.name`",
            "gives up on `initialize`",
            "gives up on `tools/list`",
            "first turn without the tools",
            "after `list_changed`",
        ]);
        for facts in self.facts()? {
            let Facts { host, version, hello, handshake, list, .. } = &facts;
            let Limits { first_turn_ms, gives_up_ms } = list;
            row(
                &mut text,
                &[
                    format!("{} {version}", host.title()),
                    format!("`{}`", hello.name),
                    seconds(handshake.gives_up_ms),
                    seconds(*gives_up_ms),
                    seconds(*first_turn_ms),
                    if facts.heeds_list_changed { "lists at once" } else { "does not list" }.into(),
                ],
            );
        }
        Ok(text)
    }

    fn environment(&self) -> Result<String, PageError> {
        let mut text = header(&[
            "host",
            "protocol, first message",
            "capabilities",
            "variables not passed on",
            "variables of its own",
            "`PATH`",
            "starts of a server with `share: all` in two runs",
        ]);
        for facts in self.facts()? {
            let (hello, environment) = (&facts.hello, &facts.environment);
            let path = match (environment.in_front_of_path.len(), environment.is_path_kept) {
                (0, true) => "as it is".to_owned(),
                (0, false) => "in another order".to_owned(),
                (1, _) => "a directory of its own in front".to_owned(),
                (count, _) => format!("{count} directories of its own in front"),
            };
            row(
                &mut text,
                &[
                    facts.host.title().to_owned(),
                    format!("{}, `{}`", hello.protocol, hello.first),
                    names(&hello.capabilities),
                    names(&environment.withheld),
                    names(&environment.added),
                    path,
                    facts.starts_of_two_runs.to_string(),
                ],
            );
        }
        Ok(text)
    }

    fn matrix(&self) -> Result<String, PageError> {
        let mut text = header(&["host", "way", "tool call", "exit", "TERM", "KILL", "hang-up"]);
        for host in Host::ALL {
            for way in Way::ALL {
                row(&mut text, &self.matrix_row(host, way)?);
            }
        }
        Ok(text)
    }

    fn matrix_row(&self, host: Host, way: Way) -> Result<Vec<String>, PageError> {
        let played = End::ALL.map(|end| Cell { host, way, end });
        let outcomes = played.into_iter().map(|cell| self.read(&outcome_name(cell)));
        let outcomes: Vec<Outcome> = outcomes.collect::<Result<_, _>>()?;
        let calls = outcomes.iter().filter(|outcome| outcome.has_called).count();
        let title = format!("{} {}", host.title(), outcomes[0].version);
        let first = [title, way.to_string(), format!("{calls} of {}", outcomes.len())];
        Ok(first.into_iter().chain(outcomes.iter().map(Outcome::counts)).collect())
    }
}

fn outcome_name(Cell { host, way, end }: Cell) -> String {
    format!("{host}-{way}-{end}.json")
}

fn facts_name(host: Host) -> String {
    format!("{host}.json")
}

fn header(names: &[&str]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()))
}

fn row(text: &mut String, cells: &[String]) {
    // A string takes all that is written to it.
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn names(all: &[String]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let all: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
    all.join(", ")
}

/// Rounded to a tenth; noise is larger.
fn seconds(ms: u64) -> String {
    let tenths = (ms + 50) / 100;
    if tenths.is_multiple_of(10) || tenths >= 100 {
        format!("{} s", (ms + 500) / 1000)
    } else {
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}

fn begin(table: &str) -> String {
    format!("<!-- begin {table}: scripts/hosts writes it -->")
}

fn end(table: &str) -> String {
    format!("<!-- end {table} -->")
}

fn replace(page: &str, table: &str, content: &str) -> Option<String> {
    let (before, rest) = page.split_once(&begin(table))?;
    let (_, after) = rest.split_once(&end(table))?;
    Some(format!("{before}{}\n{content}{}{after}", begin(table), end(table)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_text_between_its_marks() {
        let page = format!("a\n{}\nold\n{}\nb\n", begin("t"), end("t"));
        let new = replace(&page, "t", "new\n").unwrap();
        assert_eq!(new, format!("a\n{}\nnew\n{}\nb\n", begin("t"), end("t")));
        assert_eq!(replace(&page, "other", ""), None);
    }

    #[test]
    fn seconds_are_rounded_to_significant_digits() {
        assert_eq!(seconds(1512), "1.5 s");
        assert_eq!(seconds(1030), "1 s");
        assert_eq!(seconds(30_231), "30 s");
    }
}
