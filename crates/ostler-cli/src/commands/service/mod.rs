//! `ostler service`: the gateway as a service of systemd's user manager.
//!
//! Two units: the socket, on which the manager listens from the login on, and the service, which it starts when the first client
//! connects. `units` writes them, `manager` talks to systemd.

mod install;
mod manager;
mod status;
mod units;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use ostler_clients::{Document, FileError, Machine, NoHome};

use crate::exit;
use crate::out::{chain, say};
use install::{InstallArguments, UninstallError};
use status::StatusArguments;
use units::MARK;

#[derive(Debug, Args)]
#[command(after_help = "\
The service belongs to systemd's user manager and needs no root. systemd listens on the gateway's socket from your login on, and starts the gateway when the first client connects. `journalctl --user -u ostler` shows its log. Without a service `ostler connect` starts a gateway in the background, which serves the same clients.

The manager ends with your last session; `loginctl enable-linger` keeps it.

Examples:
  ostler service install
  ostler service install --config ~/team.json --listen
  ostler service status
  ostler service uninstall")]
pub(crate) struct ServiceArguments {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Write the units, and have systemd listen for clients
    Install(InstallArguments),
    /// Show whether the service is installed, and what it does
    Status(StatusArguments),
    /// Stop the service, and remove its units
    Uninstall,
}

pub(crate) fn run(arguments: &ServiceArguments) -> ExitCode {
    match &arguments.command {
        ServiceCommand::Install(arguments) => done(install::install(arguments), |_| exit::FAILED),
        ServiceCommand::Status(arguments) => status::run(arguments),
        ServiceCommand::Uninstall => done(install::uninstall(), |error| match error {
            UninstallError::NotInstalled => exit::NOT_FOUND,
            _ => exit::FAILED,
        }),
    }
}

fn done<E: std::error::Error>(result: Result<(), E>, code: impl Fn(&E) -> u8) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(chain(&error));
            code(&error).into()
        }
    }
}

/// The file of a unit.
fn file(machine: &Machine, unit: &str) -> Result<Document, FileError> {
    Document::read(&directory(machine).join(unit))
}

/// Directory of the user's own units.
fn directory(machine: &Machine) -> PathBuf {
    machine.config().join("systemd/user")
}

/// Whether ostler wrote the file.
fn is_ours(file: &Document) -> bool {
    file.text().starts_with(MARK)
}

fn machine() -> Result<Machine, NoHome> {
    // No unit depends on the working directory.
    Machine::of_process(PathBuf::from("/"))
}
