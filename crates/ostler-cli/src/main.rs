//! The command line of ostler.

mod cli;
mod commands;
mod exit;
mod gateways;
mod render;
mod requests;
mod say;
mod states;
mod sweep;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    ostler::guardian::run_if_asked();
    match Cli::parse().command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Serve(arguments) => commands::serve::run(&arguments),
        Command::Connect(arguments) => commands::connect::run(&arguments),
        Command::ExampleServer => commands::example_server::run(),
        Command::Ps(arguments) => commands::ps::run(&arguments),
        Command::Why(arguments) => commands::why::run(&arguments),
        Command::Stop(arguments) => commands::stop::run(&arguments),
        Command::Restart(arguments) => commands::restart::run(&arguments),
        Command::Reload(arguments) => commands::reload::run(&arguments),
        Command::Down(arguments) => commands::down::run(&arguments),
        Command::Sessions(arguments) => commands::sessions::run(&arguments),
        Command::Events(arguments) => commands::events::run(&arguments),
        Command::Reap(arguments) => commands::reap::run(&arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Login(arguments) => commands::login::run(&arguments),
        Command::Logout(arguments) => commands::login::run_out(&arguments),
        Command::Schema => commands::schema::run(),
        Command::Demo => commands::demo::run(),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man => commands::man::run(),
    }
}
