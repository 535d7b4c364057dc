//! Problems in a configuration file, with their places.

use std::fmt;

use ostler::visible::Visible;
use serde::Serialize;

use super::excerpt::Excerpt;

/// An error or notice about a place in a file. It never contains a value that may be secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Path of the key, and the message.
    pub message: String,
    #[serde(skip)]
    pub(super) excerpt: Excerpt,
}

/// All errors in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file, as messages show it.
    pub file: String,
    /// Errors in the order of the file, at most 200.
    pub list: Vec<Problem>,
    /// Number of further errors.
    pub more: usize,
}

impl Problem {
    /// Displays the problem with its file and the excerpt.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        InFile { file, problem: self }
    }
}

struct InFile<'a> {
    file: &'a str,
    problem: &'a Problem,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { line, column, message, excerpt } = self.problem;
        writeln!(f, "{}:{line}:{column}: {message}", Visible(self.file))?;
        excerpt.write(f, *line)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", problem.in_file(&self.file))?;
        }
        if self.more > 0 {
            write!(f, "\n{}: {} more", Visible(&self.file), self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
