//! The switches.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use rustix::process::Signal;

/// A stub MCP server with switches for every bad habit.
#[derive(Debug, Parser)]
#[command(name = "ostler-stub", args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Mode {
    /// A descendant: sets itself up, says so on descriptor 0 and waits to be killed
    #[command(hide = true)]
    Idle(IdleArgs),
    /// Runs a program below an adoptive parent that reaps at once
    Reap(ReapArgs),
}

/// How `initialize` is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Answer {
    /// As it should be
    Ok,
    /// Not at all
    Never,
    /// After --slow-ms
    Slow,
    /// With a protocol version that does not exist
    Wrong,
    /// With a line that is not JSON
    Garbage,
    /// With progress notifications, for ever
    Progress,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is one switch of the command line")]
pub(crate) struct ServerArgs {
    /// Append the pid of the server and of each descendant that stays
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// Create this file when everything is set up and all descendants are up
    #[arg(long, value_name = "FILE")]
    pub(crate) ready: Option<PathBuf>,
    /// Write the descriptors that were open at the start, one "number target" per line
    #[arg(long, value_name = "FILE")]
    pub(crate) list_fds: Option<PathBuf>,
    /// Write argv, cwd, environment, ids, signal masks and umask as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
    /// Append the pid at each initialize
    #[arg(long, value_name = "FILE")]
    pub(crate) init_log: Option<PathBuf>,
    /// Append each line that comes on stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) transcript: Option<PathBuf>,
    /// Append the pid, and to FILE.alive how many of the pids in FILE are alive; the maximum is reached at some start
    #[arg(long, value_name = "FILE")]
    pub(crate) census: Option<PathBuf>,
    /// Hold an exclusive flock; exit with 3 if it is taken
    #[arg(long, value_name = "FILE")]
    pub(crate) lock: Option<PathBuf>,

    /// Live on when stdin ends
    #[arg(long)]
    pub(crate) ignore_eof: bool,
    /// Spin in a busy loop when stdin ends
    #[arg(long)]
    pub(crate) spin_on_eof: bool,
    /// Survive SIGTERM
    #[arg(long)]
    pub(crate) ignore_term: bool,
    /// Never read stdin
    #[arg(long)]
    pub(crate) never_read: bool,
    /// Write to stdout without a newline until killed
    #[arg(long)]
    pub(crate) endless_line: bool,
    /// Write that many bytes to stderr before initialize is answered
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) stderr_bytes: u64,
    /// How to answer initialize
    #[arg(long, value_enum, default_value_t = Answer::Ok)]
    pub(crate) answer: Answer,
    /// The delay of --answer slow
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub(crate) slow_ms: u64,

    /// Never answer tools/list
    #[arg(long)]
    pub(crate) never_list: bool,
    /// Send the notification of changed tools once initialize was answered
    #[arg(long)]
    pub(crate) list_changed: bool,
    /// Exit once initialize was answered
    #[arg(long)]
    pub(crate) exit_after_init: bool,
    /// Exit instead of answering an initialize that holds this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) exit_on_hello: Option<String>,
    /// Answer an initialize that holds this text with an error
    #[arg(long, value_name = "TEXT")]
    pub(crate) refuse_hello: Option<String>,
    /// Exit instead of answering the Nth tools/call
    #[arg(long, value_name = "N")]
    pub(crate) exit_on_call: Option<u64>,
    /// Exit as soon as the descendants are up
    #[arg(long)]
    pub(crate) exit_at_once: bool,
    /// The status of every voluntary exit
    #[arg(long, value_name = "C", default_value_t = 0)]
    pub(crate) exit_code: u8,
    /// Die by this signal (name or number) after the start
    #[arg(long, value_name = "SIGNAL", value_parser = parse_signal)]
    pub(crate) kill_self: Option<Signal>,
    /// Stop itself by SIGSTOP after the start
    #[arg(long)]
    pub(crate) stop_self: bool,
    /// SIGKILL its parent, if that belongs to a sandbox
    #[arg(long)]
    pub(crate) kill_parent: bool,
    /// SIGKILL its process group, if all of it belongs to a sandbox
    #[arg(long)]
    pub(crate) kill_group: bool,
    /// SIGKILL everything that it may signal; refused for root and in the initial pid namespace
    #[arg(long)]
    pub(crate) kill_all: bool,
    /// The inode of the test's own pid namespace, for --kill-all
    #[arg(long, value_name = "INODE")]
    pub(crate) host_pidns: Option<u64>,

    /// Touch that much memory after the start, and keep it
    #[arg(long, value_name = "MB")]
    pub(crate) eat_memory: Option<usize>,
    /// Start that many children after the start, as far as the kernel lets it, and write how many there are
    #[arg(long, value_name = "N", requires = "pid_file")]
    pub(crate) fork_bomb: Option<u32>,

    /// A child in the same process group
    #[arg(long)]
    pub(crate) child: bool,
    /// A child in a session of its own
    #[arg(long)]
    pub(crate) setsid_child: bool,
    /// A daemon by double fork and setsid
    #[arg(long)]
    pub(crate) double_fork: bool,
    /// That many daemons by double fork and setsid
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) daemons: u32,
    /// A daemon that changes its pid every N ms; 0 is continuously
    #[arg(long, value_name = "N")]
    pub(crate) hop_ms: Option<u64>,
    /// A child in a session of its own that keeps stdout open
    #[arg(long)]
    pub(crate) hold_stdout: bool,
    /// Another stub in a new process group with a child, a setsid child and a daemon of its own
    #[arg(long)]
    pub(crate) nested: bool,
    /// Leave that many zombie children
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) zombies: u32,
    /// Leave that many orphans that die --orphan-ms later, so that the adoptive parent must reap them
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) orphan_zombies: u32,
    /// How long the orphans of --orphan-zombies live
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub(crate) orphan_ms: u64,
    /// Start the descendants with an empty environment
    #[arg(long)]
    pub(crate) empty_env: bool,
    /// The descendants survive SIGTERM
    #[arg(long)]
    pub(crate) descendants_ignore_term: bool,

    /// Become the leader of a session of its own
    #[arg(long)]
    pub(crate) new_session: bool,
    /// Every process of the stub ends itself after that many seconds, so that a killed test leaves nothing for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub(crate) lifetime: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct IdleArgs {
    #[arg(long)]
    pub(crate) pid_file: Option<PathBuf>,
    #[arg(long)]
    pub(crate) ignore_term: bool,
    #[arg(long)]
    pub(crate) setsid: bool,
    /// Start the real one in a new session and exit.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Up only once this process is no longer the parent.
    #[arg(long)]
    pub(crate) orphan_of: Option<u32>,
    #[arg(long)]
    pub(crate) hop_ms: Option<u64>,
    #[arg(long)]
    pub(crate) die_after_ms: Option<u64>,
    #[arg(long)]
    pub(crate) lifetime: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ReapArgs {
    /// Ends itself after that many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub(crate) lifetime: u32,
    /// The program and its arguments
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

fn parse_signal(text: &str) -> Result<Signal, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let signal = match name {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "ABRT" => Signal::ABORT,
        "KILL" => Signal::KILL,
        "SEGV" => Signal::SEGV,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        number => {
            let raw = number.parse().map_err(|_| format!("unknown signal {text}"))?;
            Signal::from_named_raw(raw).ok_or_else(|| format!("no signal {raw}"))?
        }
    };
    Ok(signal)
}
