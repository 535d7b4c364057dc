//! `ostler reload`: has the gateway reread its configuration.

use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{ConfigChange, Reloaded, Reply, Request};

use crate::gateways::{AskError, Which};
use crate::out::{self, say};
use crate::page::Page;
use crate::render;

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway also rereads the file by itself when it changes; then this command shows when, and what was different. Unchanged servers keep running; changed and removed ones stop when their calls in flight are answered. The certificate of --tls-cert is reread as well. If the file has errors, the gateway keeps its current configuration.

Exit status: 1 if the file has errors, 3 if no gateway runs.

Examples:
  ostler reload
  ostler reload --json")]
pub(crate) struct ReloadArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &ReloadArguments) -> ExitCode {
    match arguments.which.ask(Request::Reload) {
        Ok(Reply::Reloaded(reloaded)) => {
            reloaded.notices.iter().for_each(say);
            if arguments.json { out::json(&reloaded) } else { out::print(&describe(&reloaded)) }
        }
        Ok(_) => AskError::Strange.report(),
        Err(AskError::Failed(reason)) => {
            AskError::Failed(format!("kept the current configuration: {reason}")).report()
        }
        Err(error) => error.report(),
    }
}

fn describe(reloaded: &Reloaded) -> Page {
    let lists = [
        ("kept", &reloaded.kept),
        ("changed", &reloaded.changed),
        ("removed", &reloaded.removed),
        ("added", &reloaded.added),
    ];
    let mut page = Page::new();
    for (what, names) in lists {
        let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
        page.line(format_args!("{what:<8} {names}"));
    }
    if let Some(ConfigChange { at, changed, removed, added }) = &reloaded.before {
        page.line(format_args!("already applied at {}:", render::clock(*at)));
        for (what, names) in [("changed", changed), ("removed", removed), ("added", added)] {
            if !names.is_empty() {
                page.line(format_args!("{what:<8} {}", names.join(", ")));
            }
        }
    }
    page
}
