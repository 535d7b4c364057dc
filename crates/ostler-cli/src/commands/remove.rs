//! `ostler remove`: removes a server from ostler.json.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ostler_clients::ConfigurationError;
use ostler_gateway::config::Asker;
use serde::Serialize;

use crate::adopt::{self, AdoptError};
use crate::out::{chain, say};
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Removes the entry and leaves everything else in the file as it is. A gateway that runs stops the server after its calls in flight. Entries of clients that connect to it stay: `ostler unlink` brings back what they were.

The configuration is the first of: --config, OSTLER_CONFIG, ./ostler.json, and ostler/ostler.json in the XDG config home (~/.config).

Exit status: 3 if there is no such server.

Examples:
  ostler remove files
  ostler remove files --config ~/team.json")]
pub(crate) struct RemoveArguments {
    /// Name of the server
    name: String,
    #[arg(help = "Edit this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    name: &'a str,
    config: PathBuf,
}

pub(crate) fn run(arguments: &RemoveArguments) -> ExitCode {
    let name = arguments.name.as_str();
    match remove(name, arguments.config.as_deref()) {
        Ok(config) if arguments.json => out::json(&Removed { name, config }),
        Ok(config) => out::print_line(format_args!("{name} was removed from {}", config.display())),
        Err(error) => {
            say(chain(&error));
            let is_missing =
                matches!(error, AdoptError::Configuration(ConfigurationError::Missing { .. }));
            if is_missing { exit::NOT_FOUND } else { exit::FAILED }.into()
        }
    }
}

fn remove(name: &str, config: Option<&Path>) -> Result<PathBuf, AdoptError> {
    let machine = adopt::machine()?;
    let mut configuration = adopt::open(&machine, config, Asker::Person)?;
    configuration.remove(name)?;
    adopt::save(&configuration)?;
    Ok(configuration.document().path().to_owned())
}
