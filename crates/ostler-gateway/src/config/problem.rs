//! What is wrong in a file, and where.

use std::fmt;

use ostler::visible::Visible;
use serde::Serialize;

use super::excerpt::Excerpt;

/// Something to be said about a place in a file. It never holds a value that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
    /// What is to be said.
    pub message: String,
    #[serde(skip)]
    pub(super) excerpt: Excerpt,
}

/// All that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file, as people know it.
    pub file: String,
    /// What is wrong, in the order of the file.
    pub list: Vec<Problem>,
    /// How much more is wrong, beyond what anybody would read.
    pub more: usize,
}

impl Problem {
    /// It with the name of its file and the line that it is about.
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
