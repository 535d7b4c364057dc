//! Finds a server's ways to containers before its start, and points the server to them.
//!
//! For each tool that is tracked (docker, podman), the engine that the tool would use gets a Door. A podman command gets
//! a wrapper too. Nothing is created here: the guardian creates sockets and shelf once the intent is recorded.

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
use crate::engine::lead::{label_own_container, route_to_door};
use crate::engine::stream::SSH_VARIABLES;
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

/// The reason if this ostler itself runs inside a server: that server's Door or wrapper tracks the containers.
const ENCLOSED: &str = "they end with the server that this ostler runs in";

/// A server's ways to containers, as found before its start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ways: Ways,
    /// The tools, each with the index of its engine in `ways.engines`.
    routes: Vec<(Tool, usize)>,
    podman: Option<WrappedPodman>,
    /// Why the server's containers can't be tracked although they should be.
    pub(crate) unfollowed: Option<String>,
    /// Why no directory can hold a socket. Reported only after the ledger was opened, which may fail for the same
    /// reason.
    pub(crate) no_door: Option<io::Error>,
}

impl Found {
    /// Finds the engines that the server would use, and paths for its sockets.
    pub(crate) fn of(
        instance: InstanceId,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Self, StartError> {
        let engine = terms.engine;
        let mut found = Self::default();
        let tools = Tool::tracked(spec, engine);
        if tools.contains(&Tool::Podman) {
            found.wrap_podman(instance, spec, terms.containment.minimum());
        }
        for tool in tools {
            match Endpoint::of(spec, *tool) {
                Ok(Endpoint::Unix(socket)) if is_door(&socket) => found.leave_to_enclosing(),
                Ok(endpoint) if is_served(&endpoint, *tool) => {
                    found.add(instance, *tool, endpoint);
                }
                // The wrapper works without a service.
                _ if *tool == Tool::Podman && found.podman.is_some() => {}
                // A missing podman service matters only if podman is the only tool.
                Ok(endpoint) if tools.len() == 1 => {
                    let reason = format!("no podman service answers at {endpoint}");
                    found.unfollowed.get_or_insert(reason);
                }
                Ok(_) => {}
                // With `auto` this is no error: the server's own commands could not find the engine either.
                Err(error) if engine == Engine::Auto => found.unfollowed = Some(error.to_string()),
                Err(error) => return Err(StartError::Engine(error)),
            }
        }
        Ok(found)
    }

    /// Finds the podman command, and a directory for its wrapper.
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
        // Docker's engine may be a podman service, so both tools may use the same one.
        let number = engines.iter().position(|known| known.endpoint == endpoint);
        let number = number.unwrap_or(engines.len());
        if number == engines.len() {
            match socket_path(&socket_name(instance, number)) {
                Ok(socket) => engines.push(EngineDoor { endpoint, socket }),
                Err(error) => return self.no_door = Some(error),
            }
        }
        self.routes.push((tool, number));
    }

    /// Configuration of the porter; `None` if the server has no ways to containers.
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
            environment: environment(&self.ways, spec),
            limit,
            late_create,
        })
    }

    /// Points the server's environment and command line to its Doors and its shelf.
    pub(crate) fn lead(&self, spec: &mut ServerSpec, labels: &Labels) {
        label_own_container(spec, labels);
        for (tool, number) in &self.routes {
            if let Some(EngineDoor { socket, .. }) = self.ways.engines.get(*number) {
                route_to_door(spec, *tool, socket);
            }
        }
        if let Some(shelf) = &self.ways.shelf {
            let is_podman = podman_program(spec).is_some();
            Shelf::at(shelf).lead(spec, is_podman);
        }
    }
}

/// Whether the server's own command creates a container.
#[cfg(feature = "keeper")]
pub(crate) fn makes_container(spec: &ServerSpec) -> bool {
    let create = crate::engine::argv::CreateCommand::of(spec);
    create.is_some_and(|create| create.is_container())
}

/// Path of our own executable. If an upgrade replaced the file, the new one is used.
fn own_program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let bytes = path.as_os_str().as_bytes();
    let path = PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)));
    fs::metadata(&path).map(|_| path)
}

/// The part of the server's environment that the porter needs: nothing, unless an engine is reached by ssh.
fn environment(ways: &Ways, spec: &ServerSpec) -> Vec<(OsString, OsString)> {
    let is_needed = |name: &OsString| SSH_VARIABLES.iter().any(|needed| name == needed);
    if ways.engines.iter().any(|way| matches!(way.endpoint, Endpoint::Ssh(_))) {
        return spec.env.iter().filter(|(name, _)| is_needed(name)).cloned().collect();
    }
    Vec::new()
}

/// Whether this is the socket of a Door of any instance.
fn is_door(socket: &Path) -> bool {
    let name = socket.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = name.strip_suffix(".sock").and_then(|name| name.split('.').next());
    id.is_some_and(|id| id.parse::<InstanceId>().is_ok())
}

/// Whether the tool should get a Door to this engine.
///
/// A docker engine may be started later. Podman works without a service, and would fail if it were pointed to one that
/// does not run. Podman by ssh is not supported, because the Door reaches ssh engines through the docker command.
fn is_served(endpoint: &Endpoint, tool: Tool) -> bool {
    match (tool, endpoint) {
        (Tool::Docker, _) | (Tool::Podman, Endpoint::Tcp { .. }) => true,
        (Tool::Podman, Endpoint::Unix(socket)) => UnixStream::connect(socket).is_ok(),
        (Tool::Podman, Endpoint::Ssh(_)) => false,
    }
}
