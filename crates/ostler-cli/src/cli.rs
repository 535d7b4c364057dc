//! What can be said on the command line.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::check::CheckArguments;
use crate::commands::connect::ConnectArguments;
use crate::commands::doctor::DoctorArguments;
use crate::commands::down::DownArguments;
use crate::commands::events::EventsArguments;
use crate::commands::example_server::ExampleServerArguments;
use crate::commands::login::{LoginArguments, LogoutArguments};
use crate::commands::ps::PsArguments;
use crate::commands::reap::ReapArguments;
use crate::commands::reload::ReloadArguments;
use crate::commands::restart::RestartArguments;
use crate::commands::run::RunArguments;
use crate::commands::serve::ServeArguments;
use crate::commands::sessions::SessionsArguments;
use crate::commands::status::StatusArguments;
use crate::commands::stop::StopArguments;
use crate::commands::warm::WarmArguments;
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
    /// Serve many clients with one pool of servers, in the foreground
    Serve(ServeArguments),
    /// Connect a client to the gateway, which is started if none runs
    Connect(ConnectArguments),
    /// The server that a gateway without a configuration offers
    #[command(hide = true)]
    ExampleServer(ExampleServerArguments),
    /// Have every server list what it offers, before a client waits for it
    Warm(WarmArguments),
    /// List the servers that run, with what they use and whose they are
    Ps(PsArguments),
    /// Show gateways, their servers (also those that do not run), and where everything is
    Status(StatusArguments),
    /// Say on whose behalf a process or a container exists
    Why(WhyArguments),
    /// Stop servers, with proof
    Stop(StopArguments),
    /// End all instances of a server, so that the next call starts it anew
    Restart(RestartArguments),
    /// Have the gateway read its configuration again
    Reload(ReloadArguments),
    /// End the gateway with all its servers, with proof
    Down(DownArguments),
    /// List the clients of the gateway, and what they hold
    Sessions(SessionsArguments),
    /// Tell what the gateway did lately, and why
    Events(EventsArguments),
    /// Audit this machine: what ostler can do here, and what other hosts have left
    Doctor(DoctorArguments),
    /// Find what was left behind, and end it
    Reap(ReapArguments),
    /// Say what is wrong with the configuration, or what would run
    Check(CheckArguments),
    /// Log in to a server that somebody else runs
    Login(LoginArguments),
    /// Give such a login back and forget it
    Logout(LogoutArguments),
    /// Print the JSON Schema of the configuration, for editors
    #[command(
        after_help = "Example:\n  ostler schema > ostler.schema.json\n\nThen, in ostler.json: \"$schema\": \"./ostler.schema.json\""
    )]
    Schema,
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
