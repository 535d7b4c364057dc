//! What `unlink` would write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::apply::{ApplyError, Backups};
use super::record::{Entry, Original, Part, Record, hash};
use super::{Action, LinkError, Step};
use crate::clients::{Client, Machine};
use crate::entry::{self, OWNED};
use crate::files::Document;
use crate::format::{Edit, Format};
use crate::inventory::Listed;
use crate::own::Own;
use crate::source::{Opened, open};
use crate::value::Value;

/// What `unlink` would write into one file.
#[derive(Debug)]
pub struct Undo {
    /// The client.
    pub client: &'static Client,
    /// The file as it is.
    pub document: Document,
    /// Its syntax.
    pub format: Format,
    /// The new content; `None` if the file is removed because `link` created it.
    pub after: Option<String>,
    /// Whether the new content is the original, byte for byte.
    pub is_exact: bool,
    /// What happens to each entry.
    pub steps: Vec<Step>,
}

impl Undo {
    /// Whether anything would be written.
    pub fn changes(&self) -> bool {
        self.after.as_deref() != Some(self.document.text())
    }

    /// Whether an entry can't be brought back.
    pub fn leaves_any(&self) -> bool {
        self.steps.iter().any(|step| step.action == Action::Unknown)
    }

    /// Writes the file. Returns the path of its backup.
    pub fn apply(&self, backups: Backups<'_>) -> Result<Option<PathBuf>, ApplyError> {
        let backup = backups.keep(&self.document, self.client.id)?;
        match &self.after {
            Some(text) => self.document.replace(text)?,
            None => self.document.remove()?,
        }
        if !self.leaves_any() {
            Record::remove(backups.state, self.document.path())?;
        }
        Ok(backup)
    }
}

/// Plans all files of a client.
pub fn plan_undo(
    machine: &Machine,
    client: &'static Client,
    project: bool,
) -> Result<Vec<Undo>, LinkError> {
    let opened = open(machine, client, project)?;
    opened.into_iter().map(|file| undo(&machine.state(), client, file)).collect()
}

fn undo(state: &Path, client: &'static Client, file: Opened) -> Result<Undo, LinkError> {
    let record = Record::read(state, file.document.path())?;
    let record = record.filter(|record| record.client == client.id);
    if let Some(after) = record.as_ref().and_then(|record| original(record, &file.document)) {
        let steps = record.iter().flat_map(|record| &record.entries).map(restored).collect();
        let Opened { document, format, .. } = file;
        return Ok(Undo { client, document, format, after, is_exact: true, steps });
    }
    let entries = record.map_or_else(Vec::new, |record| record.entries);
    let mut undoing = Undoing {
        client,
        file: &file,
        texts: BTreeMap::new(),
        edits: Vec::new(),
        steps: Vec::new(),
    };
    let backups: BTreeMap<PathBuf, String> = backups(&entries);
    for entry in &entries {
        undoing.entry(entry, &backups);
    }
    for listed in &file.listed {
        if entries.iter().all(|entry| entry.path != listed.path) {
            undoing.unrecorded(listed);
        }
    }
    let Undoing { edits, steps, .. } = undoing;
    let text = file.document.text();
    let edited =
        if edits.is_empty() { Ok(text.to_owned()) } else { file.format.edit(text, &edits) };
    let path = || file.document.path().to_owned();
    let after = edited.map_err(|source| LinkError::Edit { path: path(), source })?;
    let Opened { document, format, .. } = file;
    Ok(Undo { client, document, format, after: Some(after), is_exact: false, steps })
}

/// The content before the first edit, if the file is as ostler left it. The inner `None` means that there was no file.
#[expect(clippy::option_option, reason = "a file that was not there is another answer than none")]
fn original(record: &Record, document: &Document) -> Option<Option<String>> {
    if record.after != hash(document.text()) {
        return None;
    }
    match &record.original {
        Original::Missing => Some(None),
        Original::Lost => None,
        Original::Backup(path) => {
            let backup = Document::read(path).ok().filter(Document::exists)?;
            Some(Some(backup.text().to_owned()))
        }
    }
}

fn restored(entry: &Entry) -> Step {
    let action = if entry.part == Part::Added { Action::Removed } else { Action::Restored };
    Step { name: entry.path.last().cloned().unwrap_or_default(), action }
}

/// The contents of all backups that can be read.
fn backups(entries: &[Entry]) -> BTreeMap<PathBuf, String> {
    let paths = entries.iter().filter_map(|entry| entry.backup.as_ref());
    let read = |path: &PathBuf| {
        let backup = Document::read(path).ok().filter(Document::exists)?;
        Some((path.clone(), backup.text().to_owned()))
    };
    paths.filter_map(read).collect()
}

struct Undoing<'a> {
    client: &'static Client,
    file: &'a Opened,
    texts: BTreeMap<PathBuf, Value>,
    edits: Vec<Edit<'a>>,
    steps: Vec<Step>,
}

impl<'a> Undoing<'a> {
    /// Undoes a recorded edit, if the entry is still as ostler left it.
    fn entry(&mut self, entry: &Entry, backups: &'a BTreeMap<PathBuf, String>) {
        let listed = self.file.listed.iter().find(|listed| listed.path == entry.path);
        let is_ours = listed.is_some_and(|listed| listed.own().is_some());
        let text = entry.backup.as_ref().and_then(|path| backups.get(path));
        match (entry.part, text) {
            (Part::Added, _) if is_ours => self.edits.push(Edit::Remove(entry.path.clone())),
            (Part::Rewritten, Some(text)) if is_ours => self.rewritten(entry, text),
            (Part::Removed, Some(text)) if listed.is_none() => {
                self.edits.push(Edit::Copy(entry.path.clone(), text));
            }
            (Part::Removed, None) if listed.is_none() => return self.unknown(&entry.path),
            (Part::Rewritten, None) if is_ours => return self.unknown(&entry.path),
            // Another program has removed or changed it since.
            _ => return,
        }
        self.steps.push(restored(entry));
    }

    /// Brings back the keys that `link` sets or removes.
    fn rewritten(&mut self, entry: &Entry, text: &'a str) {
        let Some(path) = &entry.backup else { return };
        let read = || self.file.format.read(text).unwrap_or(Value::Null);
        let before = self.texts.entry(path.clone()).or_insert_with(read).at(&entry.path).cloned();
        let now = self.file.listed.iter().find(|listed| listed.path == entry.path);
        let (Some(before), Some(now)) = (before, now) else { return };
        for key in OWNED {
            let path: Vec<String> = entry.path.iter().cloned().chain([(*key).to_owned()]).collect();
            match (before.get(key), now.entry.get(key)) {
                (Some(old), new) if new != Some(old) => self.edits.push(Edit::Copy(path, text)),
                (None, Some(_)) => self.edits.push(Edit::Remove(path)),
                _ => {}
            }
        }
    }

    /// Undoes an edit without a record, as far as the entry shows what it was.
    fn unrecorded(&mut self, listed: &Listed) {
        match listed.own() {
            Some(Own::Wrap { command, .. }) => {
                self.edits.extend(entry::wrap(self.client, &listed.path, &listed.entry, &command));
                self.steps.push(Step { name: listed.name().to_owned(), action: Action::Restored });
            }
            Some(_) => self.unknown(&listed.path),
            None => {}
        }
    }

    fn unknown(&mut self, path: &[String]) {
        let name = path.last().cloned().unwrap_or_default();
        self.steps.push(Step { name, action: Action::Unknown });
    }
}
