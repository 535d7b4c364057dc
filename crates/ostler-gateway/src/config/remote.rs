//! Resolves the entry of a remote server for one client.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::entry::{OAuth, Remote};
use super::resolve::{Disabled, check};
use super::source;
use super::template::{Filling, Template};
use crate::environment::Environment;
use crate::remote::oauth::{ClientSettings, PinnedIssuer, Store};
use crate::remote::{Address, RemoteLimits, RemoteServer, RemoteSettings, Surroundings};

/// Longest bearer token that is read from a file, in bytes.
const LONGEST_TOKEN: u64 = 64 << 10;

/// Fills in the entry of a remote server for a client with this environment and working directory.
pub fn resolve_remote(
    name: &str,
    remote: &Remote,
    environment: &Environment,
    cwd: &Path,
) -> Result<RemoteServer, Disabled> {
    let mut filling = Filling::new(environment, cwd);
    let url = remote.url.fill(&mut filling);
    let values: Vec<_> =
        remote.headers.iter().map(|(name, value)| (name, value.fill(&mut filling))).collect();
    let token_file = remote.token_file.as_ref().map(|path| path.fill(&mut filling));
    let client = client(&remote.oauth, &mut filling);
    check(filling)?;
    let mut headers = HeaderMap::new();
    for (name, value) in values {
        let (name, value) = header(name, value.as_bytes())?;
        headers.insert(name, value);
    }
    if let Some(path) = token_file {
        let path = remote.directory.join(path);
        let read = source::read(&path, LONGEST_TOKEN);
        let token = read.map_err(|source| Disabled::TokenFile { path, source })?;
        let value = format!("Bearer {}", token.trim());
        headers.extend([header(AUTHORIZATION.as_str(), value.as_bytes())?]);
    }
    Ok(RemoteServer::new(RemoteSettings {
        name: name.to_owned(),
        address: Address::parse(&url.to_string_lossy())?,
        headers,
        carrier: remote.carrier,
        client,
        surroundings: Surroundings::new(environment),
        store: Store::of_user()?,
        limits: RemoteLimits::default(),
    }))
}

fn client(oauth: &OAuth, filling: &mut Filling<'_>) -> ClientSettings {
    let mut text = |template: &Template| template.fill(filling).to_string_lossy().into_owned();
    ClientSettings {
        id: oauth.client_id.as_ref().map(&mut text),
        issuer: oauth.issuer.as_ref().map(|issuer| PinnedIssuer {
            name: text(&issuer.name),
            client_secret: issuer.client_secret.as_ref().map(&mut text),
        }),
        scopes: oauth.scopes.clone(),
        port: oauth.callback_port,
    }
}

/// Builds a header whose value is marked as sensitive, so that it is not logged.
fn header(name: &str, value: &[u8]) -> Result<(HeaderName, HeaderValue), Disabled> {
    let wrong = || Disabled::Header { name: name.to_owned() };
    let mut value = HeaderValue::from_bytes(value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name.parse().map_err(|_| wrong())?, value))
}
