//! `ostler tools`: lists what servers offer, from the catalog.

use std::process::ExitCode;

use clap::Args;
use ostler_gateway::admin::{Listed, Offer, Offering};
use serde::Serialize;

use crate::gateways::{Which, no_such};
use crate::offers::{Argument, OffersError, Tool, find_tool, offers};
use crate::out::{chain, say};
use crate::page::{Page, cell, shortened};
use crate::{exit, out};

/// Width of a terminal that lines fit.
const WIDTH: usize = 80;
/// A description keeps at least this many columns.
const NARROWEST: usize = 16;

#[derive(Debug, Args)]
#[command(after_help = "\
Starts nothing: the tools are those that servers listed before. A server that was never listed is shown with the command that lists it. Asks the running gateway; without one it reads the catalog on disk. Tools that the configuration hides are not shown.

Exit status: 3 if there is no such server or tool.

Examples:
  ostler tools
  ostler tools github
  ostler tools github create_issue
  ostler tools --json | jq '.[].tools[]?.name'")]
pub(crate) struct ToolsArguments {
    /// Name of the server [default: all]
    server: Option<String>,
    /// Show this tool with its arguments
    tool: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, thiserror::Error)]
enum ToolsError {
    #[error(transparent)]
    Offers(#[from] OffersError),
    #[error("{0}")]
    NotFound(String),
}

/// A server in the output of `--json`.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    state: &'static str,
    reason: Option<String>,
    #[serde(flatten)]
    listed: Option<Listed>,
}

pub(crate) fn run(arguments: &ToolsArguments) -> ExitCode {
    match tell(arguments) {
        Ok(code) => code,
        Err(ToolsError::Offers(OffersError::Ask(error))) => error.report(),
        Err(error) => {
            say(chain(&error));
            let is_missing =
                matches!(error, ToolsError::NotFound(_) | ToolsError::Offers(OffersError::Nowhere));
            if is_missing { exit::NOT_FOUND.into() } else { exit::FAILED.into() }
        }
    }
}

fn tell(arguments: &ToolsArguments) -> Result<ExitCode, ToolsError> {
    let mut offers = offers(&arguments.which)?;
    if let Some(server) = &arguments.server {
        let known: Vec<&str> = offers.iter().map(|offer| offer.server.as_str()).collect();
        if !known.contains(&server.as_str()) {
            return Err(ToolsError::NotFound(no_such("server", server, &known, "ostler status")));
        }
        offers.retain(|offer| offer.server == *server);
    }
    match (&arguments.tool, offers.first()) {
        (Some(tool), Some(offer)) => show_tool(offer, tool, arguments.json),
        _ if arguments.json => {
            Ok(out::json(&offers.into_iter().map(Row::from).collect::<Vec<_>>()))
        }
        _ => Ok(out::print(&page(&offers))),
    }
}

fn page(offers: &[Offer]) -> Page {
    let mut page = Page::new();
    let rows: Vec<[String; 3]> = offers.iter().flat_map(rows).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max("SERVER".len())
    };
    let room = WIDTH.saturating_sub(width(0) + width(1) + 4).max(NARROWEST);
    let rows: Vec<[String; 3]> = rows
        .into_iter()
        .map(|[server, tool, text]| [server, tool, shortened(text, room)])
        .collect();
    if !rows.is_empty() {
        page.table(["SERVER", "TOOL", "DESCRIPTION"], &rows);
    }
    offers.iter().filter_map(remark).for_each(|line| page.line(line));
    if offers.is_empty() {
        page.line("the configuration has no server");
    }
    page
}

fn rows(offer: &Offer) -> Vec<[String; 3]> {
    let Offering::Listed(listed) = &offer.offering else { return Vec::new() };
    let tools = listed.tools.iter().filter_map(|raw| Tool::parse(raw));
    let row = |tool: Tool| {
        let first = tool.description.lines().next().unwrap_or_default().to_owned();
        [cell(&offer.server), cell(&tool.name), cell(&first)]
    };
    tools.map(row).collect()
}

/// Why a server has no line in the table.
fn remark(offer: &Offer) -> Option<String> {
    let server = &offer.server;
    match &offer.offering {
        Offering::Listed(listed) if listed.tools.is_empty() => Some(format!("{server}: no tools")),
        Offering::Listed(_) => None,
        Offering::NeverListed => {
            Some(format!("{server}: never listed; `ostler warm {server}` lists it"))
        }
        Offering::Unavailable(reason) => Some(format!("{server}: unavailable: {reason}")),
        Offering::Disabled => Some(format!("{server}: the configuration disables it")),
    }
}

fn show_tool(offer: &Offer, name: &str, is_json: bool) -> Result<ExitCode, ToolsError> {
    let Offering::Listed(listed) = &offer.offering else {
        return Err(ToolsError::NotFound(remark(offer).unwrap_or_default()));
    };
    let found = find_tool(&listed.tools, &offer.server, name).map_err(ToolsError::NotFound)?;
    let (raw, tool) = (found.0, &found.1);
    Ok(if is_json { out::json(&raw) } else { out::print(&tool_page(&offer.server, tool)) })
}

fn tool_page(server: &str, tool: &Tool) -> Page {
    let mut page = Page::of(format_args!("{server} {}", tool.name));
    tool.description.lines().for_each(|line| page.line(format_args!("  {line}")));
    let row = |argument: &Argument<'_>| {
        let types = argument.types().join("|");
        let types = if types.is_empty() { "any".to_owned() } else { types };
        let required = if argument.is_required { "required" } else { "optional" };
        [argument.name.to_owned(), types, required.to_owned(), argument.description().to_owned()]
    };
    let rows: Vec<[String; 4]> = tool.arguments().iter().map(row).collect();
    page.line("");
    if rows.is_empty() {
        page.line("no arguments");
    } else {
        page.table(["ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"], &rows);
    }
    page
}

impl From<Offer> for Row {
    fn from(Offer { server, offering }: Offer) -> Self {
        let (state, reason, listed) = match offering {
            Offering::Listed(listed) => ("listed", None, Some(listed)),
            Offering::NeverListed => ("never_listed", None, None),
            Offering::Unavailable(reason) => ("unavailable", Some(reason), None),
            Offering::Disabled => ("disabled", None, None),
        };
        Self { server, state, reason, listed }
    }
}
