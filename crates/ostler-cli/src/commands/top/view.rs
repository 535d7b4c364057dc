//! Draws the state of `ostler top`.

use ratatui_core::layout::{Constraint, Rect};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Text};
use ratatui_widgets::block::Block;
use ratatui_widgets::clear::Clear;
use ratatui_widgets::paragraph::Paragraph;
use ratatui_widgets::table::{Row, Table, TableState};

use super::feed::Action;
use super::instance::Instance;
use super::state::{Page, Prompt, State};
use crate::page::cell;
use crate::render;

/// Lines around a page: title, table header, keys.
pub(super) const FRAME: u16 = 3;
/// A terminal this wide also shows pids and clients.
const WIDE: u16 = 110;
/// Lines of trouble that are shown below the table.
const MOST_TROUBLES: usize = 4;

const HELP: [&str; 13] = [
    "Up Down PgUp PgDn g G   select",
    "Enter                   show the processes and events of an instance",
    "Esc                     go back; in the list: remove the filter",
    "/                       filter by server, state, client or instance",
    "s                       sort by the next column",
    "i                       invert the order",
    "x                       stop the instance",
    "r                       restart the server: stop all its instances",
    "q ^C                    quit",
    "",
    "CPU is the share of one processor since the last refresh.",
    "`ostler ps` explains the states, `ostler ps --tree` shows containers.",
    "Any key closes this help.",
];

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws all of it. `table` keeps the scroll position of the list.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, table: &mut TableState) {
    let Rect { width, height, .. } = frame.area();
    let line = |y: u16| Rect { x: 0, y, width, height: 1.min(height.saturating_sub(y)) };
    frame.render_widget(Paragraph::new(title(state)).style(BOLD), line(0));
    let body = Rect { x: 0, y: 1.min(height), width, height: height.saturating_sub(2) };
    match state.page {
        Page::List => list(frame, state, table, body),
        Page::Detail(from) => detail(frame, state, from, body),
    }
    frame.render_widget(Paragraph::new(footer(state)).style(DIM), line(height.saturating_sub(1)));
    if state.prompt == Prompt::Help {
        help(frame);
    }
}

fn title(state: &State) -> String {
    let shown = state.shown();
    let memory: u64 = shown.iter().filter_map(|one| one.memory).sum();
    let order = if state.is_reversed { ", inverted" } else { "" };
    let silence = state.stale.map(|seconds| format!("  (no answer for {seconds} s)"));
    let silence = silence.unwrap_or_default();
    let filter = match state.filter.as_str() {
        "" => String::new(),
        filter => format!("  filter: {}", cell(&filter.to_owned())),
    };
    format!(
        "ostler top{silence}  {}, {}  by {}{order}{filter}",
        count(shown.len()),
        render::size(memory),
        state.sort.name()
    )
}

fn count(instances: usize) -> String {
    if instances == 1 { "1 instance".into() } else { format!("{instances} instances") }
}

fn footer(state: &State) -> String {
    let keys = match (&state.prompt, state.page) {
        (Prompt::Filter, _) => {
            return format!("/{}_  Enter: keep, Esc: remove", cell(&state.filter));
        }
        (Prompt::Confirm(action), _) => return question(action),
        (_, Page::List) => "? help  Enter details  / filter  s sort  x stop  r restart  q quit",
        (_, Page::Detail(_)) => "? help  Esc back  x stop  r restart  q quit",
    };
    match &state.message {
        Some(message) => cell(message),
        None => keys.to_owned(),
    }
}

fn question(action: &Action) -> String {
    match action {
        Action::Stop { id, server } => {
            let id: String = id.to_string().chars().take(8).collect();
            format!("stop {} ({id})? y/N", cell(server))
        }
        Action::Restart { server, .. } => {
            format!("stop all instances of {}? the next call starts a new one. y/N", cell(server))
        }
    }
}

fn list(frame: &mut Frame<'_>, state: &State, table: &mut TableState, area: Rect) {
    let shown = state.shown();
    let troubles = &state.snapshot.troubles[..state.snapshot.troubles.len().min(MOST_TROUBLES)];
    let below = u16::try_from(troubles.len()).unwrap_or(0).min(area.height / 2);
    let upper = Rect { height: area.height - below, ..area };
    let lower = Rect { y: area.y + upper.height, height: below, ..area };
    let is_wide = area.width >= WIDE;
    let rows = shown.iter().map(|one| row(one, is_wide));
    let widget = Table::new(rows, widths(is_wide)).header(header(is_wide)).column_spacing(2);
    table.select(state.position());
    frame.render_stateful_widget(widget.row_highlight_style(REVERSED), upper, table);
    if shown.is_empty() && upper.height > 1 {
        let empty = if state.filter.is_empty() { "no servers" } else { "no match" };
        frame.render_widget(Paragraph::new(empty), Rect { y: upper.y + 1, height: 1, ..upper });
    }
    let lines: Vec<Line<'_>> = troubles.iter().map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), lower);
}

fn widths(is_wide: bool) -> Vec<Constraint> {
    let mut widths = vec![
        Constraint::Min(12),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(8),
        Constraint::Length(5),
        Constraint::Length(4),
    ];
    if is_wide {
        widths.extend([Constraint::Length(7), Constraint::Min(20)]);
    }
    widths
}

fn header(is_wide: bool) -> Row<'static> {
    let mut cells = vec![Text::from("SERVER"), Text::from("INSTANCE"), Text::from("STATE")];
    let numbers = ["SESSIONS", "CALLS", "MEMORY", "CPU%", "AGE"];
    cells.extend(numbers.map(|name| Text::from(name).right_aligned()));
    if is_wide {
        cells.extend([Text::from("PID").right_aligned(), Text::from("CLIENT")]);
    }
    Row::new(cells).style(BOLD)
}

fn row(one: &Instance, is_wide: bool) -> Row<'static> {
    let number =
        |text: Option<String>| Text::from(text.unwrap_or_else(|| "-".into())).right_aligned();
    let mut cells = vec![
        Text::from(one.server.clone()),
        Text::from(one.name()),
        Text::from(one.state.clone()),
        number(one.sessions.map(|count| count.to_string())),
        number(one.calls.map(|count| count.to_string())),
        number(one.memory.map(render::size)),
        number(one.cpu.map(|percent| format!("{percent:.1}"))),
        number(Some(render::duration(one.age))),
    ];
    if is_wide {
        cells.extend([number(Some(one.pid.clone())), Text::from(one.client.clone())]);
    }
    Row::new(cells)
}

fn detail(frame: &mut Frame<'_>, state: &State, from: usize, area: Rect) {
    let lines = state.instance().map_or_else(
        || vec!["it has ended".to_owned()],
        |one| lines_of(one, &state.snapshot.events),
    );
    let lines = wrapped(lines, usize::from(area.width));
    let last = lines.len().saturating_sub(usize::from(area.height));
    let lines: Vec<Line<'_>> = lines.into_iter().skip(from.min(last)).map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Lines of at most `width` characters; the rest of a longer line is indented.
fn wrapped(lines: Vec<String>, width: usize) -> Vec<String> {
    const INDENT: &str = "      ";
    let room = width.saturating_sub(INDENT.len()).max(1);
    let wrap = |line: String| {
        let all: Vec<char> = line.chars().collect();
        let (first, rest) = all.split_at(all.len().min(width));
        let rest = rest.chunks(room).map(|part| part.iter().collect::<String>());
        let first = std::iter::once(first.iter().collect());
        first.chain(rest.map(|part| format!("{INDENT}{part}"))).collect::<Vec<String>>()
    };
    lines.into_iter().flat_map(wrap).collect()
}

fn lines_of(one: &Instance, events: &[String]) -> Vec<String> {
    let mut lines = vec![format!("{}  {}  {}", one.server, one.name(), one.state)];
    let known = [
        ("pid", Some(one.pid.clone())),
        ("client", Some(one.client.clone())),
        ("age", Some(render::duration(one.age))),
        ("memory", one.memory.map(render::size)),
        ("calls", one.calls.map(|count| count.to_string())),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let facts = known.chain(one.facts.clone());
    lines.extend(facts.map(|(name, value)| format!("  {name:<16}  {value}")));
    lines.extend([String::new(), format!("processes: {}", one.tree.len())]);
    lines.extend(one.tree.iter().map(|line| format!("  {line}")));
    lines.extend([String::new(), "events:".to_owned()]);
    match &one.home {
        None => lines.push("  only gateways keep events".into()),
        Some(_) => lines.extend(events.iter().map(|line| format!("  {line}"))),
    }
    lines
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = area.width.min(74);
    let height = area.height.min(u16::try_from(HELP.len()).unwrap_or(0) + 2);
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let area = Rect { x, y, width, height };
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), area);
}
