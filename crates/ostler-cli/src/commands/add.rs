//! `ostler add`: adds a server to ostler.json.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use ostler_clients::{Server, advice};
use ostler_gateway::config::Asker;
use serde::Serialize;

use crate::adopt::{self, AdoptError};
use crate::out::{chain, say};
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
Writes the entry and leaves everything else in the file as it is. `${NAME}` in a value is a variable, which ostler fills in for each client; quote it for your shell. A gateway that runs notices the new server.

The configuration is the first of: --config, OSTLER_CONFIG, ./ostler.json, and ostler/ostler.json in the XDG config home (~/.config), which is created, readable only by you.

Examples:
  ostler add files -- npx -y @modelcontextprotocol/server-filesystem /srv
  ostler add github --env 'TOKEN=${GITHUB_TOKEN}' -- docker run -i -e TOKEN image
  ostler add search --url https://example.com/mcp --header 'X-Key: ${KEY}'")]
#[command(
    override_usage = "ostler add [OPTIONS] <NAME> -- <COMMAND>...\n       ostler add [OPTIONS] <NAME> --url <URL>"
)]
#[command(group(ArgGroup::new("target").required(true).args(["url", "command"])))]
pub(crate) struct AddArguments {
    /// Name of the server
    name: String,
    /// Give it this variable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Reach a remote server, instead of running a command
    #[arg(long, conflicts_with = "env")]
    url: Option<String>,
    /// Send this header to it
    #[arg(long, value_name = "NAME: VALUE", value_parser = header, requires = "url")]
    header: Vec<(String, String)>,
    #[arg(help = "Edit this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Its command and arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Added {
    name: String,
    config: PathBuf,
    suggestions: Vec<Suggestion>,
}

/// A key that suits a server.
#[derive(Debug, Serialize)]
pub(crate) struct Suggestion {
    pub(crate) setting: &'static str,
    pub(crate) reason: &'static str,
}

pub(crate) fn run(arguments: AddArguments) -> ExitCode {
    let json = arguments.json;
    match add(arguments) {
        Ok(added) if json => out::json(&added),
        Ok(added) => {
            let Added { name, config, suggestions } = added;
            for Suggestion { setting, reason } in suggestions {
                say(format_args!("consider {setting} for {name}: {reason}"));
            }
            out::print_line(format_args!("{name} is in {}", config.display()))
        }
        Err(error) => {
            say(chain(&error));
            exit::FAILED.into()
        }
    }
}

fn add(arguments: AddArguments) -> Result<Added, AdoptError> {
    let AddArguments { name, env, url, header, config, command, .. } = arguments;
    let server = match url {
        Some(url) => Server::remote(url, header.into_iter().collect::<BTreeMap<_, _>>()),
        None => Server::process(command, env.into_iter().collect()),
    };
    let machine = adopt::machine()?;
    let mut configuration = adopt::open(&machine, config.as_deref(), Asker::Person)?;
    configuration.add(&name, &server)?;
    let path = configuration.document().path().to_owned();
    adopt::save(&configuration)?;
    Ok(Added { name, config: path, suggestions: suggestions(&server) })
}

pub(crate) fn suggestions(server: &Server) -> Vec<Suggestion> {
    let suggestion =
        |it: ostler_clients::Advice| Suggestion { setting: it.setting, reason: it.reason };
    advice(server).into_iter().map(suggestion).collect()
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() { Err("there is no name") } else { Ok((name.to_owned(), value.to_owned())) }
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once(':').ok_or("write 'NAME: VALUE'")?;
    if name.is_empty() {
        Err("there is no name")
    } else {
        Ok((name.to_owned(), value.trim().to_owned()))
    }
}
