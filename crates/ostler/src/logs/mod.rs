//! Logs: what servers write to stderr, kept in bounded files.
//!
//! All servers with the same name share one log: `NAME.log` and its older generations `NAME.log.1` and so on, in a directory
//! that only this user can access. A [`Recorder`] turns the bytes of one instance into lines of JSON, one [`Entry`] each,
//! and drops what comes too fast. A [`LogWriter`] appends them, a [`LogReader`] reads them again.
//!
//! A log may have several writers: the gateways of this user, and the guardians of `ostler run --log`. Each opens the file
//! for every block that it appends, so no writer has to notice that another one rotated the file. The kernel keeps
//! appended blocks whole. Only the rotation needs a lock, that of the directory, and no writer waits for it.
//!
//! Secrets are masked before a line is stored.

mod entry;
mod file;
mod name;
mod reader;
mod recorder;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::PathBuf;

pub use entry::{Entry, Source};
pub use file::{KEPT, LARGEST, LogWriter};
pub use reader::{LogReader, ReadError};
pub use recorder::{LONGEST_LINE, MOST_WAITING, PER_SECOND, Recorder};

use crate::places::{Places, describe, is_private, make_private};

/// Name of the directory, in the first usable of the user's places.
const DIRECTORY: &str = "logs";

/// A directory of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs(PathBuf);

impl Logs {
    /// The directory for new logs, created if it is missing.
    pub fn create(places: &Places) -> io::Result<Self> {
        let directory = places.private()?.join(DIRECTORY);
        make_private(&directory)
            .map_err(|error| io::Error::new(error.kind(), describe(&directory, &error)))?;
        Ok(Self(directory))
    }

    /// All directories with logs that only this user can have written.
    pub fn all(places: &Places) -> Vec<Self> {
        let directories = places.ours().map(|place| place.join(DIRECTORY));
        directories.filter(|directory| is_private(directory)).map(Self).collect()
    }

    /// Path of a server's log.
    pub fn path(&self, server: &str) -> PathBuf {
        self.0.join(name::file_name(server))
    }

    /// Names of the servers that have a log.
    pub fn servers(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        files.filter_map(|file| name::server(file.file_name().to_str()?)).collect()
    }
}
