//! The note that an instance may have containers, beside its owner's ledger.
//!
//! A process is gone after a power failure, a container is not. So before the first one is created
//! the note is on the disk, and it goes only when their absence is proven. It also says whether an
//! engine may still be busy with a create, whose container appears although nobody waits for it.
//!
//! It is a list of notes, of which the last whole line holds: to add a line takes a hundredth of the
//! time that it takes to put a new file in the place of another, and readers never see half of it.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::records;

/// A list that is longer begins anew, unless that would be so for every line.
const LONGEST: u64 = 64 << 10;

/// What the note says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// How many creates it has not answered.
    pub(crate) creates: usize,
    /// Commands that may run in containers that are not ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) execs: Vec<String>,
    /// The containers that the engine has said it created, the newest of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) made: Vec<String>,
}

impl Note {
    /// Without containers that are known of.
    pub(crate) fn new(creates: usize) -> Self {
        Self { creates, execs: Vec::new(), made: Vec::new() }
    }

    /// `None`: the instance has never had a container there.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match records::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(newest(&text))?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes it back: nothing is there.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Where notes are written, by one who keeps the list open.
#[derive(Debug)]
pub(crate) struct NotePad {
    path: PathBuf,
    list: Option<File>,
}

impl NotePad {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, list: None }
    }

    /// Writes so that it survives the death of processes. That there is a list survives a power
    /// failure, too, with the ledger that it belongs to.
    pub(crate) fn write(&mut self, note: &Note) -> io::Result<()> {
        let mut line = serde_json::to_vec(note)?;
        line.push(b'\n');
        // After half a line nothing can be added: unless this one is whole, the next list is new.
        let Some(mut list) = self.list.take_if(|list| can_grow(list, line.len())) else {
            return self.begin(&line);
        };
        list.write_all(&line)?;
        self.list = Some(list);
        Ok(())
    }

    /// A list with this line only, in the place of another.
    fn begin(&mut self, line: &[u8]) -> io::Result<()> {
        let aside = self.path.with_extension("door.new");
        // From an attempt that has failed, or something that a server has put there: never written through.
        let _ = fs::remove_file(&aside);
        let mut list = File::options().append(true).create_new(true).open(&aside)?;
        list.write_all(line)?;
        list.sync_all()?;
        fs::rename(aside, &self.path)?;
        crate::ledger::sync(self.path.parent().unwrap_or(&self.path))?;
        self.list = Some(list);
        Ok(())
    }
}

/// Not if somebody has taken it away: what is written there is on no record.
fn can_grow(list: &File, line: usize) -> bool {
    let fits =
        |metadata: Metadata| metadata.nlink() > 0 && metadata.len() < LONGEST.max(4 * line as u64);
    list.metadata().is_ok_and(fits)
}

/// The last whole line.
fn newest(list: &[u8]) -> &[u8] {
    let whole = list.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    list[..whole].rsplit(|&byte| byte == b'\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pad in a directory like an owner's.
    fn pad() -> (tempfile::TempDir, NotePad) {
        let book = tempfile::tempdir().unwrap();
        fs::write(book.path().join("ledger"), "").unwrap();
        let pad = NotePad::new(book.path().join("one.door"));
        (book, pad)
    }

    fn note(creates: usize) -> Note {
        Note::new(creates)
    }

    #[test]
    fn the_newest_note_holds() {
        let (_book, mut pad) = pad();
        for creates in [1, 0, 12, 3] {
            pad.write(&note(creates)).unwrap();
            assert_eq!(Note::read(&pad.path).unwrap(), Some(note(creates)));
        }
    }

    #[test]
    fn half_a_note_does_not_count() {
        let (_book, mut pad) = pad();
        pad.write(&note(1)).unwrap();
        pad.list.as_mut().unwrap().write_all(b"{\"creates\":").unwrap();
        assert_eq!(Note::read(&pad.path).unwrap(), Some(note(1)));
    }

    #[test]
    fn an_empty_list_is_not_taken_for_an_idle_engine() {
        let (_book, pad) = pad();
        fs::write(&pad.path, "").unwrap();
        assert!(Note::read(&pad.path).is_err());
    }

    #[test]
    fn a_list_stays_short_whatever_is_written() {
        let (_book, mut pad) = pad();
        for creates in 0..10_000 {
            pad.write(&note(creates)).unwrap();
        }
        assert!(fs::metadata(&pad.path).unwrap().len() < 2 * LONGEST);
        assert_eq!(Note::read(&pad.path).unwrap(), Some(note(9_999)));
    }

    #[test]
    fn a_list_that_somebody_has_removed_is_written_anew() {
        let (_book, mut pad) = pad();
        pad.write(&note(1)).unwrap();
        Note::remove(&pad.path).unwrap();
        pad.write(&note(2)).unwrap();
        assert_eq!(Note::read(&pad.path).unwrap(), Some(note(2)));
    }
}
