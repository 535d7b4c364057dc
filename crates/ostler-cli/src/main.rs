//! The program `ostler`: parses the command line and calls one function per command.
//!
//! The same program is the guardian of every server it starts; `run_if_asked` takes over before any thread exists.

mod adopt;
mod backends;
mod cli;
mod commands;
mod doctor;
mod exit;
mod gateways;
mod json_text;
mod mcp;
mod offers;
mod out;
mod page;
mod parents;
mod render;
mod requests;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod resolver;
mod states;
mod sweep;

use std::process::ExitCode;

use ostler::visible::is_hidden;

use cli::Command;

fn main() -> ExitCode {
    ostler::guardian::run_if_asked();
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    resolver::use_linked_services();
    if std::env::args_os().len() == 1 && out::is_terminal() {
        return commands::welcome::run();
    }
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    match cli.command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Connect(arguments) => commands::connect::run(&arguments),
        Command::ExampleServer(arguments) => commands::example_server::run(arguments),
        Command::Warm(arguments) => commands::warm::run(&arguments),
        Command::Call(arguments) => commands::call::run(&arguments),
        Command::Tools(arguments) => commands::tools::run(&arguments),
        Command::Ps(arguments) => commands::ps::run(&arguments),
        Command::Top(arguments) => commands::top::run(&arguments),
        Command::Status(arguments) => commands::status::run(&arguments),
        Command::Why(arguments) => commands::why::run(&arguments),
        Command::Stop(arguments) => commands::stop::run(&arguments),
        Command::Restart(arguments) => commands::restart::run(&arguments),
        Command::Reload(arguments) => commands::reload::run(&arguments),
        Command::Down(arguments) => commands::down::run(&arguments),
        Command::Sessions(arguments) => commands::sessions::run(&arguments),
        Command::Logs(arguments) => commands::logs::run(&arguments),
        Command::Events(arguments) => commands::events::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Reap(arguments) => commands::reap::run(&arguments),
        Command::Service(arguments) => commands::service::run(&arguments),
        Command::Clients(arguments) => commands::clients::run(&arguments),
        Command::Import(arguments) => commands::import::run(&arguments),
        Command::Link(arguments) => commands::link::run(&arguments),
        Command::Unlink(arguments) => commands::unlink::run(&arguments),
        Command::Add(arguments) => commands::add::run(arguments),
        Command::Remove(arguments) => commands::remove::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Login(arguments) => commands::login::run(&arguments),
        Command::Logout(arguments) => commands::login::run_out(&arguments),
        Command::Schema => commands::schema::run(),
        Command::Demo => commands::demo::run(),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man => commands::man::run(),
    }
}

/// Prints help or a usage error. A usage error quotes the arguments, so clap prints it, in colour, only if they contain no
/// hidden characters.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let is_plain = |argument: std::ffi::OsString| !argument.to_string_lossy().contains(is_hidden);
    if std::env::args_os().all(is_plain) {
        // A closed stdout or stderr is no failure.
        let _ = error.print();
    } else {
        out::say_bare(error);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::FAILED))
}
