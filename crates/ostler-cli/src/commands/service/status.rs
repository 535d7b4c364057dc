//! Shows the service.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::manager::{self, ManagerError};
use super::units::{SERVICE, SOCKET};
use super::{file, is_ours, machine};
use crate::out::{chain, say};
use crate::page::Page;
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 1 if the service has failed or systemd does not answer, 3 if it is not installed.")]
pub(super) struct StatusArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Status {
    /// Whether `ostler service install` wrote the units.
    installed: bool,
    /// The service's file.
    unit: PathBuf,
    /// State of the socket, in systemd's words: `active` if it listens.
    socket: Option<String>,
    /// State of the gateway, in systemd's words: `inactive` until the first client.
    service: Option<String>,
    /// Process of the gateway.
    pid: Option<u32>,
    /// Why systemd gives no answer.
    error: Option<String>,
}

pub(super) fn run(arguments: &StatusArguments) -> ExitCode {
    let file = match machine()
        .map_err(|error| chain(&error))
        .and_then(|machine| file(&machine, SERVICE).map_err(|error| chain(&error)))
    {
        Ok(file) => file,
        Err(error) => {
            say(error);
            return exit::FAILED.into();
        }
    };
    let mut status = Status {
        installed: is_ours(&file),
        unit: file.path().to_owned(),
        socket: None,
        service: None,
        pid: None,
        error: None,
    };
    if status.installed
        && let Err(error) = status.ask()
    {
        status.error = Some(chain(&error));
    }
    let printed = if arguments.json { out::json(&status) } else { out::print(&status.page()) };
    match status.code() {
        Some(code) => code.into(),
        None => printed,
    }
}

impl Status {
    /// Asks the manager for the states.
    fn ask(&mut self) -> Result<(), ManagerError> {
        manager::reach()?;
        let mut socket = manager::properties(SOCKET, &["ActiveState"])?;
        let mut service = manager::properties(SERVICE, &["ActiveState", "MainPID"])?;
        self.socket = socket.remove("ActiveState");
        self.service = service.remove("ActiveState");
        let pid = service.remove("MainPID").and_then(|pid| pid.parse().ok());
        self.pid = pid.filter(|pid| *pid != 0);
        Ok(())
    }

    fn code(&self) -> Option<u8> {
        let has_failed =
            [&self.socket, &self.service].iter().any(|state| state.as_deref() == Some("failed"));
        match self {
            Self { installed: false, .. } => Some(exit::NOT_FOUND),
            Self { error: Some(_), .. } => Some(exit::FAILED),
            _ if has_failed => Some(exit::FAILED),
            _ => None,
        }
    }

    fn page(&self) -> Page {
        let mut page = Page::new();
        if !self.installed {
            page.line("not installed; `ostler service install` installs it");
            return page;
        }
        page.line(format_args!("unit     {}", self.unit.display()));
        page.line(format_args!("socket   {}", self.socket.as_deref().unwrap_or("unknown")));
        let pid = self.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        page.line(format_args!("gateway  {}{pid}", self.service.as_deref().unwrap_or("unknown")));
        if let Some(error) = &self.error {
            page.line(format_args!("error    {error}"));
        }
        page
    }
}
