//! Rewrites entries so that they start ostler.

use super::Taken;
use super::keys::{ENVS, INHERIT, OWNED};
use crate::clients::{Client, CommandShape};
use crate::format::Edit;
use crate::value::Value;

/// Variables that every client passes on to its servers.
const ALWAYS: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// Edits that make an entry run `words`, and nothing of what it ran before. Keys that concern only the client stay.
pub(crate) fn connect(
    client: &Client,
    path: &[String],
    entry: &Value,
    taken: &Taken,
    words: &[String],
) -> Vec<Edit<'static>> {
    let mut rewrite = Rewrite { client, path, entry, kept: Vec::new(), edits: Vec::new() };
    rewrite.command(words);
    rewrite.pass(taken);
    rewrite.kind();
    rewrite.remove_others();
    rewrite.edits
}

/// Edits that make an entry run `words`, with everything else as it is.
pub(crate) fn wrap(
    client: &Client,
    path: &[String],
    entry: &Value,
    words: &[String],
) -> Vec<Edit<'static>> {
    let mut rewrite = Rewrite { client, path, entry, kept: Vec::new(), edits: Vec::new() };
    rewrite.command(words);
    rewrite.edits
}

/// A new entry that runs `words`.
pub(crate) fn new_entry(client: &Client, name: &str, words: &[String]) -> Value {
    let shape = client.shape;
    let mut members: Vec<(&str, Value)> = Vec::new();
    members.extend(shape.kind.map(|(key, value)| (key, Value::from(value))));
    let (program, args) =
        words.split_first().map_or(("", &[][..]), |(program, args)| (program, args));
    match shape.command {
        CommandShape::Words(command, arguments) => {
            members.push((command, Value::from(program)));
            members.push((arguments, Value::strings(args.iter().cloned())));
        }
        CommandShape::List(command) => {
            members.push((command, Value::strings(words.iter().cloned())));
        }
    }
    members.extend(shape.fixed.iter().map(|(key, fixed)| (*key, fixed.value(name))));
    Value::object(members)
}

struct Rewrite<'a> {
    client: &'a Client,
    path: &'a [String],
    entry: &'a Value,
    /// Keys that are set, or stay.
    kept: Vec<&'static str>,
    edits: Vec<Edit<'static>>,
}

impl Rewrite<'_> {
    fn set(&mut self, keys: &[&str], value: Value) {
        let path =
            self.path.iter().cloned().chain(keys.iter().map(|key| (*key).to_owned())).collect();
        if self.entry.at(keys) != Some(&value) {
            self.edits.push(Edit::Set(path, value));
        }
    }

    fn remove(&mut self, keys: &[&str]) {
        let path =
            self.path.iter().cloned().chain(keys.iter().map(|key| (*key).to_owned())).collect();
        if self.entry.at(keys).is_some() {
            self.edits.push(Edit::Remove(path));
        }
    }

    fn command(&mut self, words: &[String]) {
        let (program, args) =
            words.split_first().map_or(("", &[][..]), |(program, args)| (program, args));
        let args = Value::strings(args.iter().cloned());
        match self.client.shape.command {
            CommandShape::List(command) => {
                self.kept.push(command);
                self.set(&[command], Value::strings(words.iter().cloned()));
            }
            // Older versions of Zed.
            CommandShape::Words(command, _)
                if matches!(self.entry.get(command), Some(Value::Object(_))) =>
            {
                self.kept.push(command);
                self.set(&[command, "path"], Value::from(program));
                self.set(&[command, "args"], args);
            }
            CommandShape::Words(command, arguments) => {
                self.kept.extend([command, arguments]);
                self.set(&[command], Value::from(program));
                self.set(&[arguments], args);
            }
        }
    }

    /// Has the client pass on the variables that ostler fills in.
    fn pass(&mut self, taken: &Taken) {
        let shape = self.client.shape;
        if let Some(key) = shape.inherit {
            let old = self.entry.get(key).cloned();
            self.kept.extend(INHERIT);
            if !taken.names.is_empty() {
                let Value::Array(mut names) = old.unwrap_or(Value::Array(Vec::new())) else {
                    return;
                };
                names.extend(taken.names.iter().map(|(name, _)| Value::from(name.as_str())));
                self.set(&[key], Value::Array(names));
            }
        }
        let is_passed_anyway = |name: &str| ALWAYS.contains(&name);
        let pass = |(name, has_default): &(String, bool)| {
            if is_passed_anyway(name) {
                return None;
            }
            let reference = self.client.variables.reference(name, *has_default)?;
            Some((name.clone(), Value::from(reference)))
        };
        let passed: Vec<(String, Value)> = taken.names.iter().filter_map(pass).collect();
        if matches!(self.entry.get("command"), Some(Value::Object(_))) {
            self.remove(&["command", "env"]);
        }
        if !passed.is_empty() {
            let existing = ENVS.iter().find(|key| self.entry.get(key).is_some());
            let key = existing.copied().unwrap_or(shape.env);
            self.kept.push(key);
            self.set(&[key], Value::object(passed));
        }
    }

    /// Marks the entry as one that starts a program.
    fn kind(&mut self) {
        let usual = self.client.shape.kind;
        let has = self.entry.get("type").is_some();
        if let Some((key, value)) = usual.or(has.then_some(("type", "stdio"))) {
            self.kept.push("type");
            let is_fine = self
                .entry
                .get(key)
                .and_then(Value::as_str)
                .is_some_and(|kind| ["stdio", "local"].contains(&kind));
            if !is_fine {
                self.set(&[key], Value::from(value));
            }
        }
    }

    fn remove_others(&mut self) {
        for key in OWNED {
            if !self.kept.contains(key) {
                self.remove(&[key]);
            }
        }
    }
}
