//! Which ways to containers a server has, and how it is led to them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::place::{script_path, socket_path};
use super::socket_name;
use crate::containers::{Endpoint, Engine, EngineDoor, Labels, Ways};
use crate::engine::Tool;
use crate::engine::argv::{is_remote, podman_program};
use crate::engine::lead::{lead, stamp};
use crate::engine::stream::SURROUNDINGS;
use crate::fence::StartError;
use crate::id::{InstanceId, OwnerId};
use crate::ledger::Intent;
use crate::level::Level;
use crate::limits::Limits;
use crate::podman::{self, Podman};
use crate::shelf::Shelf;
use crate::spec::ServerSpec;
use crate::terms::Terms;
use crate::wire::porter::{PorterConfig, WrappedPodman};

/// Said of a server whose ostler runs inside of another server: what it creates is that one's.
const ENCLOSED: &str = "they end with the server that this ostler runs in";

/// What was found prior the server is started.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ways: Ways,
    /// Which command is led to which of the engines.
    led: Vec<(Tool, usize)>,
    /// The podman command that is wrapped.
    podman: Option<WrappedPodman>,
    /// Why its containers can't be followed, although they should be.
    pub(crate) unfollowed: Option<String>,
    /// Why there is no place for a socket. Told later: without one there is none for the ledger either.
    pub(crate) no_door: Option<io::Error>,
}

impl Found {
    /// Which engines its containers would be in, and where its own sockets to those can be.
    pub(crate) fn of(
        instance: InstanceId,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Self, StartError> {
        let engine = terms.engine;
        let mut found = Self::default();
        let tools = Tool::followed(spec, engine);
        if tools.contains(&Tool::Podman) {
            found.wrap_podman(instance, spec, terms.containment.minimum());
        }
        for tool in tools {
            match Endpoint::of(spec, *tool) {
                Ok(Endpoint::Unix(socket)) if is_door(&socket) => found.leave_to_enclosing(),
                Ok(endpoint) if is_served(&endpoint, *tool) => {
                    found.add(instance, *tool, endpoint);
                }
                // The wrapper knows how to do without, and what to make of it.
                _ if *tool == Tool::Podman && found.podman.is_some() => {}
                // Only whoever means podman alone misses it.
                Ok(endpoint) if tools.len() == 1 => {
                    let reason = format!("no podman service answers at {endpoint}");
                    found.unfollowed.get_or_insert(reason);
                }
                Ok(_) => {}
                // Its own command could not find it either.
                Err(error) if engine == Engine::Auto => found.unfollowed = Some(error.to_string()),
                Err(error) => return Err(StartError::Engine(error)),
            }
        }
        Ok(found)
    }

    /// Finds a place for the wrapper, if there is a command to wrap.
    fn wrap_podman(&mut self, instance: InstanceId, spec: &ServerSpec, level: Level) {
        let Some(program) = podman::find(spec) else { return };
        if Shelf::holds(&program) {
            return self.leave_to_enclosing();
        }
        let placed = own_program().and_then(|own| Ok((own, script_path(&Shelf::name(instance))?)));
        match placed {
            Ok((own, place)) => {
                self.ways.shelf = Some(place);
                let podman = Podman::of(program.clone(), spec, level);
                let is_local = !is_remote(spec);
                self.podman = Some(WrappedPodman { program, podman, own, is_local });
            }
            Err(error) => self.unfollowed = Some(format!("podman can't be wrapped: {error}")),
        }
    }

    fn leave_to_enclosing(&mut self) {
        self.unfollowed.get_or_insert_with(|| ENCLOSED.to_owned());
    }

    fn add(&mut self, instance: InstanceId, tool: Tool, endpoint: Endpoint) {
        let engines = &mut self.ways.engines;
        // Podman's service may be docker's engine as well.
        let number = engines.iter().position(|known| known.endpoint == endpoint);
        let number = number.unwrap_or(engines.len());
        if number == engines.len() {
            match socket_path(&socket_name(instance, number)) {
                Ok(socket) => engines.push(EngineDoor { endpoint, socket }),
                Err(error) => return self.no_door = Some(error),
            }
        }
        self.led.push((tool, number));
    }

    /// What a porter has to know, if there is anything to do for one.
    pub(crate) fn service(
        &self,
        (intent, owner): (&Intent, OwnerId),
        book: &Path,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Option<PorterConfig> {
        if self.ways == Ways::default() {
            return None;
        }
        let Limits { containers: limit, late_create, .. } = terms.limits;
        Some(PorterConfig {
            labels: Labels { instance: intent.instance, owner, server: intent.name.clone() },
            cap: terms.resources.containers,
            ways: self.ways.clone(),
            podman: self.podman.clone(),
            book: book.to_owned(),
            surroundings: surroundings(&self.ways, spec),
            limit,
            late_create,
        })
    }

    /// Leaves the server no way to containers but these.
    pub(crate) fn lead(&self, spec: &mut ServerSpec, labels: &Labels) {
        stamp(spec, labels);
        for (tool, number) in &self.led {
            if let Some(EngineDoor { socket, .. }) = self.ways.engines.get(*number) {
                lead(spec, *tool, socket);
            }
        }
        if let Some(shelf) = &self.ways.shelf {
            let is_podman = podman_program(spec).is_some();
            Shelf::at(shelf).lead(spec, is_podman);
        }
    }
}

/// Whether the server's own command makes a container.
#[cfg(feature = "keeper")]
pub(crate) fn makes_container(spec: &ServerSpec) -> bool {
    let creation = crate::engine::argv::Creation::of(spec);
    creation.is_some_and(|creation| creation.is_container())
}

/// The program that this process is. If that was replaced meanwhile, its successor will do.
fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let bytes = path.as_os_str().as_bytes();
    let path = PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)));
    fs::metadata(&path).map(|_| path)
}

/// What a porter has to know of the server's environment. For most engines that is nothing.
fn surroundings(ways: &Ways, spec: &ServerSpec) -> Vec<(OsString, OsString)> {
    let is_needed = |name: &OsString| SURROUNDINGS.iter().any(|needed| name == needed);
    if ways.engines.iter().any(|way| matches!(way.endpoint, Endpoint::Ssh(_))) {
        return spec.env.iter().filter(|(name, _)| is_needed(name)).cloned().collect();
    }
    Vec::new()
}

/// Whether this is the socket of a Door, of whatever instance.
fn is_door(socket: &Path) -> bool {
    let name = socket.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.strip_suffix(".sock").and_then(|name| name.split('.').next());
    id.is_some_and(|id| id.parse::<InstanceId>().is_ok())
}

/// Podman needs no service, and would fail if it were told of one that is not there; and what is
/// behind ssh is reached by docker's command. A docker engine may be started later.
fn is_served(endpoint: &Endpoint, tool: Tool) -> bool {
    match (tool, endpoint) {
        (Tool::Docker, _) | (Tool::Podman, Endpoint::Tcp { .. }) => true,
        (Tool::Podman, Endpoint::Unix(socket)) => UnixStream::connect(socket).is_ok(),
        (Tool::Podman, Endpoint::Ssh(_)) => false,
    }
}
