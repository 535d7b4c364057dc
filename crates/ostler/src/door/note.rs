//! The note that an instance may have containers, beside its owner's ledger.
//!
//! A process is gone after a power failure, a container is not. So before the first one is created
//! the note is on the disk, and it goes only when their absence is proven. It also says whether an
//! engine may still be busy with a create, whose container appears although nobody waits for it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::Endpoint;

/// What the note says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Which engine was asked.
    pub(crate) endpoint: Endpoint,
    /// How many creates it has not answered.
    pub(crate) creates: usize,
    /// Commands that may run in containers that are not ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) execs: Vec<String>,
}

impl Note {
    /// Where it is for the Door that has this socket: beside the ledger, and called like that.
    pub(crate) fn path(book: &Path, socket: &Path) -> PathBuf {
        book.join(socket.file_name().unwrap_or_default()).with_extension("door")
    }

    /// `None`: the instance has never had a container there.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it so that it survives the death of processes.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        self.put(path).map(drop)
    }

    /// Writes it so that it survives a power failure, with the ledger that it belongs to.
    pub(crate) fn write_durably(&self, path: &Path) -> io::Result<()> {
        self.put(path)?.sync_all()?;
        crate::ledger::sync(path.parent().unwrap_or(path))
    }

    fn put(&self, path: &Path) -> io::Result<File> {
        let aside = path.with_extension("door.new");
        let mut file = File::create(&aside)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(aside, path)?;
        Ok(file)
    }

    /// Takes it back: nothing is there.
    pub(crate) fn remove(path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
