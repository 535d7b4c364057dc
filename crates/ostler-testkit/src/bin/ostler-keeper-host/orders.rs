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
    /// Close a session, and wait until what was its own has gone
    Close { session: String },
    /// End an agent, likewise
    EndAgent { agent: String },
    /// Call a tool, which repeats what it was told
    Call {
        session: String,
        server: String,
        /// So many times, one after the other
        #[arg(long, default_value_t = 1)]
        times: usize,
        /// By this many callers at once
        #[arg(long, default_value_t = 1)]
        callers: usize,
        /// What the tool is told, as JSON
        #[arg(long, default_value = "{}")]
        arguments: String,
        /// How much it is told beside that, in bytes
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
    /// List the tools of a server and forget about it
    Probe {
        server: String,
        /// Ask only those that run already, in this session
        #[arg(long)]
        running: Option<String>,
    },
    /// Take over a configuration, and wait until what it ends has gone
    Replace { json: Vec<String> },
    /// End a server, and wait until it has gone
    Stop { server: String },
    /// All that the keeper has
    Snapshot,
    /// The books, and how many notifications were heard
    Books,
    /// What the keeper did since this was asked last
    Events,
    /// On whose behalf a process exists
    Why { pid: i32 },
    /// End all, and say what the books say then
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
    /// Do this while other commands are obeyed
    Later {
        tag: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Wait for what was begun like that
    Result { tag: String },
    /// Give it up
    Cancel { tag: String },
}

impl Order {
    pub(crate) fn parse_line(line: &str) -> Result<Self, String> {
        Self::try_parse_from(line.split_ascii_whitespace()).map_err(|error| error.to_string())
    }
}
