//! The commands.

use clap::Parser;

/// One line of stdin.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true)]
pub(crate) enum Order {
    /// Open a session, of an agent or by itself
    Session {
        name: String,
        #[arg(long)]
        agent: Option<String>,
        /// Of this principal instead of the default one
        #[arg(long)]
        principal: Option<String>,
    },
    /// Close a session, and wait until its instances are gone
    Close { session: String },
    /// End an agent, likewise
    EndAgent { agent: String },
    /// Call a tool, which returns its arguments
    Call {
        session: String,
        server: String,
        /// Number of calls, one after the other
        #[arg(long, default_value_t = 1)]
        times: usize,
        /// By this many callers at once
        #[arg(long, default_value_t = 1)]
        callers: usize,
        /// Arguments of the tool, as JSON
        #[arg(long, default_value = "{}")]
        arguments: String,
        /// Size of additional arguments, in bytes
        #[arg(long, default_value_t = 0)]
        bulk: usize,
    },
    /// Take a lease and give it back
    Acquire { session: String, server: String },
    /// Take a lease and keep this many clones of it, each in a detached task
    Keep { session: String, server: String, clones: usize },
    /// Call through every lease that is kept
    Clones,
    /// Use a server without a call
    Hold { session: String, server: String },
    /// End all such uses
    Release,
    /// List the tools of a server, and drop the session
    Probe {
        server: String,
        /// Use only instances that run already, in this session
        #[arg(long)]
        running: Option<String>,
    },
    /// Apply a configuration, and wait until the instances that it ends are gone
    Replace { json: Vec<String> },
    /// End a server, and wait until it has gone
    Stop { server: String },
    /// Print the keeper's snapshot
    Snapshot,
    /// Print the books and the number of received notifications
    Books,
    /// Print the keeper's events since the last `events`
    Events,
    /// Print the instance and the callers of a process
    Why { pid: i32 },
    /// Shut the keeper down, and print the books
    Shutdown,
    /// Drop the keeper
    Drop,
    /// Panic in the task that has the keeper
    Panic,
    /// End this process without cleaning up
    Exit,
    /// The same by SIGABRT
    Abort,
    /// Let time pass, in microseconds
    Pause { us: u64 },
    /// Execute this in the background
    Later {
        tag: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Wait for a command in the background
    Result { tag: String },
    /// Cancel a command in the background
    Cancel { tag: String },
}

impl Order {
    pub(crate) fn parse_line(line: &str) -> Result<Self, String> {
        Self::try_parse_from(line.split_ascii_whitespace()).map_err(|error| error.to_string())
    }
}
