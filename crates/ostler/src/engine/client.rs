//! Client of the engine API: the requests that ostler sends.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::call::{CallError, EngineResponse, call, escaped};
use super::responses::{
    ContainerDetails, EngineVersion, Exec, ImageDetails, ListedContainer, Network, Stats,
};
use crate::containers::Endpoint;
use crate::engine::label::{self, LabelMap};
use crate::id::InstanceId;

/// Oldest API version that offers everything we need.
const OLDEST: Version = Version(1, 41);
/// Newest API version whose responses we know. An engine responds in the format of the requested version.
const NEWEST: Version = Version(1, 53);
/// Oldest API version that can inspect the image of one platform.
const PLATFORMS: Version = Version(1, 49);

/// An engine with a negotiated API version. Every request uses a new connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    version: Version,
    /// Whether it is a podman service, which offers the libpod API beside docker's.
    is_podman: bool,
    /// Time limit of each request.
    limit: Duration,
}

impl Client {
    /// Negotiates the API version.
    pub(crate) async fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, CallError> {
        let response = call(endpoint, Method::GET, "/_ping", limit).await?;
        let announced = response.headers.get("api-version").and_then(|value| value.to_str().ok());
        let announced = announced.unwrap_or_default();
        match announced.parse::<Version>() {
            Ok(theirs) if theirs >= OLDEST => {
                let is_podman = response.headers.contains_key("libpod-api-version");
                let version = theirs.min(NEWEST);
                Ok(Self { endpoint: endpoint.clone(), version, is_podman, limit })
            }
            _ => Err(CallError::TooOld { found: announced.into(), wanted: OLDEST.to_string() }),
        }
    }

    /// Lists the containers with an instance's label, in any state.
    pub(crate) async fn containers_of(
        &self,
        instance: InstanceId,
    ) -> Result<Vec<ListedContainer>, CallError> {
        let listed = self.containers("label", &format!("{}={instance}", label::INSTANCE)).await?;
        // Checked here again: a removal must not depend on how an engine implements the filter.
        Ok(listed.into_iter().filter(|one| one.instance() == Some(instance)).collect())
    }

    /// Lists the containers with any instance's label, of all owners.
    pub(crate) async fn all_containers(&self) -> Result<Vec<ListedContainer>, CallError> {
        self.containers("label", label::INSTANCE).await
    }

    /// Lists the containers with this label (`name=value`), of any program.
    pub(crate) async fn labelled(&self, label: &str) -> Result<Vec<ListedContainer>, CallError> {
        self.containers("label", label).await
    }

    /// Lists all running containers, of any program.
    pub(crate) async fn running(&self) -> Result<Vec<ListedContainer>, CallError> {
        self.get("containers/json").await
    }

    /// The version of the engine.
    pub(crate) async fn version_text(&self) -> Result<String, CallError> {
        Ok(self.get::<EngineVersion>("version").await?.version)
    }

    /// Memory that a running container uses, in bytes.
    pub(crate) async fn memory_of(&self, id: &str) -> Result<Option<u64>, CallError> {
        let path = format!("containers/{}/stats?stream=0&one-shot=1", escaped(id));
        Ok(self.get::<Stats>(&path).await?.memory())
    }

    /// Lists all containers on a network, running or not, with or without labels of ours.
    pub(crate) async fn containers_on(
        &self,
        network: &str,
    ) -> Result<Vec<ListedContainer>, CallError> {
        self.containers("network", network).await
    }

    async fn containers(
        &self,
        filter: &str,
        value: &str,
    ) -> Result<Vec<ListedContainer>, CallError> {
        let filters = escaped(&json!({ filter: [value] }).to_string());
        self.get(&format!("containers/json?all=1&filters={filters}")).await
    }

    /// Inspects a container.
    pub(crate) async fn details(&self, id: &str) -> Result<ContainerDetails, CallError> {
        // Only the libpod API tells the command that created the container.
        let words = if self.is_podman { "libpod/" } else { "" };
        self.get(&format!("{words}containers/{}/json", escaped(id))).await
    }

    /// The labels of the image that a container was created from.
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
        Ok(self.get::<ImageDetails>(&path).await?.into_labels())
    }

    /// Stops a container; the engine kills it after `grace`, rounded up to whole seconds.
    pub(crate) async fn stop(&self, id: &str, grace: Duration) -> Result<(), CallError> {
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let path = format!("containers/{}/stop?t={seconds}", escaped(id));
        self.send(Method::POST, &path, self.limit + grace).await.map(drop)
    }

    /// Removes a container in any state, with its anonymous volumes.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), CallError> {
        let path = format!("containers/{}?force=1&v=1", escaped(id));
        self.send(Method::DELETE, &path, self.limit).await.map(drop)
    }

    /// Lists the networks with an instance's label.
    pub(crate) async fn networks_of(
        &self,
        instance: InstanceId,
    ) -> Result<Vec<Network>, CallError> {
        let ours = format!("{}={instance}", label::INSTANCE);
        let filters = escaped(&json!({ "label": [ours] }).to_string());
        let listed: Vec<Network> = self.get(&format!("networks?filters={filters}")).await?;
        Ok(listed.into_iter().filter(|one| one.instance() == Some(instance)).collect())
    }

    /// Removes an unused network.
    pub(crate) async fn remove_network(&self, id: &str) -> Result<(), CallError> {
        let path = format!("networks/{}", escaped(id));
        self.send(Method::DELETE, &path, self.limit).await.map(drop)
    }

    /// Inspects an exec session.
    pub(crate) async fn exec(&self, id: &str) -> Result<Exec, CallError> {
        self.get(&format!("exec/{}/json", escaped(id))).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.send(Method::GET, path, self.limit).await?.json()
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        limit: Duration,
    ) -> Result<EngineResponse, CallError> {
        let path = format!("/v{}/{path}", self.version);
        call(&self.endpoint, method, &path, limit).await
    }
}

/// An API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The text is no version.
struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.split_once('.').ok_or(NoVersion)?;
        // Podman's versions have a third part.
        let minor = minor.split('.').next().unwrap_or_default();
        let number = |part: &str| part.parse().map_err(|_| NoVersion);
        Ok(Self(number(major)?, number(minor)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let read = |text: &str| text.parse::<Version>().ok();
        assert!(read("1.9") < read("1.41"));
        assert_eq!(read("1.41.0"), read("1.41"));
        for text in ["", "1", "1.", ".41", "one.two", "-1.41"] {
            assert!(read(text).is_none(), "{text}");
        }
    }
}
