//! `ostler` alone on a terminal: what is here, and the one command to go on with.

use std::path::PathBuf;
use std::process::ExitCode;

use ostler::{Places, State as InstanceState};
use ostler_clients::{Counts, Survey, survey};
use ostler_gateway::config::{self, Asker};

use crate::backends::BlockingBackends;
use crate::doctor::Audit;
use crate::gateways::configuration;
use crate::page::Page;
use crate::{adopt, out, render};

/// Clients that are named; further ones are counted.
const NAMED: usize = 4;

/// What ostler found.
#[derive(Debug, Default)]
struct Findings {
    clients: Vec<FoundClient>,
    configuration: Option<FoundConfiguration>,
    /// Servers under ostler, and their memory in bytes.
    running: (usize, u64),
    /// What dead owners and other hosts left behind, and its memory in bytes.
    left: (usize, u64),
}

#[derive(Debug)]
struct FoundClient {
    id: &'static str,
    title: &'static str,
    counts: Counts,
}

#[derive(Debug)]
struct FoundConfiguration {
    path: PathBuf,
    /// Number of servers; `None` if it has errors.
    servers: Option<usize>,
}

pub(crate) fn run() -> ExitCode {
    out::print(&page(&find()))
}

fn find() -> Findings {
    let surveys = adopt::machine().map(|machine| survey(&machine)).unwrap_or_default();
    let client = |survey: &Survey| FoundClient {
        id: survey.client.id,
        title: survey.client.title,
        counts: survey.counts(),
    };
    let path = configuration(None, Asker::Client).ok().flatten();
    let configuration = path.map(|path| {
        let servers = config::load(&path).ok().map(|file| file.servers.len());
        FoundConfiguration { path, servers }
    });
    // Containers are left to `doctor`: an engine may take seconds to answer.
    let mut audit = Audit::take(&[]);
    let mut running = (0, 0);
    if let Ok(backends) = BlockingBackends::new() {
        let places = Places::of_user();
        audit.add_dead_owners(&backends, &places);
        let views = backends.snapshot(&places);
        let alive = views.iter().filter(|view| view.state != InstanceState::Orphaned);
        running = alive.fold((0, 0), |(count, memory), view| (count + 1, memory + view.rss));
    }
    let left = audit.finds.iter().filter(|find| find.kind.is_left_over());
    let left = left.fold((0, 0), |(count, memory), find| (count + 1, memory + find.memory));
    Findings { clients: surveys.iter().map(client).collect(), configuration, running, left }
}

fn page(found: &Findings) -> Page {
    let mut page =
        Page::of("ostler starts and shares MCP servers so that nothing they cause outlives them");
    page.line("");
    page.line(format_args!("clients      {}", clients(&found.clients)));
    page.line(format_args!("servers      {}", servers(found.configuration.as_ref())));
    page.line(format_args!("running      {}", counted(found.running, "under ostler")));
    page.line(format_args!("left behind  {}", counted(found.left, "without a living client")));
    page.line("");
    let (command, purpose) = next(found);
    page.line(format_args!("next: {command}"));
    page.line(format_args!("      {purpose}"));
    page.line("all commands: ostler --help");
    page
}

fn clients(clients: &[FoundClient]) -> String {
    if clients.is_empty() {
        return "no MCP client is installed here".to_owned();
    }
    let describe = |client: &FoundClient| {
        let Counts { linked, wrapped, direct } = client.counts;
        let use_of = match (linked + wrapped, direct) {
            (0, 0) => "no servers".to_owned(),
            (0, direct) => format!("{direct} without ostler"),
            (with, 0) => format!("{with} with ostler"),
            (with, direct) => format!("{with} with ostler, {direct} without"),
        };
        format!("{} ({use_of})", client.title)
    };
    let mut named: Vec<String> = clients.iter().take(NAMED).map(describe).collect();
    if clients.len() > NAMED {
        named.push(format!("{} more", clients.len() - NAMED));
    }
    named.join(", ")
}

fn servers(configuration: Option<&FoundConfiguration>) -> String {
    match configuration {
        None => "no configuration yet".to_owned(),
        Some(FoundConfiguration { path, servers: None }) => {
            format!("{} has errors", path.display())
        }
        Some(FoundConfiguration { path, servers: Some(count) }) => {
            format!("{count} in {}", path.display())
        }
    }
}

fn counted((count, memory): (usize, u64), what: &str) -> String {
    match count {
        0 => "nothing".to_owned(),
        _ => format!("{count} {what}, {}", render::size(memory)),
    }
}

/// The command to go on with, and what it does.
fn next(found: &Findings) -> (String, &'static str) {
    let has_errors = found.configuration.as_ref().is_some_and(|found| found.servers.is_none());
    let direct: Vec<&str> =
        found.clients.iter().filter(|one| one.counts.direct > 0).map(|one| one.id).collect();
    if has_errors {
        ("ostler check".to_owned(), "shows the errors of the configuration, with lines")
    } else if !direct.is_empty() {
        let purpose =
            "shows how their servers would be shared and ended with proof, and asks first";
        (format!("ostler link {}", direct.join(" ")), purpose)
    } else if found.left.0 > 0 {
        ("ostler doctor".to_owned(), "names what was left behind, and how to end it")
    } else if found.configuration.is_some() {
        ("ostler status".to_owned(), "shows the gateway and every configured server")
    } else {
        ("ostler demo".to_owned(), "shows on this machine what is left with and without ostler")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &'static str, direct: usize, linked: usize) -> FoundClient {
        FoundClient { id, title: id, counts: Counts { linked, wrapped: 0, direct } }
    }

    fn configured(servers: Option<usize>) -> FoundConfiguration {
        FoundConfiguration { path: "/c/ostler.json".into(), servers }
    }

    #[test]
    fn ten_lines_say_what_is_here_and_what_to_do() {
        let found = Findings {
            clients: vec![client("codex", 2, 0), client("cursor", 1, 3), client("zed", 0, 0)],
            configuration: Some(configured(Some(3))),
            running: (1, 50_000_000),
            left: (4, 60_000_000),
        };
        let expected = "\
ostler starts and shares MCP servers so that nothing they cause outlives them

clients      codex (2 without ostler), cursor (3 with ostler, 1 without), zed (no servers)
servers      3 in /c/ostler.json
running      1 under ostler, 50.0 MB
left behind  4 without a living client, 60.0 MB

next: ostler link codex cursor
      shows how their servers would be shared and ended with proof, and asks first
all commands: ostler --help
";
        assert_eq!(page(&found).text(), expected);
    }

    #[test]
    fn the_next_command_fits_what_was_found() {
        let linked = || vec![client("codex", 0, 2)];
        let commands = [
            (Findings::default(), "ostler demo"),
            (
                Findings { configuration: Some(configured(None)), ..Findings::default() },
                "ostler check",
            ),
            (Findings { left: (1, 1), clients: linked(), ..Findings::default() }, "ostler doctor"),
            (
                Findings {
                    configuration: Some(configured(Some(1))),
                    clients: linked(),
                    ..Findings::default()
                },
                "ostler status",
            ),
        ];
        for (found, command) in commands {
            assert_eq!(next(&found).0, command);
        }
    }
}
