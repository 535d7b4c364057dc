//! Runs real agent hosts and writes docs/hosts.md. `scripts/hosts` installs the hosts and starts this program.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::{Parser, Subcommand};
use ostler_testkit::hosts::book::{Book, PageError};
use ostler_testkit::hosts::facts::Facts;
use ostler_testkit::hosts::{Cell, End, Host, Way};

/// Run agent hosts against a fake model
#[derive(Debug, Parser)]
#[command(name = "ostler-hosts")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// End hosts and count the remaining processes; all of a kind if none is named
    Play {
        #[arg(long)]
        host: Option<Host>,
        #[arg(long)]
        way: Option<Way>,
        #[arg(long)]
        end: Option<End>,
    },
    /// Measure the environment that hosts give to their servers, and their timeouts
    Facts {
        #[arg(long)]
        host: Option<Host>,
    },
    /// Write the tables of all results into the page
    Page { page: PathBuf },
}

fn main() -> Result<ExitCode, PageError> {
    match Cli::parse().what {
        What::Play { host, way, end } => play(host, way, end),
        What::Facts { host } => Host::ALL.into_iter().filter(is(host)).for_each(facts),
        What::Page { page } => Book::open().write(&page)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Hosts run one at a time, because they load the machine. Ended hosts are watched in parallel, because watching is waiting.
fn play(host: Option<Host>, way: Option<Way>, end: Option<End>) {
    let book = &Book::open();
    thread::scope(|scope| {
        for host in Host::ALL.into_iter().filter(is(host)) {
            for way in Way::ALL.into_iter().filter(is(way)) {
                for end in End::ALL.into_iter().filter(is(end)) {
                    let ended = Cell { host, way, end }.begin();
                    scope.spawn(move || {
                        let outcome = ended.watch();
                        say(&outcome.to_string());
                        book.keep_outcome(&outcome);
                    });
                }
            }
        }
    });
}

fn facts(host: Host) {
    let facts = Facts::measure(host);
    say(&format!("{facts:?}"));
    Book::open().keep_facts(&facts);
}

/// Whether it matches the filter; without a filter everything matches.
fn is<T: PartialEq + Copy>(wanted: Option<T>) -> impl Fn(&T) -> bool {
    move |one| wanted.is_none_or(|wanted| wanted == *one)
}

#[expect(clippy::print_stderr, reason = "a program for people at a terminal")]
fn say(line: &str) {
    eprintln!("{line}");
}
