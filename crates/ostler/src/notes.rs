//! Notes: files beside the ledger which say that an instance may have containers.
//!
//! A [Door](crate::door) writes one for containers in an engine, the podman [wrapper](crate::podman) for containers in
//! podman's own store. Only their writers know the content. For all others the existence of a note is enough: the engine
//! must be asked before the instance can be reported as gone.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::containers::Ways;
use crate::id::InstanceId;
use crate::ledger;

/// Path of the note of the Door with this socket: beside the ledger, named after the socket.
pub(crate) fn door_note(book: &Path, socket: &Path) -> PathBuf {
    book.join(socket.file_name().unwrap_or_default()).with_extension("door")
}

/// Path of the note about podman's own store.
pub(crate) fn podman_note(book: &Path, instance: InstanceId) -> PathBuf {
    book.join(format!("{instance}.podman"))
}

/// Whether a note says that the instance may have containers.
pub(crate) fn is_noted(book: &Path, instance: InstanceId, ways: &Ways) -> bool {
    let mut doors = ways.engines.iter().map(|way| door_note(book, &way.socket));
    doors.any(|note| !is_absent(&note)) || is_podman_noted(book, instance)
}

/// Whether the note certainly does not exist. One that cannot be examined counts as existing.
fn is_absent(note: &Path) -> bool {
    fs::symlink_metadata(note).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a note says that the instance may have anything in podman's own store. At `strict` the note exists from
/// the start, and counts once it is not empty.
pub(crate) fn is_podman_noted(book: &Path, instance: InstanceId) -> bool {
    let note = podman_note(book, instance);
    fs::symlink_metadata(note).is_ok_and(|found| !found.is_file() || found.len() > 0)
}

/// Creates an empty note and flushes it to disk, for a server that cannot create one itself.
pub(crate) fn make_podman_note(book: &Path, instance: InstanceId) -> io::Result<PathBuf> {
    let path = podman_note(book, instance);
    File::options().write(true).create_new(true).open(&path)?.sync_all()?;
    ledger::sync(book)?;
    Ok(path)
}

/// Removes the note. If that fails, the next sweep asks podman again.
pub(crate) fn remove_podman_note(book: &Path, instance: InstanceId) {
    let _ = fs::remove_file(podman_note(book, instance));
}

/// Removes an empty note.
pub(crate) fn remove_unused_podman_note(book: &Path, instance: InstanceId) {
    if !is_podman_noted(book, instance) {
        remove_podman_note(book, instance);
    }
}
