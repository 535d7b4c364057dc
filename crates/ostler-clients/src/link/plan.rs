//! What `link` would write.

use std::path::Path;

use super::{Action, LinkError, Mode, Step};
use crate::advice::{Advice, advice};
use crate::clients::{Client, ClientFile, Machine, Scope, Section};
use crate::configuration::{Check, Configuration, Taking};
use crate::entry::{self, Found, Taken, Unusable};
use crate::files::Document;
use crate::format::{Edit, Format};
use crate::inventory::Listed;
use crate::link::record::Part;
use crate::own::Own;
use crate::source::{Opened, SourceError, open};
use crate::takeover::take_for_link;

/// Name of the entry for all servers.
const ONE: &str = "ostler";

/// What to put into a client.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The client.
    pub client: &'static Client,
    /// How.
    pub mode: Mode,
    /// Whether files of the project are edited as well.
    pub project: bool,
    /// Absolute path of ostler.
    pub program: &'a Path,
}

/// What `link` would write into one file.
#[derive(Debug)]
pub struct Plan {
    /// The client.
    pub client: &'static Client,
    /// The file as it is.
    pub document: Document,
    /// Its syntax.
    pub format: Format,
    /// The new content.
    pub after: String,
    /// What happens to each entry.
    pub steps: Vec<Step>,
    /// What suits servers that are new in ostler.json, by their names there.
    pub advice: Vec<(String, Advice)>,
    /// Edits to note.
    pub(crate) parts: Vec<(Vec<String>, Part)>,
}

impl Plan {
    /// Whether anything would be written.
    pub fn changes(&self) -> bool {
        self.after != self.document.text()
    }
}

/// Plans all files of a client. Servers that they have are taken over into `configuration`.
pub fn plan(
    machine: &Machine,
    request: Request<'_>,
    configuration: &mut Configuration,
    check: Check<'_>,
) -> Result<Vec<Plan>, LinkError> {
    let mut opened = open(machine, request.client, request.project)?;
    if opened.is_empty() && request.mode == Mode::One {
        opened.extend(usual_file(machine, request)?);
    }
    let mut planner = Planner {
        machine,
        request,
        configuration,
        check,
        edits: Vec::new(),
        steps: Vec::new(),
        parts: Vec::new(),
        advice: Vec::new(),
    };
    opened.into_iter().map(|file| planner.file(file)).collect()
}

/// The file that a client without files would have.
fn usual_file(machine: &Machine, request: Request<'_>) -> Result<Option<Opened>, SourceError> {
    let scope = if request.project { Scope::Project } else { Scope::User };
    let Some(file) = request.client.files.iter().find(|file| file.scope == scope) else {
        return Ok(None);
    };
    let document = Document::read(&machine.path(file))?;
    Ok(Some(Opened { document, format: file.format, listed: Vec::new() }))
}

struct Planner<'a> {
    machine: &'a Machine,
    request: Request<'a>,
    configuration: &'a mut Configuration,
    check: Check<'a>,
    edits: Vec<Edit<'static>>,
    steps: Vec<Step>,
    parts: Vec<(Vec<String>, Part)>,
    advice: Vec<(String, Advice)>,
}

impl Planner<'_> {
    fn file(&mut self, file: Opened) -> Result<Plan, LinkError> {
        for listed in &file.listed {
            let action = match self.request.mode {
                Mode::Each => self.connect(listed),
                Mode::One => self.fold(listed),
                Mode::Wrap => self.wrap(listed),
            };
            let action = action.unwrap_or_else(Action::Left);
            self.steps.push(Step { name: listed.name().to_owned(), action });
        }
        if self.request.mode == Mode::One {
            self.add(&file);
        }
        let (edits, steps) = (std::mem::take(&mut self.edits), std::mem::take(&mut self.steps));
        let (parts, advice) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.advice));
        let Opened { document, format, .. } = file;
        let after = if edits.is_empty() {
            document.text().to_owned()
        } else {
            let edited = format.edit(document.text(), &edits);
            edited.map_err(|source| LinkError::Edit { path: document.path().to_owned(), source })?
        };
        Ok(Plan { client: self.request.client, document, format, after, steps, advice, parts })
    }

    /// Has an entry connect to its server.
    fn connect(&mut self, listed: &Listed) -> Result<Action, Unusable> {
        let Some(taken) = usable(listed)? else { return Ok(Action::Already) };
        let (name, taking) = self.take(listed.name(), taken)?;
        let words = self.words(Some(&name));
        let edits = entry::connect(self.request.client, &listed.path, &listed.entry, taken, &words);
        self.note(listed, Part::Rewritten, edits);
        Ok(Action::Connect(name, taking))
    }

    /// Has the entry for all servers take the place of an entry.
    fn fold(&mut self, listed: &Listed) -> Result<Action, Unusable> {
        let Some(taken) = usable(listed)? else {
            return match &listed.found {
                Found::Own(Own::Connect(Some(name))) => {
                    self.note(listed, Part::Removed, vec![Edit::Remove(listed.path.clone())]);
                    Ok(Action::Fold(name.clone(), Taking::Known))
                }
                _ => Ok(Action::Already),
            };
        };
        if !taken.server.is_enabled {
            return Err(Unusable::Disabled);
        }
        let (name, taking) = self.take(listed.name(), taken)?;
        self.note(listed, Part::Removed, vec![Edit::Remove(listed.path.clone())]);
        Ok(Action::Fold(name, taking))
    }

    /// Adds the entry for all servers, unless it is there.
    fn add(&mut self, file: &Opened) {
        let is_all = |listed: &&Listed| {
            matches!(listed.found, Found::Own(Own::Connect(None) | Own::Gateway))
        };
        if file.listed.iter().any(|listed| is_all(&listed)) {
            return;
        }
        let client = self.request.client;
        let of_client = |one: &&ClientFile| {
            let path = self.machine.path(one);
            std::fs::canonicalize(&path).unwrap_or(path) == file.document.path()
        };
        let Some(sections) = client.files.iter().find(of_client).map(|file| file.sections) else {
            return;
        };
        let Some(mut path) = section(sections, file) else { return };
        path.push(ONE.to_owned());
        self.edits.push(Edit::Set(path.clone(), entry::new_entry(client, ONE, &self.words(None))));
        self.parts.push((path, Part::Added));
        self.steps.push(Step { name: ONE.to_owned(), action: Action::Add });
    }

    /// Puts `ostler run --` in front of a command.
    fn wrap(&mut self, listed: &Listed) -> Result<Action, Unusable> {
        if listed.own().is_some() {
            return Ok(Action::Already);
        }
        let command = entry::command_words(&listed.entry).ok_or(Unusable::Remote)?;
        let mut words = vec![self.program(), "run".to_owned(), "--".to_owned()];
        words.extend(command);
        let edits = entry::wrap(self.request.client, &listed.path, &listed.entry, &words);
        self.note(listed, Part::Rewritten, edits);
        Ok(Action::Wrap)
    }

    fn take(&mut self, name: &str, taken: &Taken) -> Result<(String, Taking), Unusable> {
        let client = self.request.client;
        let (name, taking) = take_for_link(name, taken, client, self.configuration, self.check)?;
        if taking != Taking::Known {
            let advice = advice(&taken.server).into_iter();
            self.advice.extend(advice.map(|advice| (name.clone(), advice)));
        }
        Ok((name, taking))
    }

    fn note(&mut self, listed: &Listed, part: Part, edits: Vec<Edit<'static>>) {
        self.edits.extend(edits);
        self.parts.push((listed.path.clone(), part));
    }

    fn program(&self) -> String {
        self.request.program.display().to_string()
    }

    fn words(&self, server: Option<&str>) -> Vec<String> {
        let path = self.configuration.document().path().display().to_string();
        let name = server.map(str::to_owned);
        let is_option = |name: &String| name.starts_with('-');
        let (first, last) =
            if name.as_ref().is_some_and(is_option) { (None, name) } else { (name, None) };
        let mut words = vec![self.program(), "connect".to_owned()];
        words.extend(first);
        words.extend(["--config".to_owned(), path]);
        words.extend(last.into_iter().flat_map(|name| ["--".to_owned(), name]));
        words
    }
}

/// The server of an entry; `None` if it starts ostler already.
fn usable(listed: &Listed) -> Result<Option<&Taken>, Unusable> {
    match &listed.found {
        Found::Server(taken) | Found::Wrapped(taken) => Ok(Some(taken)),
        Found::Own(_) | Found::BuiltIn => Ok(None),
        Found::Unusable(unusable) => Err(unusable.clone()),
    }
}

/// Where a new entry goes: the first section that exists, or the last.
fn section(sections: &[Section], file: &Opened) -> Option<Vec<String>> {
    let value = file.format.read(file.document.text()).ok()?;
    let mut keys = sections.iter().filter_map(|section| match section {
        Section::Keys(keys) => Some(*keys),
        Section::Each(..) => None,
    });
    let exists = |keys: &&[&str]| value.at(keys).is_some();
    let keys = keys.clone().find(exists).or_else(|| keys.next_back())?;
    Some(keys.iter().map(|key| (*key).to_owned()).collect())
}
