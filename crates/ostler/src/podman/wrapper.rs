//! The wrapper: podman, as the server finds it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::command::Podman;
use super::store::{Files, Store};
use super::{find_in, room};
use crate::containers::{Endpoint, EngineDoor};
use crate::engine::Tool;
use crate::engine::argv::{Creation, global_words, is_remote};
use crate::engine::image_command::clear_labels;
use crate::engine::label::{CALL, ReservedLabel};
use crate::engine::lead::{lead, release};
use crate::shelf::{PODMAN, Shelf, WrapperConfig};
use crate::spec::ServerSpec;
use crate::visible::Visible;

/// What podman itself exits with when it is not its container that has failed.
const NOT_DONE: i32 = 125;

/// For podman to say where it keeps containers.
const STORE_LIMIT: Duration = Duration::from_secs(10);

/// Why a command is not carried out.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    NoRoom(#[from] room::NoRoom),
    #[error(transparent)]
    Label(#[from] ReservedLabel),
}

/// Becomes podman, with labels on what that creates. The kernel gives the `interpreter` of a script by
/// its path, then that of the script, and then what the server has said.
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
        // It returns only if it fails.
        Ok(()) => execute(&spec, config.map(|config| config.program), &shelf).to_string(),
    };
    complain(&error);
    NOT_DONE
}

#[expect(clippy::disallowed_methods, reason = "the command it stands for would write there")]
fn complain(error: &str) {
    let _ = writeln!(io::stderr(), "Error: ostler: {}", Visible(error));
}

/// Changes what has to be changed, and puts on record what has to be. Only a cap, and a label that is not the
/// command's to set, may refuse it: for whatever else goes wrong the command is run as well as it can be.
fn prepare(spec: &mut ServerSpec, shelf: &Shelf, config: &WrapperConfig) -> Result<(), Refusal> {
    if config.is_local {
        release(spec, &config.engines);
    }
    if let Some(socket) = door_of(spec, config) {
        lead(spec, Tool::Podman, socket);
        return Ok(());
    }
    let Some(creation) = Creation::of(spec) else { return Ok(clear_labels(spec)?) };
    let WrapperConfig { labels, book, cap, .. } = config;
    creation.check_labels(labels)?;
    let podman = Podman::direct(config.program.clone(), spec.env.clone());
    // What is not on record ends with the server as well; only podman's books will not know.
    if let Some(store) = store_of(spec, &podman, config) {
        let _ = store.note(creation.thing(), book, labels.instance);
    }
    let call = match (creation.is_container(), cap) {
        (true, Some(cap)) => Some(room::take(&podman, shelf, book, labels.instance, *cap)?),
        // By this it shows later that its image has not passed on the labels.
        (true, None) => room::own_call().ok(),
        (false, _) => None,
    };
    creation.mark(spec, labels, call.map(|call| (CALL, call)));
    Ok(())
}

/// The server's own socket to the service that the command would ask, if there is one.
fn door_of<'a>(spec: &ServerSpec, config: &'a WrapperConfig) -> Option<&'a Path> {
    let endpoint = Endpoint::of(spec, Tool::Podman).ok().filter(|_| is_remote(spec))?;
    let leads_there = |way: &&EngineDoor| {
        way.endpoint == endpoint || matches!(&endpoint, Endpoint::Unix(path) if *path == way.socket)
    };
    config.engines.iter().find(leads_there).map(|way| way.socket.as_path())
}

/// Where the command would create something, as podman itself says with the command's own flags and variables.
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

/// The real command, or if that has gone the next one that the server would have found.
fn execute(spec: &ServerSpec, program: Option<PathBuf>, shelf: &Shelf) -> io::Error {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let next = find_in(&path, |place| !shelf.is_at(place));
    let mut last = io::ErrorKind::NotFound.into();
    for program in program.into_iter().chain(next) {
        let mut command = Command::new(&program);
        // Under its full name, by which an unprivileged user's podman calls itself again.
        last = command.args(&spec.args).env_clear().envs(spec.env.iter().cloned()).exec();
    }
    last
}
