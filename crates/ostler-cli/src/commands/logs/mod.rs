//! `ostler logs`: prints what a server wrote to stderr.
//!
//! The lines come from the files that gateways and `ostler run --log` write, so this needs no gateway. `filter` decides which of them are
//! wanted, `since` reads the option of that name, and `absent` explains why a server has no log.

mod absent;
mod filter;
mod since;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ostler::logs::{Entry, LogReader, Logs, ReadError, Source};
use ostler::{InstanceId, Places};
use serde::Serialize;

use self::absent::{Absence, Unlogged};
use self::filter::{Filter, InstanceName};
use self::since::Since;
use crate::out::{Screen, chain, say};
use crate::{exit, render};

/// How often `--follow` looks for new lines.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Needs no gateway: it reads the files that gateways and `ostler run --log` write. For each server the last 5 MiB are kept, also of instances that failed to start, with secrets masked. A server may write 256 KiB per second and instance; the log says how many lines beyond that were dropped.

Each line has its time, its instance and a mark: | for stderr, * for ostler itself. Times are local; with --json they are UTC (RFC 3339). Instances of a gateway have numbers, as in `ostler events`, others the start of their id.

Without --log, the stderr of a server under `ostler run` goes to the client that started it, and to no log.

Exit status: 3 if there is no such server, or if its stderr goes to its client.

Examples:
  ostler logs github
  ostler logs github -f
  ostler logs github -n 50 --since 10m
  ostler logs github --instance 3
  ostler logs github --json | jq -r 'select(.source == \"stderr\") | .text'")]
pub(crate) struct LogsArguments {
    /// Name of the server
    server: String,
    /// Print new lines as they come, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Print the last lines only
    #[arg(short = 'n', long, value_name = "NUMBER")]
    lines: Option<usize>,
    /// Print lines since then: 10m, 2d, 2026-11-18 10:45
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<Since>,
    /// Print lines of this instance: its number, or the start of its id
    #[arg(long, value_name = "INSTANCE", value_parser = filter::parse)]
    instance: Option<InstanceName>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// RFC 3339, in UTC.
    at: String,
    server: &'a str,
    instance: Option<InstanceId>,
    number: Option<u64>,
    source: Source,
    text: &'a str,
    cut: bool,
}

/// Why the output ends early.
enum Stop {
    Unreadable(ReadError),
    Unwritten(io::Error),
}

pub(crate) fn run(arguments: &LogsArguments) -> ExitCode {
    let mut readers = readers(&arguments.server);
    let entries = match read(&mut readers) {
        Ok(entries) => entries,
        Err(error) => return report(Stop::Unreadable(error)),
    };
    if !readers.iter().any(LogReader::exists) {
        let absence = Absence::of(&arguments.server);
        say(&absence);
        if !(arguments.follow && absence.may_end()) {
            return absence.code();
        }
    } else if let Some(unlogged) = Unlogged::of(&arguments.server) {
        say(format_args!("{}: {unlogged}", arguments.server));
    }
    let LogsArguments { since, instance, .. } = arguments;
    let filter = Filter { since: *since, instance: instance.clone() };
    let mut printer = Printer { arguments, filter, screen: Screen::new() };
    let end = match printer.print(entries) {
        Ok(()) if arguments.follow => printer.follow(readers),
        end => end,
    };
    end.map_or_else(report, |()| ExitCode::SUCCESS)
}

fn report(stop: Stop) -> ExitCode {
    match stop {
        // The reader of our output has enough.
        Stop::Unwritten(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Stop::Unwritten(error) => exit::written(Err(error)),
        Stop::Unreadable(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

/// One reader for each directory that may hold the log.
fn readers(server: &str) -> Vec<LogReader> {
    let all = Logs::all(&Places::of_user());
    all.iter().map(|logs| LogReader::new(logs.path(server))).collect()
}

/// Reads the entries that are new since the last call, in the order of time if they come from several directories.
fn read(readers: &mut [LogReader]) -> Result<Vec<Entry<'static>>, ReadError> {
    let mut entries = Vec::new();
    for reader in &mut *readers {
        reader.read(|entry| entries.push(entry))?;
    }
    if readers.len() > 1 {
        entries.sort_by_key(|entry| entry.at);
    }
    Ok(entries)
}

/// Prints entries that the user wants.
struct Printer<'a> {
    arguments: &'a LogsArguments,
    filter: Filter,
    screen: Screen,
}

impl Printer<'_> {
    /// Prints what is stored, at most the last lines that the user asked for.
    fn print(&mut self, entries: Vec<Entry<'static>>) -> Result<(), Stop> {
        let wanted: Vec<_> = entries.into_iter().filter(|it| self.filter.wants(it)).collect();
        let surplus = wanted.len().saturating_sub(self.arguments.lines.unwrap_or(usize::MAX));
        wanted[surplus..].iter().try_for_each(|entry| self.show(entry))
    }

    /// Prints new entries until the reader of stdout is gone.
    fn follow(&mut self, mut readers: Vec<LogReader>) -> Result<(), Stop> {
        while !Screen::is_closed_within(LOOK_EVERY) {
            if !readers.iter().any(LogReader::exists) {
                // The directory may not have existed.
                readers = self::readers(&self.arguments.server);
            }
            for entry in read(&mut readers).map_err(Stop::Unreadable)? {
                if self.filter.wants(&entry) {
                    self.show(&entry)?;
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, entry: &Entry<'_>) -> Result<(), Stop> {
        let server = &*self.arguments.server;
        let written = if self.arguments.json {
            self.screen.json(&Line::of(server, entry))
        } else {
            self.screen.line(text(entry))
        };
        written.map_err(Stop::Unwritten)
    }
}

impl<'a> Line<'a> {
    fn of(server: &'a str, entry: &'a Entry<'_>) -> Self {
        let Entry { at, instance, number, source, text, cut } = entry;
        Self {
            at: render::rfc3339(*at),
            server,
            instance: *instance,
            number: *number,
            source: *source,
            text,
            cut: *cut,
        }
    }
}

/// A line for people.
fn text(entry: &Entry<'_>) -> String {
    let name = filter::name(entry.number, entry.instance);
    let mark = match entry.source {
        Source::Stderr => '|',
        Source::Ostler => '*',
    };
    let end = if entry.cut { " …" } else { "" };
    format!("{}  {name} {mark} {}{end}", render::clock(entry.at), entry.text)
}
