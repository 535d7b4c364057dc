//! Installs and removes the units.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use ostler_clients::{Document, FileError, Machine, NoHome, NotLasting, lasting};
use ostler_gateway::config::{self, Asker, LoadError, NotFound};
use ostler_gateway::front::{DialError, GatewayConnection, GatewaySocket, SocketError};

use super::manager::{self, ManagerError, systemctl};
use super::units::{SERVICE, SOCKET, Units, Unwritable};
use super::{file, is_ours, machine};
use crate::commands::serve::{USUAL_ADDRESS, parse_address};
use crate::gateways::configuration;
use crate::out::{chain, print_line, say};

#[derive(Debug, Args)]
pub(super) struct InstallArguments {
    #[arg(help = "Serve this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve HTTP as well, from the login on [default: 127.0.0.1:8639]
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = USUAL_ADDRESS,
        value_parser = parse_address
    )]
    listen: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InstallError {
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    NotLasting(#[from] NotLasting),
    #[error("cannot find the program of this process")]
    Program(#[source] io::Error),
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(
        "a gateway already runs at {}; end it with `ostler down`, then install the service", .0.display()
    )]
    Running(PathBuf),
    #[error(
        "--listen takes only addresses of this machine here; for others edit the unit: `systemctl --user edit --full ostler`"
    )]
    BeyondLoopback,
    #[error("{} was not written by ostler; move it away first", .0.display())]
    Foreign(PathBuf),
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum UninstallError {
    #[error("the service is not installed")]
    NotInstalled,
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Manager(#[from] ManagerError),
}

pub(super) fn install(arguments: &InstallArguments) -> Result<(), InstallError> {
    let machine = machine()?;
    if arguments.listen.is_some_and(|address| !address.ip().is_loopback()) {
        return Err(InstallError::BeyondLoopback);
    }
    let running = std::env::current_exe().map_err(InstallError::Program)?;
    let program = lasting(&machine, &running)?;
    let path = configuration(arguments.config.as_deref(), Asker::Client)?;
    if let Some(path) = &path {
        config::load(path)?;
    }
    let socket = GatewaySocket::usual(path.as_deref())?;
    let search_path = std::env::var("PATH").unwrap_or_default();
    let units = Units {
        program: &program,
        configuration: path.as_deref(),
        socket: socket.path(),
        listen: arguments.listen,
        search_path: &search_path,
    };
    let texts = [(SOCKET, units.socket()?), (SERVICE, units.service()?)];
    manager::reach()?;
    let files = [own_file(&machine, SOCKET)?, own_file(&machine, SERVICE)?];
    if !files[0].exists() {
        expect_no_gateway(&socket)?;
    }
    for (file, (_, text)) in files.iter().zip(&texts) {
        file.replace(text)?;
    }
    let started = start(arguments.listen.is_some());
    if started.is_err() {
        take_back(&machine, &files);
    }
    started?;
    tell(&socket, path.as_deref());
    Ok(())
}

/// A gateway that runs outside of the service would remove the manager's socket at its end.
fn expect_no_gateway(socket: &GatewaySocket) -> Result<(), InstallError> {
    match GatewayConnection::to(socket) {
        Err(DialError::NoGateway) => Ok(()),
        _ => Err(InstallError::Running(socket.path().to_owned())),
    }
}

/// The file of a unit, unless another program wrote it.
fn own_file(machine: &Machine, unit: &str) -> Result<Document, InstallError> {
    let file = file(machine, unit)?;
    if file.exists() && !is_ours(&file) {
        return Err(InstallError::Foreign(file.path().to_owned()));
    }
    Ok(file)
}

/// Enables the units. A gateway of an earlier installation ends, so that the next client gets the new one.
fn start(is_at_login: bool) -> Result<(), ManagerError> {
    systemctl(&["daemon-reload"])?;
    systemctl(&["stop", SERVICE, SOCKET])?;
    // Fails for units that have not failed.
    let _ = systemctl(&["reset-failed", SERVICE, SOCKET]);
    if is_at_login {
        systemctl(&["enable", "--now", SERVICE])?;
    } else {
        systemctl(&["disable", SERVICE])?;
        systemctl(&["enable", "--now", SOCKET])?;
    }
    Ok(())
}

/// Undoes an installation that systemd refused.
fn take_back(machine: &Machine, before: &[Document; 2]) {
    for (unit, earlier) in [SOCKET, SERVICE].iter().zip(before) {
        let undo = |now: Document| {
            if earlier.exists() { now.replace(earlier.text()) } else { now.remove() }
        };
        let undone = file(machine, unit).and_then(undo);
        if let Err(error) = undone {
            say(chain(&error));
        }
    }
    let _ = systemctl(&["daemon-reload"]);
}

fn tell(socket: &GatewaySocket, configuration: Option<&Path>) {
    let what = configuration.map_or("an example server".into(), |path| path.display().to_string());
    print_line(format_args!("systemd listens at {}", socket.path().display()));
    print_line(format_args!("the first client starts a gateway for {what}"));
    print_line("log: journalctl --user -u ostler");
}

pub(super) fn uninstall() -> Result<(), UninstallError> {
    let machine = machine()?;
    let files = [file(&machine, SERVICE)?, file(&machine, SOCKET)?];
    let ours: Vec<&Document> = files.iter().filter(|file| is_ours(file)).collect();
    if ours.is_empty() {
        return Err(UninstallError::NotInstalled);
    }
    manager::reach()?;
    systemctl(&["disable", "--now", SERVICE, SOCKET])?;
    for file in ours {
        file.remove()?;
        print_line(format_args!("removed {}", file.path().display()));
    }
    systemctl(&["daemon-reload"])?;
    Ok(())
}
