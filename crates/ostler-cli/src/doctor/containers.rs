//! Finds containers that Docker's MCP gateway left behind.
//!
//! The gateway runs each server as `docker run -i` with labels that name the server; no label names the gateway. The
//! docker command is the container's client. So a container is left over if it was created with a client and no running
//! docker command can be that client: none for a server of that name that started shortly before the container was
//! created, and none that names the container. Containers are judged only if all possible clients are visible: the
//! engine is on this machine, the command lines of other users are readable, and no gateway runs in a container.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler::Endpoint;
use ostler::foreign::{ForeignContainer, FoundEngine, labelled, memory_of, running_images};

use super::find::{Certainty, Find, FindId, FoundContainer, Kind};
use super::scan::sees_everyone;
use super::table::{Seen, Table};

/// Label of all containers of the gateway, and label with the server's name.
const GATEWAY: (&str, &str) = ("docker-mcp", "true");
const SERVER: &str = "docker-mcp-name";
/// Image of a gateway that runs in a container itself.
const GATEWAY_IMAGE: &str = "docker/mcp-gateway";
/// Timeout for a query to an engine.
const LIMIT: Duration = Duration::from_secs(2);
/// Longest time between the start of the client and the creation of its container, in milliseconds, on a loaded
/// machine.
const CREATED_WITHIN: u64 = 120_000;
/// Tolerance in milliseconds: the engine reports times in whole seconds.
const TOLERANCE: u64 = 2000;

/// Containers that were left over, and notes about those that could not be judged.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    pub(crate) finds: Vec<(Find, Endpoint, ForeignContainer)>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn containers(table: &Table, engines: &[FoundEngine]) -> Containers {
    let mut all = Containers::default();
    for engine in engines.iter().filter(|engine| engine.version.is_ok()) {
        match of_engine(table, engine) {
            Ok(finds) => all.finds.extend(finds),
            Err(note) => all.notes.push(note),
        }
    }
    all
}

fn of_engine(
    table: &Table,
    engine: &FoundEngine,
) -> Result<Vec<(Find, Endpoint, ForeignContainer)>, String> {
    let endpoint = &engine.endpoint;
    let found = labelled(endpoint, GATEWAY, LIMIT).map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let unjudged = |why: &str| {
        Err(format!(
            "{} containers of Docker's MCP gateway at {endpoint} were not judged: {why}",
            found.len()
        ))
    };
    if !engine.is_local {
        return unjudged("their clients may be on another machine");
    }
    if !sees_everyone() {
        return unjudged("the processes of other users can't be seen");
    }
    let images = running_images(endpoint, LIMIT).map_err(|error| error.to_string())?;
    if images.iter().any(|image| image.contains(GATEWAY_IMAGE)) {
        return unjudged("a gateway runs in a container, whose processes can't be seen");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let left = found.into_iter().filter(|one| is_left(table, one, now));
    Ok(left.map(|one| (find(&one, endpoint, now), endpoint.clone(), one)).collect())
}

/// Whether no running process can be the container's client.
fn is_left(table: &Table, container: &ForeignContainer, now: u64) -> bool {
    !container.is_detached
        && !container.labels.contains_key("ostler.instance")
        && !table.all().any(|one| !one.is_zombie && may_be_client(one, container, now))
}

fn may_be_client(process: &Seen, container: &ForeignContainer, now: u64) -> bool {
    let program = process.words.first().map(String::as_str).unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    if program != "docker" && program != "podman" {
        return false;
    }
    let short: String = container.id.chars().take(12).collect();
    let is_named =
        |word: &String| word.contains(&short) || container.names.iter().any(|name| word == name);
    if process.words.iter().any(is_named) {
        return true;
    }
    let Some(server) = container.labels.get(SERVER) else { return true };
    let label = format!("{SERVER}={server}");
    let begun = now.saturating_sub(process.age);
    let created = created(container);
    let is_before = begun <= created + TOLERANCE && created <= begun + CREATED_WITHIN;
    process.words.iter().any(|word| word.ends_with(&label)) && is_before
}

/// Creation time in milliseconds since 1970.
fn created(container: &ForeignContainer) -> u64 {
    u64::try_from(container.created).unwrap_or_default() * 1000
}

fn find(container: &ForeignContainer, endpoint: &Endpoint, now: u64) -> Find {
    let ForeignContainer { id, names, image, state, labels, .. } = container;
    let server = labels.get(SERVER).cloned().unwrap_or_else(|| image.clone());
    let name = names.first().cloned().unwrap_or_default();
    let find_id = FindId::of_container(id);
    let short: String = id.chars().take(12).collect();
    Find {
        action: Some(format!("ostler reap {find_id} --yes")),
        id: find_id,
        kind: Kind::OrphanedContainer,
        certainty: Certainty::Likely,
        command: format!("container {short} {name} ({image}, {state})"),
        host: Some("Docker's MCP gateway".to_owned()),
        evidence: vec![
            format!("it has the labels {}={} and {SERVER}={server}", GATEWAY.0, GATEWAY.1),
            "it was made to have a client: its streams were attached".to_owned(),
            "no docker command runs that could be its client".to_owned(),
        ],
        server,
        age: now.saturating_sub(created(container)),
        memory: memory_of(endpoint, id, LIMIT).unwrap_or_default(),
        processes: Vec::new(),
        container: Some(FoundContainer {
            id: id.clone(),
            name,
            image: image.clone(),
            state: state.clone(),
            engine: endpoint.to_string(),
        }),
    }
}
