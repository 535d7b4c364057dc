//! Reads a log, and follows it across rotations.
//!
//! Writers rename files while a reader opens them, always to an older generation. So the reader opens the newest first, and
//! recognises a file that it has met already by its inode.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::file::{KEPT, generation};
use crate::records;

/// Size of a read, in bytes.
const CHUNK: usize = 64 << 10;
/// Longest stored line in bytes: ostler writes shorter ones, so a longer one is skipped.
const LONGEST_STORED: usize = 128 << 10;
/// Files that stay open: a writer may still append to the one that was rotated last.
const OPEN: usize = 2;

/// A file of a log can't be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    source: io::Error,
}

/// Reads the entries of a log, from the oldest to the newest.
#[derive(Debug)]
pub struct LogReader {
    log: PathBuf,
    /// Oldest first.
    files: Vec<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    /// Number of bytes that were read.
    position: u64,
    /// Beginning of a line whose end is not stored yet, at most [`LONGEST_STORED`] bytes.
    partial: Vec<u8>,
    /// The line is too long; the rest up to its end is skipped.
    is_skipping: bool,
}

impl LogReader {
    /// A reader for the log at this path, which need not exist yet.
    pub fn new(log: PathBuf) -> Self {
        Self { log, files: Vec::new() }
    }

    /// Passes all entries to `take` that were stored since the last call. Refuses links and files of other users.
    pub fn read(&mut self, mut take: impl FnMut(Entry<'static>)) -> Result<(), ReadError> {
        self.open_new_files()?;
        for file in &mut self.files {
            if let Err(source) = file.read(&mut take) {
                return Err(ReadError { path: file.path.clone(), source });
            }
        }
        let old = self.files.len().saturating_sub(OPEN);
        self.files.drain(..old);
        Ok(())
    }

    /// Whether the log had a file when it was read last.
    pub fn exists(&self) -> bool {
        !self.files.is_empty()
    }

    fn open_new_files(&mut self) -> Result<(), ReadError> {
        let mut new = Vec::new();
        let newest = std::iter::once(self.log.clone());
        for path in newest.chain((1..=KEPT).map(|age| generation(&self.log, age))) {
            let found = OpenFile::open(&path).map_err(|source| ReadError { path, source })?;
            let Some(found) = found else { continue };
            let is_same = |known: &OpenFile| known.identity == found.identity;
            if self.files.iter().any(is_same) {
                break;
            }
            if !new.iter().any(is_same) {
                new.push(found);
            }
        }
        self.files.extend(new.into_iter().rev());
        Ok(())
    }
}

impl OpenFile {
    /// Returns `None` if the file does not exist.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match records::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let found = file.metadata()?;
        Ok(Some(Self {
            path: path.to_owned(),
            file,
            identity: (found.dev(), found.ino()),
            position: 0,
            partial: Vec::new(),
            is_skipping: false,
        }))
    }

    /// Reads to the end of the file.
    fn read(&mut self, take: &mut impl FnMut(Entry<'static>)) -> io::Result<()> {
        if self.file.metadata()?.len() < self.position {
            // The user has emptied it.
            (self.position, self.partial) = (0, Vec::new());
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = self.file.read_at(&mut chunk, self.position)?;
            if read == 0 {
                return Ok(());
            }
            self.position += read as u64;
            for part in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                self.add(part, take);
            }
        }
    }

    /// Adds a part of a line, which ends with a line break if it is the last part.
    fn add(&mut self, part: &[u8], take: &mut impl FnMut(Entry<'static>)) {
        if !self.is_skipping {
            self.partial.extend_from_slice(part);
        }
        let is_whole = part.ends_with(b"\n");
        if is_whole && !self.is_skipping {
            Entry::parse(&self.partial).into_iter().for_each(take);
        }
        self.is_skipping = !is_whole && (self.is_skipping || self.partial.len() > LONGEST_STORED);
        if is_whole || self.is_skipping {
            self.partial.clear();
        }
    }
}
