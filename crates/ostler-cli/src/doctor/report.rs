//! Output of `ostler doctor` as text and as JSON.

use serde::Serialize;

use super::find::{Certainty, Find, FoundProcess, Kind};
use super::machine::{Engine, Machine};
use crate::page::Page;
use crate::render;

/// Longest output line, in characters.
const WIDTH: usize = 80;
/// Most processes named for one find.
const NAMED: usize = 6;

/// Full report of `ostler doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) finds: &'a [Find],
    /// What could not be judged, and why.
    pub(crate) notes: &'a [String],
    pub(crate) totals: Totals,
}

/// Sums over all finds.
#[derive(Debug, Serialize)]
pub(crate) struct Totals {
    /// Number of leftovers.
    pub(crate) left_over: usize,
    /// Memory of the leftovers, in bytes.
    pub(crate) memory: u64,
    /// Memory that sharing duplicates would save, in bytes.
    pub(crate) sharing_would_save: u64,
}

impl Totals {
    pub(crate) fn of(finds: &[Find]) -> Self {
        let left: Vec<&Find> = finds.iter().filter(|find| find.kind.is_left_over()).collect();
        let duplicates = finds.iter().filter(|find| find.kind == Kind::DuplicateServers);
        Self {
            left_over: left.len(),
            memory: left.iter().map(|find| find.memory).sum(),
            sharing_would_save: duplicates.map(|find| find.memory).sum(),
        }
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(machine: &'a Machine, finds: &'a [Find], notes: &'a [String]) -> Self {
        Self { machine, finds, notes, totals: Totals::of(finds) }
    }

    pub(crate) fn page(&self) -> Page {
        let mut page = Page::of("This machine");
        show_machine(&mut page, self.machine);
        page.line("");
        for (title, is_shown) in [
            ("Left behind", Kind::is_left_over as fn(Kind) -> bool),
            ("Advice", |kind| !kind.is_left_over()),
        ] {
            let finds: Vec<&Find> = self.finds.iter().filter(|find| is_shown(find.kind)).collect();
            if !finds.is_empty() {
                page.line(title);
                for find in finds {
                    describe(&mut page, find);
                }
                page.line("");
            }
        }
        for note in self.notes {
            wrapped(&mut page, "note: ", "      ", note);
        }
        self.summary(&mut page);
        page
    }

    fn summary(&self, page: &mut Page) {
        let Totals { left_over, memory, sharing_would_save } = self.totals;
        let mut text = match left_over {
            0 => "Nothing was left behind".to_owned(),
            1 => format!("1 thing was left behind: {}", render::size(memory)),
            n => format!("{n} things were left behind: {}", render::size(memory)),
        };
        if sharing_would_save > 0 {
            text = format!("{text}; sharing would save {}", render::size(sharing_would_save));
        }
        page.line(format_args!("{text}. Nothing was touched."));
    }
}

fn show_machine(page: &mut Page, machine: &Machine) {
    let mut entry = |what: &str, text: &str| {
        wrapped(page, &format!("  {what:<12}"), &" ".repeat(14), text);
    };
    let containment = &machine.containment;
    match (&containment.cgroup, &containment.no_leaf) {
        (Some(cgroup), _) => entry("containment", &format!("leaf, below {}", cgroup.display())),
        (None, why) => {
            entry("containment", "tree");
            entry("", &format!("no leaf: {}", why.as_deref().unwrap_or_default()));
        }
    }
    match &containment.no_strict {
        None => entry("", "strict can be asked for"),
        Some(why) => entry("", &format!("no strict: {why}")),
    }
    for engine in &machine.engines {
        entry("engine", &engine_line(engine));
    }
    for tool in &machine.tools {
        let state = tool.version.clone().or_else(|| tool.error.clone()).unwrap_or_default();
        entry(tool.name, &state);
    }
    let configuration = &machine.configuration;
    match &configuration.file {
        Some(file) => {
            let servers = if configuration.servers == 1 { "server" } else { "servers" };
            entry("config", &format!("{}: {} {servers}", file.display(), configuration.servers));
        }
        None => entry("config", "none"),
    }
    for problem in &configuration.problems {
        entry("", &format!("problem: {problem}"));
    }
    if machine.gateways.is_empty() {
        entry("gateway", "none runs");
    }
    for gateway in &machine.gateways {
        let (pid, sessions, instances) = (gateway.pid, gateway.sessions, gateway.instances);
        let counts = format!("pid {pid}, sessions: {sessions}, instances: {instances}");
        entry("gateway", &format!("{counts}, {}", gateway.socket.display()));
    }
}

/// Formats `docker 28.2.2 at unix:///var/run/docker.sock`, or why the engine does not answer.
fn engine_line(engine: &Engine) -> String {
    let Engine { command, endpoint, version, error } = engine;
    match (version, error) {
        (Some(version), _) => format!("{command} {version} at {endpoint}"),
        (None, Some(error)) if error.starts_with(endpoint.as_str()) => {
            format!("{command}: {error}")
        }
        (None, error) => {
            let error = error.as_deref().unwrap_or_default();
            format!("{command} at {endpoint}: {error}")
        }
    }
}

/// Adds one find with its evidence.
pub(crate) fn describe(page: &mut Page, find: &Find) {
    let certainty = match find.certainty {
        Certainty::Certain => ", certain",
        Certainty::Likely => ", likely",
        Certainty::Advice => "",
    };
    let (age, cost) = (render::duration(find.age), cost(find));
    page.line(format_args!("  {}  {}{certainty}, {age} old{cost}", find.id, find.kind));
    let mut entry = |what: &str, text: &str| {
        wrapped(page, &format!("    {what:<10}"), &" ".repeat(14), text);
    };
    entry("server", &find.server);
    entry("command", &shortened(&find.command));
    entry("host", find.host.as_deref().unwrap_or("unknown"));
    for fact in &find.evidence {
        entry("evidence", fact);
    }
    if !find.processes.is_empty() && find.kind.is_left_over() {
        entry("processes", &processes(&find.processes));
    }
    if let Some(action) = &find.action {
        entry("to act", action);
    }
}

fn cost(find: &Find) -> String {
    match find.kind {
        _ if find.memory == 0 => String::new(),
        Kind::DuplicateServers => format!(", sharing would save {}", render::size(find.memory)),
        _ => format!(", {}", render::size(find.memory)),
    }
}

fn processes(all: &[FoundProcess]) -> String {
    let named = all.iter().take(NAMED).map(|one| format!("{} ({})", one.pid, one.name.trim()));
    let named = named.collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Cuts a command line to about three lines.
fn shortened(command: &str) -> String {
    const LONGEST: usize = 180;
    if command.chars().count() <= LONGEST {
        return command.to_owned();
    }
    let start: String = command.chars().take(LONGEST).collect();
    format!("{start}…")
}

/// Adds a text in lines of at most [`WIDTH`] characters. A word that is longer than a line is broken.
fn wrapped(page: &mut Page, first: &str, indent: &str, text: &str) {
    let text = ostler::visible::Visible(text).to_string();
    let room = WIDTH - indent.chars().count();
    let mut line = String::new();
    let mut lines = Vec::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.chars().count() + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > room {
            let rest = word.split_off(room);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    lines.push(line);
    for (number, line) in lines.iter().enumerate() {
        let before = if number == 0 { first } else { indent };
        page.line(format_args!("{before}{line}").to_string().trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let mut page = Page::new();
        let text = format!("{} {} end", "word ".repeat(40), "x".repeat(200));
        wrapped(&mut page, "  what        ", &" ".repeat(14), &text);
        assert!(page.text().lines().all(|line| line.chars().count() <= WIDTH), "{}", page.text());
        let said: String = page.text().split_whitespace().skip(1).collect();
        assert_eq!(said, text.split_whitespace().collect::<String>());
    }
}
