//! Tables of `ostler ps`: one that fits 80 columns, and a wide one with all columns.

use ostler::View;
use ostler_gateway::admin::InstanceLine;

use super::{Elsewhere, Row};
use crate::page::{self, Page, shortened};
use crate::render;

/// Width of the narrow table, in characters.
const TERMINAL: usize = 80;
const GAP: usize = 2;

pub(super) struct Cells {
    name: String,
    state: String,
    level: String,
    pid: String,
    processes: String,
    containers: String,
    rss: String,
    age: String,
    leases: String,
    calls: String,
    restarts: String,
    key: String,
    command: String,
    owner: String,
    client: String,
}

/// Adds a table that fits [`TERMINAL`]; long names and clients are cut.
pub(super) fn narrow(page: &mut Page, rows: Vec<Cells>) {
    let headers = ["NAME", "STATE", "PID", "PROCS", "RSS", "AGE", "CALLS", "CLIENT"];
    let cells = |row: Cells| {
        let Cells { name, state, pid, processes, rss, age, calls, client, .. } = row;
        // Escaped before they are measured, because escapes are longer.
        [name, state, pid, processes, rss, age, calls, client].each_ref().map(page::cell)
    };
    let mut rows: Vec<[String; 8]> = rows.into_iter().map(cells).collect();
    fit(headers, &mut rows, [0, 7]);
    page.table(headers, &rows);
}

/// Adds a table with all columns.
pub(super) fn wide(page: &mut Page, rows: Vec<Cells>) {
    let headers = [
        "NAME",
        "STATE",
        "LEVEL",
        "PID",
        "PROCS",
        "CONTAINERS",
        "RSS",
        "AGE",
        "LEASES",
        "CALLS",
        "RESTARTS",
        "KEY",
        "COMMAND",
        "OWNER",
        "CLIENT",
    ];
    let cells = |row: Cells| {
        [
            row.name,
            row.state,
            row.level,
            row.pid,
            row.processes,
            row.containers,
            row.rss,
            row.age,
            row.leases,
            row.calls,
            row.restarts,
            row.key,
            row.command,
            row.owner,
            row.client,
        ]
    };
    page.table(headers, &rows.into_iter().map(cells).collect::<Vec<_>>());
}

/// Cuts the cells of two columns, the wider one first, until the table fits.
fn fit<const N: usize>(headers: [&str; N], rows: &mut [[String; N]], flexible: [usize; 2]) {
    let length = |text: &str| text.chars().count();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| length(&row[column]));
        cells.chain([length(headers[column])]).max().unwrap_or(0)
    };
    let fixed = (0..N).filter(|column| !flexible.contains(column)).map(width).sum::<usize>();
    let room = TERMINAL.saturating_sub(fixed + GAP * (N - 1));
    let [first, second] = flexible.map(width);
    // Each column gets half, plus what the other does not need of its half.
    let half = room / 2;
    let widths = [half.max(room.saturating_sub(second)), half.max(room.saturating_sub(first))];
    for (column, width) in flexible.into_iter().zip(widths) {
        for row in rows.iter_mut() {
            row[column] = shortened(std::mem::take(&mut row[column]), width);
        }
    }
}

impl From<&Row> for Cells {
    fn from(row: &Row) -> Self {
        let Row { view, holding, gateway } = row;
        let known = |get: &dyn Fn(&InstanceLine) -> String| {
            gateway.as_ref().map_or_else(|| "-".into(), get)
        };
        Self {
            name: view.name.clone(),
            state: row.state(),
            level: view.containment.map_or("-".into(), |level| level.to_string()),
            pid: view.handle.clone().unwrap_or_else(|| "-".into()),
            processes: view.tree.len().to_string(),
            containers: match &holding.unreachable {
                Some(_) => "?".into(),
                None => holding.containers.len().to_string(),
            },
            rss: render::size(view.rss),
            age: render::age(view.started_at),
            leases: known(&|line| line.leases.len().to_string()),
            calls: known(&|line| line.calls.to_string()),
            restarts: known(&|line| line.restarts.to_string()),
            key: known(&|line| line.key.clone()),
            command: view.program.clone(),
            owner: format!("{} ({})", view.owner.program, view.owner.process.pid),
            client: match gateway {
                Some(line) => clients(line),
                None => parent(view),
            },
        }
    }
}

impl From<&Elsewhere> for Cells {
    fn from(Elsewhere { name, state, owner, gateway: line, .. }: &Elsewhere) -> Self {
        let none = || "-".to_owned();
        Self {
            name: name.clone(),
            state: state.clone(),
            level: none(),
            pid: none(),
            processes: none(),
            containers: none(),
            rss: none(),
            age: render::duration(line.age),
            leases: line.leases.len().to_string(),
            calls: line.calls.to_string(),
            restarts: line.restarts.to_string(),
            key: line.key.clone(),
            command: line.place.clone().unwrap_or_else(none),
            owner: format!("ostler serve ({owner})"),
            client: clients(line),
        }
    }
}

/// The process that started `ostler run`.
pub(crate) fn parent(view: &View) -> String {
    let client = view.owner.client.as_ref();
    let parent = client.map(|client| format!("{} ({})", client.name, client.process.pid));
    parent.unwrap_or_else(|| "-".into())
}

/// MCP clients that hold an instance.
pub(crate) fn clients(line: &InstanceLine) -> String {
    if line.clients.is_empty() { "-".into() } else { line.clients.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_cells_are_cut_to_the_width_of_the_terminal() {
        let fitted = |name: usize, client: usize| {
            let mut rows = [["x".repeat(name), "state".into(), "y".repeat(client)]];
            fit(["NAME", "STATE", "CLIENT"], &mut rows, [0, 2]);
            let [[name, state, client]] = rows;
            assert_eq!(state, "state");
            (name.chars().count(), client.chars().count())
        };
        assert_eq!(fitted(10, 20), (10, 20));
        assert_eq!(fitted(100, 10), (61, 10));
        assert_eq!(fitted(10, 100), (10, 61));
        assert_eq!(fitted(100, 100), (35, 35));
    }
}
