//! Containers of other programs: finds the engines, lists containers by label, and removes a container.
//!
//! Nothing here looks at ostler's own labels. A container is removed only by its full id, and only if the engine still
//! lists it with exactly the labels that it was found with. Every query has a time limit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::containers::{Endpoint, Unreachable};
use crate::engine::call::CallError;
use crate::engine::clear::block_on;
use crate::engine::{Client, ListedContainer, Tool};
use crate::spec::ServerSpec;

/// Delay between two checks whether a container is gone.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// A container engine that `docker` or `podman` would use in this environment.
#[derive(Clone, Debug)]
pub struct FoundEngine {
    /// Command of the engine: `docker` or `podman`.
    pub command: &'static str,
    /// Address of the engine.
    pub endpoint: Endpoint,
    /// Version of the engine, or why it is unknown.
    pub version: Result<String, Unreachable>,
    /// Whether the process behind the socket is in this PID namespace, so that the engine's clients are visible here.
    pub is_local: bool,
}

/// A container as reported by its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignContainer {
    /// Full id.
    pub id: String,
    /// Names of the container.
    pub names: Vec<String>,
    /// Image that it was created from.
    pub image: String,
    /// State, in the engine's words.
    pub state: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Creation time in seconds since 1970.
    pub created: i64,
    /// Whether it was created to run without a client.
    pub is_detached: bool,
}

/// Why a container was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The engine does not answer, or refuses.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// The engine has no container with this id and these labels.
    #[error("the engine has no such container with the same labels any more")]
    Changed,
    /// The engine still lists the container, in this state.
    #[error("the engine still lists it as {0}")]
    StillThere(String),
}

/// Finds the engines that `docker` and `podman` would use in this environment, and queries each version within `limit`.
pub fn engines(limit: Duration) -> Vec<FoundEngine> {
    let spec = |program: &str| ServerSpec {
        name: program.to_owned(),
        program: OsString::from(program),
        args: Vec::new(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    let tools = [("docker", Tool::Docker), ("podman", Tool::Podman)];
    let found = tools
        .into_iter()
        .filter_map(|(command, tool)| Some((command, Endpoint::of(&spec(command), tool).ok()?)));
    let mut engines: Vec<FoundEngine> = Vec::new();
    for (command, endpoint) in found {
        // Docker's command may be configured to use Podman's service.
        if !engines.iter().any(|known| known.endpoint == endpoint) {
            engines.push(ask_version(command, endpoint, limit));
        }
    }
    engines
}

fn ask_version(command: &'static str, endpoint: Endpoint, limit: Duration) -> FoundEngine {
    let asked = async {
        let version = within(&endpoint, limit, async {
            Client::connect(&endpoint, limit).await?.version_text().await
        });
        (version.await, is_local(&endpoint).await)
    };
    let (version, is_local) = block_on(asked).unwrap_or_else(|error| {
        let reason = error.to_string();
        (Err(Unreachable { endpoint: endpoint.to_string(), reason }), false)
    });
    FoundEngine { command, endpoint, version, is_local }
}

/// Whether the engine's process is in this PID namespace: the kernel reports no pid for a peer in another one.
async fn is_local(endpoint: &Endpoint) -> bool {
    let Endpoint::Unix(path) = endpoint else { return false };
    let Ok(stream) = UnixStream::connect(path).await else { return false };
    stream.peer_cred().is_ok_and(|peer| peer.pid().is_some_and(|pid| pid > 0))
}

/// Lists containers with this label (name and value), in any state.
pub fn labelled(
    endpoint: &Endpoint,
    label: (&str, &str),
    limit: Duration,
) -> Result<Vec<ForeignContainer>, Unreachable> {
    blocking(endpoint, within(endpoint, limit, list(endpoint, label, limit)))
}

async fn list(
    endpoint: &Endpoint,
    (name, value): (&str, &str),
    limit: Duration,
) -> Result<Vec<ForeignContainer>, CallError> {
    let client = Client::connect(endpoint, limit).await?;
    let mut found = Vec::new();
    for listed in client.labelled(&format!("{name}={value}")).await? {
        // The label is checked again, because engines interpret filters differently.
        if listed.label(name) == Some(value) {
            let is_detached = client.details(&listed.id).await?.is_detached();
            found.push(foreign(listed, is_detached));
        }
    }
    Ok(found)
}

fn foreign(listed: ListedContainer, is_detached: bool) -> ForeignContainer {
    let (names, image) = (listed.plain_names(), listed.image().to_owned());
    let (state, created) = (listed.state().to_owned(), listed.created());
    let labels = listed.labels().clone();
    ForeignContainer { id: listed.id, names, image, state, labels, created, is_detached }
}

/// Memory that a container uses, in bytes; `None` if the engine does not report it in time, as some take seconds.
pub fn memory_of(endpoint: &Endpoint, id: &str, limit: Duration) -> Option<u64> {
    let memory = async { Client::connect(endpoint, limit).await?.memory_of(id).await };
    blocking(endpoint, within(endpoint, limit, memory)).ok().flatten()
}

/// Images of all running containers.
pub fn running_images(endpoint: &Endpoint, limit: Duration) -> Result<Vec<String>, Unreachable> {
    let images = async {
        let running = Client::connect(endpoint, limit).await?.running().await?;
        Ok(running.iter().map(|one| one.image().to_owned()).collect())
    };
    blocking(endpoint, within(endpoint, limit, images))
}

/// Stops and removes a container and its anonymous volumes. Checks its id and labels first; the engine's list proves
/// that it is gone.
pub fn remove(
    endpoint: &Endpoint,
    container: &ForeignContainer,
    grace: Duration,
    limit: Duration,
) -> Result<(), RemoveError> {
    let Some(label) = container.labels.iter().next() else { return Err(RemoveError::Changed) };
    let label = format!("{}={}", label.0, label.1);
    let ending = async {
        let client = Client::connect(endpoint, limit).await?;
        let mut there = find(&client, &label, container).await?;
        if there.is_none() {
            return Ok(Err(RemoveError::Changed));
        }
        // The results are ignored: only the list shows whether the container is gone.
        let _ = client.stop(&container.id, grace).await;
        let _ = client.remove(&container.id).await;
        for _ in 0..limit.as_millis() / BETWEEN_LOOKS.as_millis() {
            there = find(&client, &label, container).await?;
            if there.is_none() {
                return Ok(Ok(()));
            }
            sleep(BETWEEN_LOOKS).await;
        }
        Ok(Err(RemoveError::StillThere(there.unwrap_or_default())))
    };
    blocking(endpoint, within(endpoint, grace + limit * 3, ending))?
}

/// State of the container, if the engine lists it with the same labels.
async fn find(
    client: &Client,
    label: &str,
    container: &ForeignContainer,
) -> Result<Option<String>, CallError> {
    let listed = client.labelled(label).await?;
    let is_same =
        |one: &&ListedContainer| one.id == container.id && *one.labels() == container.labels;
    Ok(listed.iter().find(is_same).map(|one| one.state().to_owned()))
}

async fn within<T>(
    endpoint: &Endpoint,
    limit: Duration,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Result<T, Unreachable> {
    let answer = timeout(limit, answer).await.unwrap_or(Err(CallError::TooLate(limit)));
    answer.map_err(|error| unreachable(endpoint, &error))
}

fn blocking<T>(
    endpoint: &Endpoint,
    answer: impl Future<Output = Result<T, Unreachable>>,
) -> Result<T, Unreachable> {
    block_on(answer).map_err(|error| unreachable(endpoint, &error))?
}

fn unreachable(endpoint: &Endpoint, error: &dyn std::error::Error) -> Unreachable {
    Unreachable { endpoint: endpoint.to_string(), reason: error.to_string() }
}
