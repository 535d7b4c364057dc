//! Reads an entry as a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::keys::{
    ALLOWED, BUILT_IN, COMMANDS, DENIED, DIRECTORIES, ENVS, HEADERS, INHERIT, OWNED, REFUSED,
    REMOTE, UNDERSTOOD, URLS,
};
use super::{Found, Taken, Unusable};
use crate::clients::Variables;
use crate::own::Own;
use crate::server::{DEFAULTS, Server, Target};
use crate::value::Value;

/// What the meaning of an entry depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) variables: Variables,
    /// The directory that relative paths begin at, in a project's file.
    pub(crate) directory: Option<&'a Path>,
}

/// Reads an entry.
pub(crate) fn read(entry: &Value, context: Context<'_>) -> Found {
    match recognised(entry, context) {
        Ok(found) => found,
        Err(unusable) => Found::Unusable(unusable),
    }
}

/// Program and arguments as they are written; `None` of an entry that starts no program.
pub(crate) fn command_words(entry: &Value) -> Option<Vec<String>> {
    let command = one(entry, COMMANDS)?;
    let arguments =
        |entry: &Value| entry.get("args").and_then(Value::as_strings).unwrap_or_default();
    match command {
        Value::String(program) => Some([vec![program.clone()], arguments(entry)].concat()),
        Value::Array(_) => command.as_strings().filter(|words| !words.is_empty()),
        // Older versions of Zed.
        Value::Object(_) => {
            let program = command.get("path")?.as_str()?.to_owned();
            Some([vec![program], arguments(command)].concat())
        }
        _ => None,
    }
}

fn recognised(entry: &Value, context: Context<'_>) -> Result<Found, Unusable> {
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default();
    let url = one(entry, URLS).and_then(Value::as_str);
    let words = command_words(entry);
    if BUILT_IN.contains(&kind) || (words.is_none() && url.is_none()) {
        return Ok(Found::BuiltIn);
    }
    if let Some(key) = opaque(entry) {
        return Err(Unusable::Opaque(key));
    }
    let mut reader = Reader { entry, context, names: BTreeSet::new() };
    let mut is_wrapped = false;
    let target = match (words, url) {
        (Some(words), _) if !REMOTE.contains(&kind) => match Own::of_command(&words) {
            None => reader.process(&words)?,
            Some(Own::Wrap { options, command }) if !command.is_empty() => {
                if !options.is_empty() {
                    return Err(Unusable::Options);
                }
                is_wrapped = true;
                reader.process(&command)?
            }
            Some(own) => return Ok(Found::Own(own)),
        },
        (_, Some(url)) => match Own::of_url(url) {
            None => reader.remote(url)?,
            Some(own) => return Ok(Found::Own(own)),
        },
        (_, None) => return Ok(Found::BuiltIn),
    };
    let is_refused = |key: &&&str| entry.get(key).is_some_and(|value| *value != Value::Bool(false));
    if let Some(key) = REFUSED.iter().find(is_refused) {
        return Err(Unusable::Setting((*key).to_owned()));
    }
    let server = reader.filtered(Server::new(target))?;
    let taken = Box::new(Taken { server, names: reader.names, unused: unused(entry) });
    Ok(if is_wrapped { Found::Wrapped(taken) } else { Found::Server(taken) })
}

/// The key of a member that holds something without a counterpart in other formats.
fn opaque(entry: &Value) -> Option<String> {
    let is_opaque = |value: &Value| match value {
        Value::Array(items) => items.iter().any(|item| matches!(item, Value::Other(_))),
        Value::Object(members) => members.iter().any(|(_, value)| matches!(value, Value::Other(_))),
        value => matches!(value, Value::Other(_)),
    };
    entry.members().iter().find(|(_, value)| is_opaque(value)).map(|(key, _)| key.clone())
}

fn unused(entry: &Value) -> Vec<String> {
    let known = [OWNED, UNDERSTOOD, ALLOWED, DENIED].concat();
    let keys = entry.members().iter().map(|(key, _)| key);
    keys.filter(|key| !known.contains(&key.as_str())).cloned().collect()
}

/// The value of the first of these keys that is there and not `null`.
fn one<'v>(entry: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().filter_map(|key| entry.get(key)).find(|value| **value != Value::Null)
}

struct Reader<'a> {
    entry: &'a Value,
    context: Context<'a>,
    names: BTreeSet<(String, bool)>,
}

impl Reader<'_> {
    fn process(&mut self, words: &[String]) -> Result<Target, Unusable> {
        let entry = self.entry;
        if entry.get("args").is_some_and(|args| *args != Value::Null && args.as_strings().is_none())
        {
            return Err(Unusable::Type("args", "a list of texts"));
        }
        let nested = one(entry, COMMANDS).and_then(|command| command.get("env"));
        let env = nested.or_else(|| one(entry, ENVS));
        let env = env.map(|env| self.map(env, "env")).transpose()?.unwrap_or_default();
        let command: Result<Vec<String>, _> = words.iter().map(|word| self.text(word)).collect();
        let mut inherit = self.inherited()?;
        inherit.extend(for_container(words).filter(|name| !env.contains_key(name)));
        Ok(Target::Process {
            command: command?,
            env,
            env_file: self.env_file()?,
            cwd: self.cwd()?,
            inherit,
        })
    }

    fn remote(&mut self, url: &str) -> Result<Target, Unusable> {
        let headers = one(self.entry, HEADERS);
        let mut headers =
            headers.map(|map| self.map(map, "headers")).transpose()?.unwrap_or_default();
        for (header, variable) in self.entry.get("env_http_headers").map_or(&[][..], Value::members)
        {
            let variable =
                variable.as_str().ok_or(Unusable::Type("env_http_headers", "a map of texts"))?;
            headers.insert(header.clone(), self.named(variable));
        }
        if let Some(variable) = self.entry.get("bearer_token_env_var").and_then(Value::as_str) {
            headers.insert("Authorization".to_owned(), format!("Bearer {}", self.named(variable)));
        }
        Ok(Target::Remote { url: self.text(url)?, headers })
    }

    /// A variable that the client names.
    fn named(&mut self, variable: &str) -> String {
        self.names.insert((variable.to_owned(), false));
        format!("${{{variable}}}")
    }

    fn text(&mut self, text: &str) -> Result<String, Unusable> {
        let translated = self.context.variables.translate(text)?;
        self.names.extend(translated.names);
        Ok(translated.text)
    }

    fn map(
        &mut self,
        map: &Value,
        key: &'static str,
    ) -> Result<BTreeMap<String, String>, Unusable> {
        let Value::Object(members) = map else { return Err(Unusable::Type(key, "a map of texts")) };
        let mut texts = BTreeMap::new();
        for (name, value) in members {
            let text = match value {
                Value::String(text) => self.text(text)?,
                Value::Number(text) => text.clone(),
                Value::Bool(it) => it.to_string(),
                _ => return Err(Unusable::Type(key, "a map of texts")),
            };
            texts.insert(name.clone(), text);
        }
        Ok(texts)
    }

    fn inherited(&self) -> Result<BTreeSet<String>, Unusable> {
        let Some(Value::Array(items)) = one(self.entry, INHERIT) else {
            return Ok(BTreeSet::new());
        };
        let name = |item: &Value| {
            let name = item.as_str().or_else(|| item.get("name")?.as_str());
            name.map(str::to_owned)
        };
        let names: Option<BTreeSet<String>> = items.iter().map(name).collect();
        let mut names = names.ok_or(Unusable::Type("env_vars", "a list of names"))?;
        names.remove(DEFAULTS);
        Ok(names)
    }

    fn cwd(&mut self) -> Result<Option<String>, Unusable> {
        let Some(cwd) = one(self.entry, DIRECTORIES).and_then(Value::as_str) else {
            return Ok(None);
        };
        let text = home_first(&self.text(cwd)?);
        Ok(match text.as_str() {
            "" | "." | "./" => None,
            _ if text.starts_with(['/', '$']) => Some(text),
            _ => Some(format!("${{workspaceFolder}}/{text}")),
        })
    }

    fn env_file(&mut self) -> Result<Option<String>, Unusable> {
        let Some(file) = self.entry.get("envFile").and_then(Value::as_str) else { return Ok(None) };
        let text = home_first(&self.text(file)?);
        if text.starts_with(['/', '$']) {
            return Ok(Some(text));
        }
        let directory = self.context.directory.ok_or(Unusable::RelativeFile)?;
        Ok(Some(directory.join(text).display().to_string()))
    }

    /// Adds whether and how the client uses the server.
    fn filtered(&self, server: Server) -> Result<Server, Unusable> {
        let is = |key: &str| self.entry.get(key).map(|value| *value == Value::Bool(true));
        let is_enabled = !is("disabled").unwrap_or(false)
            && is("enabled").unwrap_or(true)
            && is("isActive").unwrap_or(true);
        let list = |value: Option<&Value>| match value {
            None => Ok(None),
            Some(value) => {
                value.as_strings().map(Some).ok_or(Unusable::Type("tools", "a list of names"))
            }
        };
        let filter = |key: &str| self.entry.get("toolFilter").and_then(|filter| filter.get(key));
        let allow = list(one(self.entry, ALLOWED).or_else(|| filter("include")))?;
        let allow =
            allow.filter(|names| !names.is_empty() && !names.iter().any(|name| name == "*"));
        let deny = list(one(self.entry, DENIED).or_else(|| filter("exclude")))?.unwrap_or_default();
        Ok(Server { is_enabled, allow, deny, ..server })
    }
}

/// `~/` in ostler's words.
fn home_first(text: &str) -> String {
    text.strip_prefix("~/").map_or_else(|| text.to_owned(), |rest| format!("${{userHome}}/{rest}"))
}

/// Variables that `docker run -e NAME` takes from the environment.
fn for_container(words: &[String]) -> impl Iterator<Item = String> {
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let is_engine = ["docker", "podman", "nerdctl"].contains(&program);
    let words = if is_engine { words } else { &[] };
    let value = |(at, word): (usize, &String)| match word.as_str() {
        "-e" | "--env" => words.get(at + 1).cloned(),
        word => word.strip_prefix("--env=").map(str::to_owned),
    };
    let is_name = |name: &String| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    words.iter().enumerate().filter_map(value).filter(is_name).collect::<Vec<_>>().into_iter()
}
