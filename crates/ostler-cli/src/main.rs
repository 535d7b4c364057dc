//! The command line of ostler.

mod cli;
mod commands;
mod duration;
mod exit;
mod say;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    ostler::guardian::run_if_asked();
    match Cli::parse().command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Demo => commands::demo::run(),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Man => commands::man::run(),
    }
}
