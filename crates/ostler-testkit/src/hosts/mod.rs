//! Real agent hosts, run against a fake model, with a rude server behind them.
//!
//! A [`Cell`] is one host that reaches its server in one [`Way`] and comes to one [`End`]. [`Cell::begin`] starts the host in a
//! sandbox of its own, waits until its model has called the server's tool, and ends the host; [`Ended`] then counts what is left on
//! the process table. [`facts`] measures what a host gives to its servers and how long it waits for them.
//!
//! Hosts run from `target/test-tools/hosts`, where `scripts/prepare` and `scripts/hosts` install them, with the configuration
//! files and entries that docs/hosts.md shows. Their model, and all else that can be pointed somewhere, is on loopback.

pub mod book;
mod cell;
mod count;
mod entry;
pub mod facts;
mod install;
mod scene;
mod setup;

use std::fmt::{self, Display, Formatter};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use cell::{Cell, Ended, MOMENTS, Outcome};
pub use count::Left;
pub use entry::Entry;

/// A program that people run agents in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// OpenAI's.
    Codex,
    /// Anthropic's.
    ClaudeCode,
    /// The one of opencode.ai.
    #[value(name = "opencode")]
    #[serde(rename = "opencode")]
    OpenCode,
    /// Google's.
    Gemini,
    /// The one of openclaw.ai.
    #[value(name = "openclaw")]
    #[serde(rename = "openclaw")]
    OpenClaw,
}

/// How a host reaches its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It starts the server's own command.
    Plain,
    /// It starts the server through `ostler run`.
    Run,
    /// It starts `ostler connect`.
    Connect,
    /// It connects to `ostler serve --listen`.
    Http,
}

/// How a host comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Its task is done, and it exits.
    Exit,
    /// SIGTERM in the middle of a turn.
    Term,
    /// SIGKILL in the middle of a turn.
    Kill,
    /// Its terminal is closed in the middle of a turn.
    HangUp,
}

/// Which configuration a host gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Only the server, as a user without knowledge of quirks would write it.
    Default,
    /// With the settings that make the host wait for its servers, as docs/hosts.md recommends.
    Recommended,
}

impl Host {
    /// All values, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Codex, Self::ClaudeCode, Self::OpenCode, Self::Gemini, Self::OpenClaw];

    /// The name that people know it by.
    pub fn title(self) -> &'static str {
        match self {
            Self::Codex => "Codex",
            Self::ClaudeCode => "Claude Code",
            Self::OpenCode => "OpenCode",
            Self::Gemini => "Gemini CLI",
            Self::OpenClaw => "OpenClaw",
        }
    }
}

impl Way {
    /// All values, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Run, Self::Connect, Self::Http];
}

impl End {
    /// All values, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Exit, Self::Term, Self::Kill, Self::HangUp];
}

impl Display for Host {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        name(self, f)
    }
}

/// As it is written on a command line.
fn name(value: &impl ValueEnum, f: &mut Formatter<'_>) -> fmt::Result {
    let value = value.to_possible_value().expect("no value is hidden");
    f.write_str(value.get_name())
}
