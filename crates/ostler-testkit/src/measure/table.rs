//! Markdown.

use std::fmt;

use super::sample::Sample;

/// One measurement, ready to be shown.
#[derive(Debug)]
pub struct Table {
    title: String,
    /// Description of the measurement.
    what: String,
    goals: Vec<String>,
    header: Vec<&'static str>,
    rows: Vec<(String, Vec<f64>)>,
}

impl Table {
    pub fn new(title: &str, what: String, header: &[&'static str]) -> Self {
        let (title, header) = (title.to_owned(), header.to_vec());
        Self { title, what, goals: Vec::new(), header, rows: Vec::new() }
    }

    pub fn row(&mut self, name: impl Into<String>, values: Vec<f64>) {
        self.rows.push((name.into(), values));
    }

    /// The row that most tables are made of.
    pub fn quantiles(&mut self, name: impl Into<String>, sample: &Sample) {
        self.row(name, vec![sample.min(), sample.p50(), sample.p95(), sample.max()]);
    }

    pub fn goal(&mut self, what: &str, measured: f64, limit: f64) {
        let verdict = if measured <= limit { "met" } else { "**not met**" };
        self.goals.push(format!("{what}: {} - {verdict}", number(measured)));
    }
}

/// The columns of [`Table::quantiles`].
pub const MILLISECONDS: [&str; 5] = ["ms", "min", "p50", "p95", "max"];

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n\n{}\n", self.title, self.what)?;
        for goal in &self.goals {
            writeln!(f, "- Goal: {goal}")?;
        }
        let gap = if self.goals.is_empty() { "" } else { "\n" };
        writeln!(f, "{gap}| {} |", self.header.join(" | "))?;
        let columns = self.header.len().saturating_sub(1);
        writeln!(f, "|---|{}", "--:|".repeat(columns))?;
        for (name, values) in &self.rows {
            let cells: Vec<String> = values.iter().map(|value| number(*value)).collect();
            writeln!(f, "| {name} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// Three digits, more than a noisy machine reproduces.
fn number(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}
