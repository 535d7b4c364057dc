//! The podman wrapper: the command that the server finds instead of podman.
//!
//! It edits the command line (labels, Door), records in the note what may be created, and executes the real podman with
//! the same process id. Apart from the cap and reserved labels nothing makes it fail: if it can't prepare the command,
//! it executes podman anyway.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::command::Podman;
use super::store::{Files, Store};
use super::{cap, find_in};
use crate::containers::{Endpoint, EngineDoor};
use crate::engine::Tool;
use crate::engine::argv::{CreateCommand, global_words, is_remote};
use crate::engine::image_command::clear_labels;
use crate::engine::label::{CALL, ReservedLabel};
use crate::engine::lead::{remove_door_address, route_to_door};
use crate::shelf::{PODMAN, Shelf, WrapperConfig};
use crate::spec::ServerSpec;
use crate::visible::Visible;

/// Podman's own exit code for a failure that is not the container's.
const NOT_DONE: i32 = 125;

/// Time limit for podman to name its store.
const STORE_LIMIT: Duration = Duration::from_secs(10);

/// Why a command is refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Cap(#[from] cap::CapError),
    #[error(transparent)]
    Label(#[from] ReservedLabel),
}

/// Executes podman with an edited command line. The kernel passes the path of the `interpreter`, then the path of the
/// script, then the server's arguments.
pub(crate) fn run(interpreter: &OsStr, arguments: impl Iterator<Item = OsString>) -> i32 {
    let shelf = Shelf::at(Path::new(interpreter).parent().unwrap_or(Path::new("")));
    let mut spec = ServerSpec {
        name: PODMAN.into(),
        program: PODMAN.into(),
        args: arguments.skip(1).collect(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    let config = shelf.config();
    let prepared = config.as_ref().map_or(Ok(()), |config| prepare(&mut spec, &shelf, config));
    let error = match prepared {
        Err(refusal) => refusal.to_string(),
        // `execute` returns only if it fails.
        Ok(()) => execute(&spec, config.map(|config| config.program), &shelf).to_string(),
    };
    complain(&error);
    NOT_DONE
}

#[expect(clippy::disallowed_methods, reason = "the command it stands for would write there")]
fn complain(error: &str) {
    let _ = writeln!(io::stderr(), "Error: ostler: {}", Visible(error));
}

/// Edits the command and writes the note. Only the cap and reserved labels are errors; other failures are ignored, so
/// that podman runs anyway.
fn prepare(spec: &mut ServerSpec, shelf: &Shelf, config: &WrapperConfig) -> Result<(), Refusal> {
    if config.is_local {
        remove_door_address(spec, &config.engines);
    }
    if let Some(socket) = door_of(spec, config) {
        route_to_door(spec, Tool::Podman, socket);
        return Ok(());
    }
    let Some(create) = CreateCommand::of(spec) else { return Ok(clear_labels(spec)?) };
    let WrapperConfig { labels, book, cap, .. } = config;
    create.check_labels(labels)?;
    let podman = Podman::direct(config.program.clone(), spec.env.clone());
    // A failure is tolerable: the container's processes end with the server in any case, only podman's database does not
    // learn of it.
    if let Some(store) = store_of(spec, &podman, config) {
        let _ = store.note(create.kind(), book, labels.instance);
    }
    let call = match (create.is_container(), cap) {
        (true, Some(cap)) => Some(cap::reserve(&podman, shelf, book, labels.instance, *cap)?),
        // The unique value proves later that the container did not inherit its labels.
        (true, None) => cap::own_call().ok(),
        (false, _) => None,
    };
    create.add_labels(spec, labels, call.map(|call| (CALL, call)));
    Ok(())
}

/// The Door to the service that the command would use, if there is one.
fn door_of<'a>(spec: &ServerSpec, config: &'a WrapperConfig) -> Option<&'a Path> {
    let endpoint = Endpoint::of(spec, Tool::Podman).ok().filter(|_| is_remote(spec))?;
    let leads_there = |way: &&EngineDoor| {
        way.endpoint == endpoint || matches!(&endpoint, Endpoint::Unix(path) if *path == way.socket)
    };
    config.engines.iter().find(leads_there).map(|way| way.socket.as_path())
}

/// The store in which the command would create something, according to podman with the command's own flags and
/// variables.
fn store_of(spec: &ServerSpec, podman: &Podman, config: &WrapperConfig) -> Option<Store> {
    if is_remote(spec) {
        return Store::service(&Endpoint::of(spec, Tool::Podman).ok()?);
    }
    let flags = global_words(spec);
    let files = podman.files(flags, STORE_LIMIT).ok()?;
    let is_default = flags.is_empty() && config.podman.is_like(&spec.env);
    let runtime = spec.env.iter().find(|(name, _)| name == "XDG_RUNTIME_DIR");
    let runtime = runtime.map(|(_, path)| PathBuf::from(path));
    Store::local(Files { runtime, is_default, ..files })
}

/// Executes the real command, or if that is gone the next podman on the `PATH`.
fn execute(spec: &ServerSpec, program: Option<PathBuf>, shelf: &Shelf) -> io::Error {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let next = find_in(&path, |place| !shelf.is_at(place));
    let mut last = io::ErrorKind::NotFound.into();
    for program in program.into_iter().chain(next) {
        let mut command = Command::new(&program);
        // `argv[0]` is the full path, because podman executes itself again by it for an unprivileged user.
        last = command.args(&spec.args).env_clear().envs(spec.env.iter().cloned()).exec();
    }
    last
}
