//! Notes that an instance may have containers, beside its owner's ledger: where they are, and whether they are there.
//!
//! What a note says is the business of who writes it: a [Door](crate::door) for containers in an engine, the
//! [wrapper](crate::podman) for those in podman's own books. That there is one is enough for all others to know that an
//! engine has to be asked before anybody may say that nothing is left.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::containers::Ways;
use crate::id::InstanceId;
use crate::ledger;

/// Where the note of the Door with this socket is: beside the ledger, and called like the socket.
pub(crate) fn door_note(book: &Path, socket: &Path) -> PathBuf {
    book.join(socket.file_name().unwrap_or_default()).with_extension("door")
}

/// Where the note about podman's own books is.
pub(crate) fn podman_note(book: &Path, instance: InstanceId) -> PathBuf {
    book.join(format!("{instance}.podman"))
}

/// Whether it is noted that the instance may have containers.
pub(crate) fn is_noted(book: &Path, instance: InstanceId, ways: &Ways) -> bool {
    let mut doors = ways.engines.iter().map(|way| door_note(book, &way.socket));
    doors.any(|note| !is_absent(&note)) || is_podman_noted(book, instance)
}

/// Whether nothing is there. What can't be looked at may be.
fn is_absent(note: &Path) -> bool {
    fs::symlink_metadata(note).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether it is noted that the instance may have anything in podman's own books. At `strict` an empty note is there
/// from the start.
pub(crate) fn is_podman_noted(book: &Path, instance: InstanceId) -> bool {
    let note = podman_note(book, instance);
    fs::symlink_metadata(note).is_ok_and(|found| !found.is_file() || found.len() > 0)
}

/// Makes an empty note that outlives a power failure, for a server that can't make one itself.
pub(crate) fn make_podman_note(book: &Path, instance: InstanceId) -> io::Result<PathBuf> {
    let path = podman_note(book, instance);
    File::options().write(true).create_new(true).open(&path)?.sync_all()?;
    ledger::sync(book)?;
    Ok(path)
}

/// Takes the note back: nothing is there. What can't be taken back is looked into again.
pub(crate) fn remove_podman_note(book: &Path, instance: InstanceId) {
    let _ = fs::remove_file(podman_note(book, instance));
}

/// Removes a note that says nothing.
pub(crate) fn remove_unused_podman_note(book: &Path, instance: InstanceId) {
    if !is_podman_noted(book, instance) {
        remove_podman_note(book, instance);
    }
}
