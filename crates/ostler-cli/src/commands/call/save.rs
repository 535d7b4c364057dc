//! Files of a result, written into a directory. No file is ever replaced.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::content::Attachment;

/// Names that are tried.
const MOST: usize = 10_000;
/// Bytes of a tool's name in a file name.
const LONGEST: usize = 64;

/// Extensions by media type; `bin` for all others.
const EXTENSIONS: [(&str, &str); 19] = [
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("video/mp4", "mp4"),
];

#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error("cannot save a file of the result: it is not valid base64")]
    NotBase64,
    #[error("cannot write to {}", path.display())]
    Failed { path: PathBuf, source: io::Error },
    #[error("{} has too many files of that name", .0.display())]
    Full(PathBuf),
}

/// Writes attachments as `TOOL-1.png`, `TOOL-2.png`, with the first numbers that are free.
#[derive(Debug)]
pub(super) struct Saver<'a> {
    directory: &'a Path,
    stem: String,
    next: usize,
}

impl<'a> Saver<'a> {
    /// Creates the directory if it does not exist, for this user alone.
    pub(super) fn new(directory: &'a Path, tool: &str) -> Result<Self, SaveError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| failed(directory, source))?;
        Ok(Self { directory, stem: stem(tool), next: 1 })
    }

    /// Writes one attachment and returns its path. A file appears whole or not at all.
    pub(super) fn save(&mut self, attachment: &Attachment) -> Result<PathBuf, SaveError> {
        let bytes = attachment.bytes.as_ref().ok_or(SaveError::NotBase64)?;
        let draft = self.directory.join(format!(".{}-{}.part", self.stem, std::process::id()));
        let saved = write(&draft, bytes)
            .map_err(|source| failed(&draft, source))
            .and_then(|()| self.publish(&draft, extension(attachment)));
        if saved.is_err() {
            // Already gone, or never created.
            let _ = fs::remove_file(&draft);
        }
        saved
    }

    fn publish(&mut self, draft: &Path, extension: &str) -> Result<PathBuf, SaveError> {
        while self.next <= MOST {
            let path = self.directory.join(format!("{}-{}.{extension}", self.stem, self.next));
            self.next += 1;
            match renameat_with(CWD, draft, CWD, &path, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(path),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(&path, error.into())),
            }
        }
        Err(SaveError::Full(self.directory.to_owned()))
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

fn failed(path: &Path, source: io::Error) -> SaveError {
    SaveError::Failed { path: path.to_owned(), source }
}

/// Start of a file name: the tool's name without characters that mean something in paths or shells.
fn stem(tool: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let plain = tool.chars().map(|c| if is_plain(c) { c } else { '_' });
    let stem: String = plain.take(LONGEST).collect();
    if stem.starts_with('-') || stem.is_empty() { format!("_{stem}") } else { stem }
}

fn extension(attachment: &Attachment) -> &'static str {
    let media_type = attachment.media_type.as_deref().unwrap_or_default();
    let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = EXTENSIONS.iter().find(|(name, _)| *name == plain);
    known.map_or("bin", |(_, extension)| extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_tool_stays_inside_the_directory() {
        assert_eq!(stem("read_file"), "read_file");
        assert_eq!(stem("../../etc/x"), "______etc_x");
        assert_eq!(stem("-rf"), "_-rf");
        assert_eq!(stem(""), "_");
        assert_eq!(stem(&"ä".repeat(1000)).len(), LONGEST);
    }
}
