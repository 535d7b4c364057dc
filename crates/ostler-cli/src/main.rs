//! The command line of ostler.

mod cli;
mod commands;
mod duration;
mod exit;
mod render;
mod say;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    ostler::guardian::run_if_asked();
    match Cli::parse().command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Ps(arguments) => commands::ps::run(&arguments),
        Command::Why(arguments) => commands::why::run(&arguments),
        Command::Stop(arguments) => commands::stop::run(&arguments),
        Command::Reap(arguments) => commands::reap::run(&arguments),
        Command::Demo => commands::demo::run(),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man => commands::man::run(),
    }
}
