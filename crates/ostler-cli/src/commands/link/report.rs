//! What `link` and `unlink` print.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ostler_clients::{Action, Client, Step, Taking, Unusable};
use serde::Serialize;

use crate::out::say;
use crate::page::Page;
use crate::{exit, out};

/// Output of `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The configuration of ostler, if it was written.
    config: Option<PathBuf>,
    /// Whether everything was written.
    written: bool,
    files: Vec<ReportedFile>,
}

#[derive(Debug, Serialize)]
struct ReportedFile {
    client: &'static str,
    path: PathBuf,
    /// Whether it was written.
    changed: bool,
    /// Its content before.
    backup: Option<PathBuf>,
    entries: Vec<ReportedEntry>,
}

#[derive(Debug, Serialize)]
struct ReportedEntry {
    name: String,
    action: &'static str,
    /// Name of its server in ostler.json.
    server: Option<String>,
    /// Why it stays as it is.
    reason: Option<String>,
    #[serde(skip)]
    is_left: bool,
}

/// A file that was written.
#[derive(Debug)]
pub(crate) struct Changed {
    path: PathBuf,
    backup: Option<PathBuf>,
}

impl Changed {
    pub(crate) fn new(path: &Path, backup: Option<PathBuf>) -> Self {
        Self { path: path.to_owned(), backup }
    }
}

/// Whether the user agrees to what was shown.
pub(crate) fn agreed(yes: bool) -> bool {
    yes || out::ask("Write these changes?").unwrap_or(false)
}

impl Report {
    pub(crate) fn new<'a>(
        config: Option<PathBuf>,
        written: bool,
        files: impl Iterator<Item = (&'static Client, &'a Path, &'a [Step])>,
        changed: &[Changed],
    ) -> Self {
        let file = |(client, path, steps): (&'static Client, &Path, &[Step])| {
            let written = changed.iter().find(|changed| changed.path == path);
            ReportedFile {
                client: client.id,
                path: path.to_owned(),
                changed: written.is_some(),
                backup: written.and_then(|changed| changed.backup.clone()),
                entries: steps.iter().map(ReportedEntry::of).collect(),
            }
        };
        Self { config, written, files: files.map(file).collect() }
    }

    /// The end of a command that was not agreed to.
    pub(crate) fn refused(&self, json: bool) -> ExitCode {
        if json {
            out::json(self);
        }
        say("nothing was written; --yes writes it without asking");
        exit::USAGE.into()
    }

    /// The end of a command that wrote what it could.
    pub(crate) fn finish(&self, json: bool, has_failed: bool) -> ExitCode {
        let written = if json { out::json(self) } else { out::print(&self.page()) };
        let is_left = self.files.iter().flat_map(|file| &file.entries).any(|entry| entry.is_left);
        match (has_failed, is_left) {
            (true, _) => exit::FAILED.into(),
            (false, true) => exit::LEFT_OVER.into(),
            (false, false) => written,
        }
    }

    fn page(&self) -> Page {
        let mut page = Page::new();
        if let Some(config) = &self.config {
            page.line(format_args!("wrote {}", config.display()));
        }
        for file in &self.files {
            let path = file.path.display();
            match (&file.backup, file.changed) {
                (Some(backup), _) => {
                    page.line(format_args!("wrote {path}; as it was before: {}", backup.display()));
                }
                (None, true) => page.line(format_args!("wrote {path}")),
                (None, false) => page.line(format_args!("{path} stays as it is")),
            }
        }
        page
    }
}

impl ReportedEntry {
    fn of(step: &Step) -> Self {
        let (action, server, reason, is_left) = match &step.action {
            Action::Connect(server, _) => ("connect", Some(server.clone()), None, false),
            Action::Fold(server, _) => ("fold", Some(server.clone()), None, false),
            Action::Add => ("add", None, None, false),
            Action::Wrap => ("wrap", None, None, false),
            Action::Already => ("already", None, None, false),
            Action::Left(reason) => {
                ("left", None, Some(reason.to_string()), starts_program(reason))
            }
            Action::Restored => ("restored", None, None, false),
            Action::Removed => ("removed", None, None, false),
            Action::Unknown => ("unknown", None, Some(NO_BACKUP.to_owned()), true),
        };
        Self { name: step.name.clone(), action, server, reason, is_left }
    }
}

const NO_BACKUP: &str = "there is no backup of what it was";

/// Whether an entry that is left for this reason starts a program without ostler.
fn starts_program(reason: &Unusable) -> bool {
    use Unusable::{Disabled, Login, Options, Remote};
    !matches!(reason, Remote | Disabled | Login | Options)
}

/// Adds what happens to the entries of a file.
pub(crate) fn show_steps(page: &mut Page, client: &Client, path: &Path, steps: &[Step]) {
    page.line(format_args!("{}: {}", client.title, path.display()));
    let width = steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    for step in steps {
        page.line(format_args!("  {:width$}  {}", step.name, words(step)));
    }
}

fn words(step: &Step) -> String {
    let new = |taking: &Taking| match taking {
        Taking::Added => ", which is new in ostler.json".to_owned(),
        Taking::Known => String::new(),
        Taking::Renamed => {
            format!(", because ostler.json has another server called {}", step.name)
        }
    };
    match &step.action {
        Action::Connect(server, taking) => format!("connects to {server}{}", new(taking)),
        Action::Fold(server, taking) => {
            format!("becomes part of ostler as {server}{}", new(taking))
        }
        Action::Add => "connects to all servers".to_owned(),
        Action::Wrap => "runs inside `ostler run`".to_owned(),
        Action::Already => "uses ostler already".to_owned(),
        Action::Left(reason) => format!("stays as it is: {reason}"),
        Action::Restored => "becomes what it was".to_owned(),
        Action::Removed => "is removed".to_owned(),
        Action::Unknown => format!("stays as it is: {NO_BACKUP}"),
    }
}
