//! Docker contexts: named engines in the docker command's configuration directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::containers::{Endpoint, NoEndpoint, Tls};

/// Name of the context that means the environment and docker's own default.
pub(super) const DEFAULT: &str = "default";
/// Bytes. Real files in this directory are far smaller.
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

/// Name of the current context, if one is configured.
pub(super) fn current(directory: &Path) -> Result<Option<String>, NoEndpoint> {
    let config: Option<Config> = read(&directory.join("config.json"))?;
    Ok(config.map(|config| config.current_context).filter(|name| !name.is_empty()))
}

/// The engine of a context.
pub(super) fn endpoint(directory: &Path, name: &str) -> Result<Endpoint, NoEndpoint> {
    let unknown = || NoEndpoint::Context { name: name.to_owned(), directory: directory.to_owned() };
    let metas = fs::read_dir(directory.join("contexts/meta")).map_err(|_| unknown())?;
    for entry in metas.flatten() {
        let meta: Option<Meta> = read(&entry.path().join("meta.json"))?;
        let Some(meta) = meta.filter(|meta| meta.name == name) else { continue };
        let docker = meta.endpoints.docker.ok_or_else(unknown)?;
        let endpoint: Endpoint =
            if docker.host.is_empty() { "unix://".parse()? } else { docker.host.parse()? };
        // The TLS directory has the same name as the metadata directory.
        let files = directory.join("contexts/tls").join(entry.file_name()).join("docker");
        return Ok(endpoint.secured(tls(&files, !docker.skip_tls_verify)));
    }
    Err(unknown())
}

/// The TLS settings of a context. `None` if it has no TLS files and does not skip verification.
fn tls(directory: &Path, verify: bool) -> Option<Tls> {
    let file = |name| existing(directory.join(name));
    let tls = Tls { ca: file("ca.pem"), cert: file("cert.pem"), key: file("key.pem"), verify };
    let wanted = !verify || tls.ca.is_some() || tls.cert.is_some() || tls.key.is_some();
    wanted.then_some(tls)
}

pub(super) fn existing(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

/// Reads a JSON file. `None` if it does not exist.
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
