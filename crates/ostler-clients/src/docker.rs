//! The servers that Docker's MCP gateway has enabled.
//!
//! `registry.yaml` names them, the catalogs describe them: an image with a command, variables and volumes, or the address of
//! a remote server. Docker keeps the secrets, so each becomes a variable. Values that only Docker fills in, such as
//! `{{server.key}}`, make a server unusable.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::clients::Machine;
use crate::entry::{Found, Taken, Unusable};
use crate::files::Document;
use crate::format::Format;
use crate::inventory::Listed;
use crate::server::Server;
use crate::source::{Opened, SourceError};
use crate::value::Value;
use crate::variables::Foreign;

/// Opens the catalogs, with the enabled servers of each.
pub(crate) fn open(machine: &Machine) -> Result<Vec<Opened>, SourceError> {
    let directory = machine.home.join(".docker/mcp");
    let registry = directory.join("registry.yaml");
    let Some((_, enabled)) = read(&registry)? else { return Err(SourceError::Missing(registry)) };
    let enabled: BTreeSet<&str> = servers(&enabled).iter().map(|(name, _)| name.as_str()).collect();
    let mut opened = Vec::new();
    for path in catalogs(&directory.join("catalogs")) {
        let Some((document, catalog)) = read(&path)? else { continue };
        let described =
            servers(&catalog).iter().filter(|(name, _)| enabled.contains(name.as_str()));
        let listed = described.map(|(name, entry)| Listed {
            path: vec!["registry".to_owned(), name.clone()],
            entry: entry.clone(),
            found: found(entry),
        });
        let listed = listed.collect();
        opened.push(Opened { document, format: Format::Yaml, listed });
    }
    Ok(opened)
}

fn read(path: &Path) -> Result<Option<(Document, Value)>, SourceError> {
    let document = Document::read(path)?;
    if !document.exists() {
        return Ok(None);
    }
    let value = Format::Yaml.read(document.text());
    let value = value.map_err(|source| SourceError::Syntax { path: path.to_owned(), source })?;
    Ok(Some((document, value)))
}

fn servers(value: &Value) -> &[(String, Value)] {
    value.get("registry").map_or(&[], Value::members)
}

fn catalogs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|it| it == "yaml" || it == "yml");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_yaml).collect();
    paths.sort();
    paths
}

fn found(entry: &Value) -> Found {
    match server(entry) {
        Ok(server) => {
            let names = BTreeSet::new();
            Found::Server(Box::new(Taken { server, names, unused: Vec::new() }))
        }
        Err(unusable) => Found::Unusable(unusable),
    }
}

fn server(entry: &Value) -> Result<Server, Unusable> {
    let remote = entry.at(&["remote", "url"]).and_then(Value::as_str);
    if let Some(url) = remote {
        let headers = entry.at(&["remote", "headers"]).map_or(&[][..], Value::members);
        let headers = headers.iter().map(|(name, value)| Ok((name.clone(), text(value)?)));
        return Ok(Server::remote(plain(url)?, headers.collect::<Result<_, Unusable>>()?));
    }
    let image = entry.get("image").and_then(Value::as_str);
    let image = image.ok_or(Unusable::Type("image", "the name of an image"))?;
    let mut env = BTreeMap::new();
    for variable in items(entry, "env") {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            env.insert(text(name)?, text(value)?);
        }
    }
    for secret in items(entry, "secrets") {
        if let Some(name) = secret.get("env").and_then(Value::as_str) {
            env.insert(name.to_owned(), format!("${{{name}}}"));
        }
    }
    let mut command: Vec<String> =
        ["docker", "run", "-i", "--rm", "--init"].map(str::to_owned).into();
    command.extend(env.keys().flat_map(|name| ["-e".to_owned(), name.clone()]));
    for volume in items(entry, "volumes") {
        command.extend(["-v".to_owned(), text(volume)?]);
    }
    if let Some(user) = entry.get("user") {
        command.extend(["-u".to_owned(), text(user)?]);
    }
    command.push(plain(image)?);
    for word in items(entry, "command") {
        command.push(text(word)?);
    }
    Ok(Server::process(command, env))
}

fn items<'v>(entry: &'v Value, key: &str) -> &'v [Value] {
    match entry.get(key) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

fn text(value: &Value) -> Result<String, Unusable> {
    match value {
        Value::String(text) => plain(text),
        Value::Number(text) => Ok(text.clone()),
        Value::Bool(it) => Ok(it.to_string()),
        _ => Err(Unusable::Type("env", "a map of texts")),
    }
}

/// A text without placeholders of Docker.
fn plain(text: &str) -> Result<String, Unusable> {
    match text.find("{{") {
        Some(at) => Err(Foreign(text[at..].to_owned()).into()),
        None => Ok(text.replace("${", "$${")),
    }
}
