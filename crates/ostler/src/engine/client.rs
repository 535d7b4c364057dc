//! What we ask an engine.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answers::{Details, EngineVersion, Exec, Image, Listed, Network, Stats};
use super::call::{Answer, CallError, call, escaped};
use crate::containers::Endpoint;
use crate::engine::label::{self, LabelMap};
use crate::id::InstanceId;

/// The oldest API that has all we ask for in the form we know.
const OLDEST: Version = Version(1, 41);
/// The newest whose answers we know. An engine answers in the form of the version it is asked in.
const NEWEST: Version = Version(1, 53);
/// The oldest that can be asked for the image of one platform, of several under one id.
const PLATFORMS: Version = Version(1, 49);

/// An engine that has answered. No line is held between calls.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    version: Version,
    /// Podman's service, which has words of its own beside docker's.
    is_podman: bool,
    /// For each call.
    limit: Duration,
}

impl Client {
    /// Finds the engine and agrees on a version with it.
    pub(crate) async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, CallError> {
        let answer = call(endpoint, Method::GET, "/_ping", limit).await?;
        let announced = answer.headers.get("api-version").and_then(|value| value.to_str().ok());
        let announced = announced.unwrap_or_default();
        match announced.parse::<Version>() {
            Ok(theirs) if theirs >= OLDEST => {
                let is_podman = answer.headers.contains_key("libpod-api-version");
                let version = theirs.min(NEWEST);
                Ok(Self { endpoint: endpoint.clone(), version, is_podman, limit })
            }
            _ => Err(CallError::TooOld { found: announced.into(), wanted: OLDEST.to_string() }),
        }
    }

    /// The containers of an instance, whatever their state.
    pub(crate) async fn containers_of(
        &self,
        instance: InstanceId,
    ) -> Result<Vec<Listed>, CallError> {
        let listed = self.containers("label", &format!("{}={instance}", label::INSTANCE)).await?;
        // What is removed is never left to how an engine understands a filter.
        Ok(listed.into_iter().filter(|one| one.instance() == Some(instance)).collect())
    }

    /// The containers of all instances, of all owners.
    pub(crate) async fn all_containers(&self) -> Result<Vec<Listed>, CallError> {
        self.containers("label", label::INSTANCE).await
    }

    /// The containers with this label (`name=value`), of whatever program.
    pub(crate) async fn labelled(&self, label: &str) -> Result<Vec<Listed>, CallError> {
        self.containers("label", label).await
    }

    /// All containers that run, of whatever program.
    pub(crate) async fn running(&self) -> Result<Vec<Listed>, CallError> {
        self.get("containers/json").await
    }

    /// The engine's own version.
    pub(crate) async fn version_text(&self) -> Result<String, CallError> {
        Ok(self.get::<EngineVersion>("version").await?.version)
    }

    /// The memory that a running container uses, in bytes.
    pub(crate) async fn memory_of(&self, id: &str) -> Result<Option<u64>, CallError> {
        let path = format!("containers/{}/stats?stream=0&one-shot=1", escaped(id));
        Ok(self.get::<Stats>(&path).await?.memory())
    }

    /// The containers on a network, whosesoever they are, running or not.
    pub(crate) async fn containers_on(&self, network: &str) -> Result<Vec<Listed>, CallError> {
        self.containers("network", network).await
    }

    async fn containers(&self, filter: &str, value: &str) -> Result<Vec<Listed>, CallError> {
        let filters = escaped(&json!({ filter: [value] }).to_string());
        self.get(&format!("containers/json?all=1&filters={filters}")).await
    }

    /// More about one container.
    pub(crate) async fn details(&self, id: &str) -> Result<Details, CallError> {
        // Only there it says how the container was made.
        let words = if self.is_podman { "libpod/" } else { "" };
        self.get(&format!("{words}containers/{}/json", escaped(id))).await
    }

    /// The labels of the image that a container was made from.
    pub(crate) async fn image_labels(
        &self,
        image: &str,
        container: &str,
    ) -> Result<LabelMap, CallError> {
        let mut path = format!("images/{}/json", escaped(image));
        if self.version >= PLATFORMS
            && let Some(platform) = self.details(container).await?.platform()
        {
            path = format!("{path}?platform={}", escaped(platform));
        }
        Ok(self.get::<Image>(&path).await?.into_labels())
    }

    /// Asks a container to end and kills it after `grace`, of which engines count whole seconds.
    pub(crate) async fn stop(&self, id: &str, grace: Duration) -> Result<(), CallError> {
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let path = format!("containers/{}/stop?t={seconds}", escaped(id));
        self.ask(Method::POST, &path, self.limit + grace).await.map(drop)
    }

    /// Removes a container in any state, with the volumes that have no name.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), CallError> {
        let path = format!("containers/{}?force=1&v=1", escaped(id));
        self.ask(Method::DELETE, &path, self.limit).await.map(drop)
    }

    /// The networks of an instance.
    pub(crate) async fn networks_of(
        &self,
        instance: InstanceId,
    ) -> Result<Vec<Network>, CallError> {
        let ours = format!("{}={instance}", label::INSTANCE);
        let filters = escaped(&json!({ "label": [ours] }).to_string());
        let listed: Vec<Network> = self.get(&format!("networks?filters={filters}")).await?;
        Ok(listed.into_iter().filter(|one| one.instance() == Some(instance)).collect())
    }

    /// Removes a network that nobody is on.
    pub(crate) async fn remove_network(&self, id: &str) -> Result<(), CallError> {
        let path = format!("networks/{}", escaped(id));
        self.ask(Method::DELETE, &path, self.limit).await.map(drop)
    }

    /// A command that was started in a container.
    pub(crate) async fn exec(&self, id: &str) -> Result<Exec, CallError> {
        self.get(&format!("exec/{}/json", escaped(id))).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.ask(Method::GET, path, self.limit).await?.json()
    }

    async fn ask(&self, method: Method, path: &str, limit: Duration) -> Result<Answer, CallError> {
        let path = format!("/v{}/{path}", self.version);
        call(&self.endpoint, method, &path, limit).await
    }
}

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Not a version.
struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once('.').ok_or(NoVersion)?;
        // Podman's have a third part.
        let minor = minor.split('.').next().unwrap_or_default();
        let number = |part: &str| part.parse().map_err(|_| NoVersion);
        Ok(Self(number(major)?, number(minor)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_not_text() {
        let read = |text: &str| text.parse::<Version>().ok();
        assert!(read("1.9") < read("1.41"));
        assert_eq!(read("1.41.0"), read("1.41"));
        for text in ["", "1", "1.", ".41", "one.two", "-1.41"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
