//! The note of a Door: a file beside the owner's ledger that says that an instance may have containers.
//!
//! Unlike a process, a container survives a power failure. So the Door writes the note to disk before it forwards the
//! first create, and the porter or a sweep removes it only when the containers are proven gone. The note also counts
//! pending creates, whose containers may appear although no client waits for them.
//!
//! The file is a log of notes as JSON lines, of which the last complete line counts. Appending a line takes a hundredth
//! of the time that replacing the file takes, and a reader never sees half a note.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::records;

/// Bytes. A longer file is replaced by one with a single line, unless that line alone needs a quarter of the size.
const LONGEST: u64 = 64 << 10;

/// Content of the note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Number of creates that the engine has not responded to.
    pub(crate) creates: usize,
    /// Exec sessions that may run in containers that are not ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) execs: Vec<String>,
    /// Ids of the newest containers that the engine reported as created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) made: Vec<String>,
}

impl Note {
    /// A note without known containers.
    pub(crate) fn new(creates: usize) -> Self {
        Self { creates, execs: Vec::new(), made: Vec::new() }
    }

    /// Reads the note. `None`: there is none, so no create was ever forwarded.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match records::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(newest(&text))?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the note, once the containers are proven gone.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The file with the notes, kept open by its only writer.
#[derive(Debug)]
pub(crate) struct NoteFile {
    path: PathBuf,
    handle: Option<File>,
}

impl NoteFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, handle: None }
    }

    /// Writes a note. It survives the death of this process; that the file exists also survives a power failure, like
    /// the ledger beside it.
    pub(crate) fn write(&mut self, note: &Note) -> io::Result<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        // The handle is put back only after a complete write: a line can't be appended to half a line.
        let Some(mut handle) = self.handle.take_if(|handle| can_grow(handle, line.len())) else {
            return self.begin(&line);
        };
        handle.write_all(&line)?;
        self.handle = Some(handle);
        Ok(())
    }

    /// Replaces the file by one with this line only.
    fn begin(&mut self, line: &[u8]) -> io::Result<()> {
        let aside = self.path.with_extension("door.new");
        // A leftover of a failed attempt, or something that a server put there, must not be written through.
        let _ = fs::remove_file(&aside);
        let mut handle = File::options().append(true).create_new(true).open(&aside)?;
        handle.write_all(line)?;
        handle.sync_all()?;
        fs::rename(aside, &self.path)?;
        crate::ledger::sync(self.path.parent().unwrap_or(&self.path))?;
        self.handle = Some(handle);
        Ok(())
    }
}

/// Whether a line can be appended: the file is short enough and was not unlinked.
fn can_grow(handle: &File, line: usize) -> bool {
    let fits =
        |metadata: Metadata| metadata.nlink() > 0 && metadata.len() < LONGEST.max(4 * line as u64);
    handle.metadata().is_ok_and(fits)
}

/// The last complete line.
fn newest(handle: &[u8]) -> &[u8] {
    let whole = handle.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    handle[..whole].rsplit(|&byte| byte == b'\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note file in a directory like an owner's.
    fn note_file() -> (tempfile::TempDir, NoteFile) {
        let book = tempfile::tempdir().unwrap();
        fs::write(book.path().join("ledger"), "").unwrap();
        let file = NoteFile::new(book.path().join("one.door"));
        (book, file)
    }

    fn note(creates: usize) -> Note {
        Note::new(creates)
    }

    #[test]
    fn the_last_line_counts() {
        let (_book, mut file) = note_file();
        for creates in [1, 0, 12, 3] {
            file.write(&note(creates)).unwrap();
            assert_eq!(Note::read(&file.path).unwrap(), Some(note(creates)));
        }
    }

    #[test]
    fn an_incomplete_line_is_ignored() {
        let (_book, mut file) = note_file();
        file.write(&note(1)).unwrap();
        file.handle.as_mut().unwrap().write_all(b"{\"creates\":").unwrap();
        assert_eq!(Note::read(&file.path).unwrap(), Some(note(1)));
    }

    #[test]
    fn an_empty_file_is_an_error_rather_than_no_creates() {
        let (_book, file) = note_file();
        fs::write(&file.path, "").unwrap();
        assert!(Note::read(&file.path).is_err());
    }

    #[test]
    fn the_size_of_the_file_is_bounded() {
        let (_book, mut file) = note_file();
        for creates in 0..10_000 {
            file.write(&note(creates)).unwrap();
        }
        assert!(fs::metadata(&file.path).unwrap().len() < 2 * LONGEST);
        assert_eq!(Note::read(&file.path).unwrap(), Some(note(9_999)));
    }

    #[test]
    fn a_file_that_was_removed_is_created_again() {
        let (_book, mut file) = note_file();
        file.write(&note(1)).unwrap();
        Note::remove(&file.path).unwrap();
        file.write(&note(2)).unwrap();
        assert_eq!(Note::read(&file.path).unwrap(), Some(note(2)));
    }
}
