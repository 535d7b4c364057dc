//! The contexts of the docker command: names for engines, kept in its configuration directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::containers::{Endpoint, NoEndpoint, Tls};

/// The one that stands for the environment and for docker's own default.
pub(super) const DEFAULT: &str = "default";
/// No file of this directory is larger in earnest.
const LARGEST_FILE: u64 = 4 << 20;

#[derive(Default, Deserialize)]
struct Config {
    #[serde(default, rename = "currentContext")]
    current_context: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Meta {
    name: String,
    #[serde(default)]
    endpoints: Endpoints,
}

#[derive(Default, Deserialize)]
struct Endpoints {
    docker: Option<DockerEndpoint>,
}

#[derive(Deserialize)]
struct DockerEndpoint {
    #[serde(default, rename = "Host")]
    host: String,
    #[serde(default, rename = "SkipTLSVerify")]
    skip_tls_verify: bool,
}

/// The name of the context that is in use.
pub(super) fn current(directory: &Path) -> Result<Option<String>, NoEndpoint> {
    let config: Option<Config> = read(&directory.join("config.json"))?;
    Ok(config.map(|config| config.current_context).filter(|name| !name.is_empty()))
}

/// The engine that a context stands for.
pub(super) fn endpoint(directory: &Path, name: &str) -> Result<Endpoint, NoEndpoint> {
    let unknown = || NoEndpoint::Context { name: name.to_owned(), directory: directory.to_owned() };
    let metas = fs::read_dir(directory.join("contexts/meta")).map_err(|_| unknown())?;
    for entry in metas.flatten() {
        let meta: Option<Meta> = read(&entry.path().join("meta.json"))?;
        let Some(meta) = meta.filter(|meta| meta.name == name) else { continue };
        let docker = meta.endpoints.docker.ok_or_else(unknown)?;
        let endpoint: Endpoint =
            if docker.host.is_empty() { "unix://".parse()? } else { docker.host.parse()? };
        // The same name as that of the description.
        let files = directory.join("contexts/tls").join(entry.file_name()).join("docker");
        return Ok(endpoint.secured(tls(&files, !docker.skip_tls_verify)));
    }
    Err(unknown())
}

/// What a context has for a secured line. Without any of it the line is open.
fn tls(directory: &Path, verify: bool) -> Option<Tls> {
    let file = |name| existing(directory.join(name));
    let tls = Tls { ca: file("ca.pem"), cert: file("cert.pem"), key: file("key.pem"), verify };
    let wanted = !verify || tls.ca.is_some() || tls.cert.is_some() || tls.key.is_some();
    wanted.then_some(tls)
}

pub(super) fn existing(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

/// Reads a file of the directory; one that is not there says nothing.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, NoEndpoint> {
    let unreadable = |error| NoEndpoint::Unreadable { path: path.to_owned(), error };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut text = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut text).map_err(unreadable)?;
    serde_json::from_slice(&text).map(Some).map_err(|error| unreadable(error.into()))
}
