//! What can be said on the command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::ps::PsArguments;
use crate::commands::reap::ReapArguments;
use crate::commands::run::RunArguments;
use crate::commands::stop::StopArguments;
use crate::commands::why::WhyArguments;

/// Starts MCP servers so that nothing they cause outlives them
#[derive(Debug, Parser)]
#[command(name = "ostler", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one server inside a fence: it and all that it causes end with its client
    Run(RunArguments),
    /// List the servers that run, with what they use and whose they are
    Ps(PsArguments),
    /// Say on whose behalf a process or a container exists
    Why(WhyArguments),
    /// Stop servers, with proof
    Stop(StopArguments),
    /// Find what dead owners have left, and end it
    Reap(ReapArguments),
    /// Show on this machine how rude servers are left behind, and how they are not
    #[command(after_help = "Example:\n  ostler demo")]
    Demo,
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  ostler completions bash > ~/.local/share/bash-completion/completions/ostler"
    )]
    Completions {
        /// The shell that will read it
        shell: Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  ostler man > ~/.local/share/man/man1/ostler.1")]
    Man,
}
