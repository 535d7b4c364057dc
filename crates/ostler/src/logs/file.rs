//! The files of a log: appending, rotation, and the bound on all logs together.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Source, millis};
use super::name::is_of_a_log;
use crate::places::make_private;
use crate::records;

/// Size at which a file is rotated, in bytes.
pub const LARGEST: u64 = 1 << 20;
/// Older generations that are kept of each log.
pub const KEPT: usize = 4;
/// A file of this size takes no more, if another process holds the lock that a rotation needs.
const FULL: u64 = 2 * LARGEST;
/// Most bytes of all logs together; the files that were written to least recently are removed first.
const ALL: u64 = 256 << 20;
/// Most files of all logs together.
const MOST: usize = 1000;
/// A file that was not written to for this long is removed.
const OLDEST: Duration = Duration::from_hours(24 * 30);

/// Appends to one log. What can't be written is dropped and counted; the log says so as soon as it can be written again.
#[derive(Debug)]
pub struct LogWriter {
    log: PathBuf,
    /// Lines that could not be written, and why.
    failed: Option<(usize, String)>,
}

impl LogWriter {
    /// A writer for the log at this path.
    pub fn new(log: PathBuf) -> Self {
        Self { log, failed: None }
    }

    /// Appends whole lines.
    pub fn append(&mut self, block: &[u8]) {
        if block.is_empty() {
            return;
        }
        let written = match &self.failed {
            None => append(&self.log, block),
            Some((lines, reason)) => append(&self.log, &[&lost(*lines, reason), block].concat()),
        };
        let before = self.failed.take().map_or(0, |(lines, _)| lines);
        self.failed = written.err().map(|error| {
            let lines = block.split_inclusive(|byte| *byte == b'\n').count();
            (before + lines, error.to_string())
        });
    }

    /// Whether lines were dropped that the log does not mention yet.
    pub fn is_failing(&self) -> bool {
        self.failed.is_some()
    }
}

/// The line about lines that could not be written.
fn lost(lines: usize, reason: &str) -> Vec<u8> {
    let text = format!("lines that could not be written: {lines} ({reason})").into();
    let (at, source) = (millis(SystemTime::now()), Source::Ostler);
    let mut line = Vec::new();
    Entry { at, instance: None, number: None, source, text, cut: false }.store(&mut line);
    line
}

/// Path of an older generation.
pub(super) fn generation(log: &Path, age: usize) -> PathBuf {
    let mut path = log.as_os_str().to_owned();
    path.push(format!(".{age}"));
    path.into()
}

fn append(log: &Path, block: &[u8]) -> io::Result<()> {
    let (mut file, mut size) = open(log)?;
    if size > 0 && size + block.len() as u64 > LARGEST {
        rotate(log, size)?;
        (file, size) = open(log)?;
    }
    if size >= FULL {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, "the log is being rotated"));
    }
    if size == 0 {
        prune(log);
    } else if !ends_with_a_line(&file, size)? {
        // A writer was killed, or the disk was full, within a line.
        return file.write_all(&[b"\n", block].concat());
    }
    file.write_all(block)
}

fn open(log: &Path) -> io::Result<(File, u64)> {
    let file = match records::open_to_append(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            log.parent().map_or(Ok(()), make_private)?;
            records::open_to_append(log)?
        }
        file => file?,
    };
    let found = file.metadata()?;
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok((file, found.len()))
}

fn ends_with_a_line(file: &File, size: u64) -> io::Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, size - 1)?;
    Ok(last == *b"\n")
}

/// Renames each file to the next older generation. Does nothing while another process does the same, and if it has just
/// done so.
fn rotate(log: &Path, seen: u64) -> io::Result<()> {
    let directory = File::open(log.parent().unwrap_or(Path::new("/")))?;
    match directory.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if fs::symlink_metadata(log)?.len() < seen {
        return Ok(());
    }
    for age in (1..KEPT).rev() {
        match fs::rename(generation(log, age), generation(log, age + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(log, generation(log, 1))
}

/// Removes files of all logs that are too old, too many or too much, except the newest one of this log.
fn prune(log: &Path) {
    let files = log.parent().and_then(|directory| fs::read_dir(directory).ok());
    let aged = |file: fs::DirEntry| {
        let is_old_log = file.file_name().to_str().is_some_and(is_of_a_log) && file.path() != log;
        let found = file.metadata().ok().filter(|_| is_old_log)?;
        Some((found.modified().ok()?, found.len(), file.path()))
    };
    let mut files: Vec<_> = files.into_iter().flatten().flatten().filter_map(aged).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    let (now, mut total) = (SystemTime::now(), LARGEST);
    for (index, (written, size, path)) in files.into_iter().enumerate() {
        total += size;
        let is_old = now.duration_since(written).is_ok_and(|age| age > OLDEST);
        if is_old || total > ALL || index + 1 >= MOST {
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
        }
    }
}
