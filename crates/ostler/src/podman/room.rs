//! The cap on containers, as far as podman's own books go.
//!
//! A call that counts can't see what another call is about to create. So each call has a
//! [label](crate::engine::label::CALL) of its own, and notes it beforehand: it counts for as long as it runs and
//! its container is not listed.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::answers::Listed;
use super::clear::listed;
use super::command::{NoAnswer, Podman};
use super::store::noted;
use crate::id::InstanceId;
use crate::proctable::Identity;
use crate::shelf::Shelf;

/// For podman to say how many there are.
const COUNT_LIMIT: Duration = Duration::from_secs(10);
/// For other calls to be counted first.
const TURN_LIMIT: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Why nothing may be created.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRoom {
    #[error("this server has reached its limit of {0} containers")]
    Full(NonZeroUsize),
    #[error("this server's containers can't be counted: podman: {0}")]
    Uncounted(#[from] NoAnswer),
    #[error("this server's containers can't be counted: {0}")]
    Unrecorded(#[from] io::Error),
}

/// Takes a place for what this process is about to create, and returns the value of its [label](own_call).
pub(super) fn take(
    podman: &Podman,
    shelf: &Shelf,
    book: &Path,
    instance: InstanceId,
    cap: NonZeroUsize,
) -> Result<String, NoRoom> {
    let own = own_call()?;
    // Let go of when this process becomes podman, or ends.
    let mut file = turn(&shelf.calls())?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Looked at before what is listed: one that ends meanwhile would be in neither.
    let running: Vec<&str> = text.lines().filter(|line| is_alive(line)).collect();
    let mut containers = Vec::new();
    for store in noted(book, instance)?.keys() {
        containers.extend(listed(podman, store, instance, COUNT_LIMIT)?);
    }
    let seen: BTreeSet<&str> = containers.iter().filter_map(Listed::call).collect();
    let pending: Vec<&str> = running.into_iter().filter(|line| !seen.contains(line)).collect();
    let count = containers.iter().filter(|one| !one.is_infra()).count();
    if count + pending.len() >= cap.get() {
        return Err(NoRoom::Full(cap));
    }
    file.set_len(0)?;
    file.rewind()?;
    for line in pending.iter().copied().chain([own.as_str()]) {
        writeln!(file, "{line}")?;
    }
    Ok(own)
}

/// The value of this process's label, which no other call has.
pub(super) fn own_call() -> io::Result<String> {
    let Identity { pid, start } = Identity::own().ok_or(io::ErrorKind::NotFound)?;
    Ok(format!("{pid}-{start}"))
}

fn turn(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    let deadline = Instant::now() + TURN_LIMIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(BETWEEN_TRIES),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// A process keeps its identity when it becomes podman.
fn is_alive(call: &str) -> bool {
    let read = |(pid, start): (&str, &str)| {
        Some(Identity { pid: pid.parse().ok()?, start: start.parse().ok()? })
    };
    call.split_once('-').and_then(read).is_some_and(Identity::is_alive)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};
    use std::thread::Builder;

    use super::*;
    use crate::engine::argv::Thing;
    use crate::podman::store::{Files, Store};

    /// Podman lists nothing yet, and before it says so the other call has created its container and ended.
    #[test]
    fn a_call_that_ends_while_containers_are_counted_counts() {
        let directory = tempfile::tempdir().unwrap();
        let mut other = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (pid, place) = (other.id(), directory.path());
        let podman = place.join("podman");
        let text = format!(
            "#!/bin/sh\nkill {pid}; while kill -0 {pid}; do sleep 0.01; done 2> /dev/null; echo '[]'\n"
        );
        fs::write(&podman, text).unwrap();
        fs::set_permissions(&podman, fs::Permissions::from_mode(0o700)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let podman = Podman::direct(podman, vec![("PATH".into(), path.into())]);
        let (root, runroot) = (place.join("root"), place.join("runroot"));
        let store = Files { root, runroot, driver: "vfs".into(), runtime: None, is_default: false };
        let store = Store::local(store).unwrap();
        let instance = InstanceId::random().unwrap();
        fs::write(place.join("ledger"), "").unwrap();
        store.note(Thing::Container, place, instance).unwrap();
        let identity = Identity::of(pid.cast_signed()).unwrap();
        let shelf = Shelf::at(place);
        fs::write(shelf.calls(), format!("{}-{}\n", identity.pid, identity.start)).unwrap();
        let reaper = Builder::new().spawn(move || other.wait().unwrap()).unwrap();
        let taken = take(&podman, &shelf, place, instance, NonZeroUsize::MIN);
        assert!(matches!(taken, Err(NoRoom::Full(_))), "{taken:?}");
        reaper.join().unwrap();
    }
}
