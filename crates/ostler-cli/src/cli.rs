//! The command line: all commands, and the groups in which `ostler --help` shows them.
//!
//! clap can't group subcommands, so the help template of the top level is made from [`GROUPS`] and the descriptions of the
//! commands. A new command needs a place in one of the groups; a test fails without.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::add::AddArguments;
use crate::commands::call::CallArguments;
use crate::commands::check::CheckArguments;
use crate::commands::clients::ClientsArguments;
use crate::commands::connect::ConnectArguments;
use crate::commands::doctor::DoctorArguments;
use crate::commands::down::DownArguments;
use crate::commands::events::EventsArguments;
use crate::commands::example_server::ExampleServerArguments;
use crate::commands::import::ImportArguments;
use crate::commands::link::LinkArguments;
use crate::commands::login::{LoginArguments, LogoutArguments};
use crate::commands::logs::LogsArguments;
use crate::commands::ps::PsArguments;
use crate::commands::reap::ReapArguments;
use crate::commands::reload::ReloadArguments;
use crate::commands::remove::RemoveArguments;
use crate::commands::restart::RestartArguments;
use crate::commands::run::RunArguments;
use crate::commands::serve::ServeArguments;
use crate::commands::service::ServiceArguments;
use crate::commands::sessions::SessionsArguments;
use crate::commands::status::StatusArguments;
use crate::commands::stop::StopArguments;
use crate::commands::tools::ToolsArguments;
use crate::commands::top::TopArguments;
use crate::commands::unlink::UnlinkArguments;
use crate::commands::warm::WarmArguments;
use crate::commands::why::WhyArguments;

/// Lines of help are wrapped here on wider terminals.
const WIDEST: usize = 100;

/// The commands by purpose, in the order of `ostler --help`.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Start servers", &["run", "serve", "connect", "warm"]),
    ("See what runs", &["ps", "top", "status", "sessions", "logs", "events", "why"]),
    ("Use tools", &["tools", "call"]),
    ("Stop and clean up", &["stop", "restart", "reload", "down", "doctor", "reap"]),
    (
        "Configure",
        &[
            "clients", "import", "link", "unlink", "add", "remove", "check", "schema", "login",
            "logout",
        ],
    ),
    ("Learn and install", &["demo", "service", "completions", "man"]),
];

/// Start and share MCP servers so that nothing they cause outlives them
#[derive(Debug, Parser)]
#[command(name = "ostler", version, long_version = env!("OSTLER_VERSION"), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches()?)
}

/// The command line with its grouped help.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command().max_term_width(WIDEST);
    let template = template(&command);
    command.help_template(template)
}

fn template(command: &clap::Command) -> StyledStr {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) = (subcommand.get_name(), subcommand.get_about());
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<11}{literal:#}  {about}");
        }
    }
    text.push_str("\nOptions and examples: `ostler COMMAND --help`. Version: `ostler --version`");
    text.into()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one server; everything it causes ends with its client
    Run(RunArguments),
    /// Run the gateway: one pool of servers for all clients
    Serve(ServeArguments),
    /// Connect a client to the gateway, and start one if none runs
    Connect(ConnectArguments),
    /// Be the server that a gateway without a configuration offers
    #[command(hide = true)]
    ExampleServer(ExampleServerArguments),
    /// Start each server once, so that listing its tools needs no start
    Warm(WarmArguments),
    /// List the tools of servers; starts nothing
    Tools(ToolsArguments),
    /// Call a tool of a server, and show its result
    Call(CallArguments),
    /// List running servers with their processes, memory and clients
    Ps(PsArguments),
    /// Show running servers live, and stop or restart them
    Top(TopArguments),
    /// Show gateways and all configured servers
    Status(StatusArguments),
    /// Explain which server caused a process or container
    Why(WhyArguments),
    /// Stop servers, and wait until nothing of them is left
    Stop(StopArguments),
    /// Stop all instances of a server; the next call starts a new one
    Restart(RestartArguments),
    /// Have the gateway reread its configuration
    Reload(ReloadArguments),
    /// Stop the gateway and all its servers
    Down(DownArguments),
    /// List connected clients and the servers they hold
    Sessions(SessionsArguments),
    /// Show what a server wrote to stderr
    Logs(LogsArguments),
    /// Show what the gateway did, and why servers failed
    Events(EventsArguments),
    /// Audit this machine, and find what other hosts left behind
    Doctor(DoctorArguments),
    /// Find what was left behind, and end it
    Reap(ReapArguments),
    /// Run the gateway as a service of systemd
    Service(ServiceArguments),
    /// List MCP clients on this machine, and whether they use ostler
    Clients(ClientsArguments),
    /// Take servers over from clients into ostler.json
    Import(ImportArguments),
    /// Put ostler into a client's configuration
    Link(LinkArguments),
    /// Take ostler out of a client's configuration
    Unlink(UnlinkArguments),
    /// Add a server to ostler.json
    Add(AddArguments),
    /// Remove a server from ostler.json
    Remove(RemoveArguments),
    /// Check the configuration, and show what would run
    Check(CheckArguments),
    /// Log in to a remote server
    Login(LoginArguments),
    /// Log out of a remote server
    Logout(LogoutArguments),
    /// Print the JSON Schema of the configuration
    #[command(
        after_help = "In ostler.json: \"$schema\": \"./ostler.schema.json\"\n\nExample:\n  ostler schema > ostler.schema.json"
    )]
    Schema,
    /// Show what is left of servers with and without ostler
    #[command(after_help = "Example:\n  ostler demo")]
    Demo,
    /// Print a completion script for your shell
    #[command(
        after_help = "Example:\n  ostler completions bash > ~/.local/share/bash-completion/completions/ostler"
    )]
    Completions {
        /// Shell that will read it
        shell: Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  ostler man > ~/.local/share/man/man1/ostler.1")]
    Man,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }
}
