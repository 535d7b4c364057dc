//! `ostler reap FIND-ID...`: ends leftovers of other hosts by id.
//!
//! The audit runs again, and only a find that it contains is ended. This excludes processes that have ended, that have
//! a client again, or whose pid was reused. Containers are removed one after the other.

use std::process::ExitCode;

use ostler::{Identity, Limits, Process, TreeEnd, end_tree};
use serde::Serialize;

use crate::doctor::{Audit, Find, FindId, Kind, describe, engines};
use crate::out::{self, say};
use crate::page::Page;
use crate::{exit, render};

/// A find and its outcome.
#[derive(Debug, Serialize)]
struct Ended {
    #[serde(flatten)]
    find: Find,
    outcome: Fate,
    /// What is left.
    left: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// Not touched, because `--yes` was not given.
    Found,
    Gone,
    Left,
}

/// Whether to end finds or only show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Show,
    End,
}

pub(super) fn run(ids: &[FindId], act: Act, json: bool) -> ExitCode {
    let audit = Audit::take(&engines());
    let mut chosen = Vec::new();
    for id in ids {
        match audit.finds.iter().find(|find| find.id == *id) {
            Some(find) if find.id.can_be_ended() => chosen.push(find.clone()),
            Some(find) => {
                say(format_args!(
                    "{id} ({}) is nothing to end; `ostler doctor` says what to do",
                    find.kind
                ));
                return exit::FAILED.into();
            }
            None => {
                say(format_args!(
                    "there is no find {id}: it has ended, is in use again, or was never left over; \
                     `ostler doctor` lists what there is"
                ));
                return exit::NOT_FOUND.into();
            }
        }
    }
    let ended: Vec<Ended> = chosen.into_iter().map(|find| treat(&audit, find, act)).collect();
    let written = if json { out::json(&ended) } else { out::print(&page(&ended, act)) };
    if ended.iter().any(|one| one.outcome == Fate::Left) {
        return exit::LEFT_OVER.into();
    }
    written
}

fn treat(audit: &Audit, find: Find, act: Act) -> Ended {
    if act == Act::Show {
        return Ended { find, outcome: Fate::Found, left: None };
    }
    let left = match find.kind {
        Kind::OrphanedContainer => remove(audit, &find.id),
        _ => end(&find),
    };
    let outcome = if left.is_none() { Fate::Gone } else { Fate::Left };
    Ended { find, outcome, left }
}

/// Ends the process tree of a find. Returns what is left of it.
fn end(find: &Find) -> Option<String> {
    let limits = Limits::default();
    // All processes, not only the root: if the root ends meanwhile, the others can no longer be found through it.
    let there = find.processes.iter().filter_map(|one| {
        let identity = Identity { pid: one.pid, start: one.start };
        Process::with_pid(one.pid).filter(|now| now.identity() == identity)
    });
    let processes: Vec<Process> = there.collect();
    let TreeEnd { left, .. } = end_tree(&processes, limits.ladder(), limits.proof);
    let left: Vec<String> = left.iter().map(|one| format!("process {one}")).collect();
    (!left.is_empty()).then(|| left.join(", "))
}

fn remove(audit: &Audit, id: &FindId) -> Option<String> {
    let limits = Limits::default();
    let (_, endpoint, container) = audit.containers.iter().find(|(of, ..)| of == id)?;
    let removed = ostler::foreign::remove(endpoint, container, limits.grace, limits.containers);
    removed.err().map(|error| format!("container {}: {error}", container.id))
}

fn page(ended: &[Ended], act: Act) -> Page {
    let mut page = Page::new();
    for one in ended {
        match one.outcome {
            Fate::Found => describe(&mut page, &one.find),
            Fate::Gone => {
                let (id, server) = (&one.find.id, &one.find.server);
                page.line(format_args!("{id} ({server}): gone, {}", freed(&one.find)));
            }
            Fate::Left => {
                let left = one.left.as_deref().unwrap_or_default();
                page.line(format_args!(
                    "{} ({}): still there: {left}",
                    one.find.id, one.find.server
                ));
            }
        }
    }
    if act == Act::Show {
        let ids: Vec<String> = ended.iter().map(|one| one.find.id.to_string()).collect();
        page.line("");
        page.line(format_args!(
            "Nothing was touched. To end it: ostler reap {} --yes",
            ids.join(" ")
        ));
    }
    page
}

fn freed(find: &Find) -> String {
    match find.processes.len() {
        0 => render::size(find.memory),
        1 => format!("1 process, {}", render::size(find.memory)),
        count => format!("{count} processes, {}", render::size(find.memory)),
    }
}
