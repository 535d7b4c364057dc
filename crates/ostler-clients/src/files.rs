//! Reading and replacing files of other programs.
//!
//! A [`Document`] is a file as it was when it was read. [`Document::replace`] refuses to write if the file has changed since,
//! writes a new file beside it and renames it, so that no reader ever sees a part, and reads it back. A symbolic link stays:
//! the file that it leads to is replaced. Mode and owner stay as they are; new files are private.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::geteuid;

/// Largest file that is read, in bytes.
const MAX_SIZE: u64 = 64 << 20;
/// Mode of new files.
const PRIVATE: u32 = 0o600;
/// Mode of new directories.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// A file as it was when it was read.
#[derive(Clone)]
pub struct Document {
    /// The path, without symbolic links if the file exists.
    path: PathBuf,
    /// The content; `None` if there is no file.
    text: Option<String>,
    mode: u32,
    owner: Option<(u32, u32)>,
}

/// Why a file can't be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is no file that ostler edits.
    #[error("cannot edit {}: it is {what}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another program has changed it.
    #[error("{} has changed since the preview, so it was left alone; run the command again", .0.display())]
    Changed(PathBuf),
    /// It can't be written.
    #[error("cannot write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It does not hold what was written.
    #[error("{} does not hold what was written to it; another program writes to it", .0.display())]
    Overwritten(PathBuf),
}

impl Document {
    /// Reads a file, or finds that there is none.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let unfit = |what| Err(FileError::Unfit { path: path.to_owned(), what });
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), text: None, mode: PRIVATE, owner: None });
            }
            Err(error) => return Err(unreadable(error)),
            Ok(found) if found.is_symlink() && ![0, geteuid().as_raw()].contains(&found.uid()) => {
                return unfit("a symbolic link of another user");
            }
            Ok(_) => {}
        }
        let real = fs::canonicalize(path).map_err(unreadable)?;
        // A named pipe would block without a writer.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file =
            OpenOptions::new().read(true).custom_flags(flags).open(&real).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?;
        if !found.is_file() {
            return unfit("no regular file");
        }
        let mut bytes = Vec::new();
        file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_SIZE {
            return unfit("larger than 64 MiB");
        }
        let Ok(text) = String::from_utf8(bytes) else { return unfit("not UTF-8") };
        let owner = Some((found.uid(), found.gid()));
        Ok(Self { path: real, text: Some(text), mode: found.mode() & 0o7777, owner })
    }

    /// Its path, without symbolic links if it exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content; empty if there is no file.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Whether there is a file.
    pub fn exists(&self) -> bool {
        self.text.is_some()
    }

    /// Replaces the content, or creates the file.
    pub fn replace(&self, text: &str) -> Result<(), FileError> {
        let unwritable = |source| FileError::Unwritable { path: self.path.clone(), source };
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        make_directory(directory).map_err(unwritable)?;
        let temporary = Temporary::create(directory, &self.path).map_err(unwritable)?;
        temporary.fill(text, self.mode, self.owner).map_err(unwritable)?;
        self.is_unchanged()?;
        let flags = if self.exists() { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(CWD, &temporary.path, CWD, &self.path, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(FileError::Changed(self.path.clone())),
            Err(error) => return Err(unwritable(error.into())),
        }
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(unwritable)?;
        let is_written = Self::read(&self.path)?.text.as_deref() == Some(text);
        is_written.then_some(()).ok_or_else(|| FileError::Overwritten(self.path.clone()))
    }

    /// Removes the file if it is as it was.
    pub fn remove(&self) -> Result<(), FileError> {
        self.is_unchanged()?;
        fs::remove_file(&self.path)
            .map_err(|source| FileError::Unwritable { path: self.path.clone(), source })
    }

    fn is_unchanged(&self) -> Result<(), FileError> {
        let now = Self::read(&self.path)?;
        let is_same = now.text == self.text && now.path == self.path;
        is_same.then_some(()).ok_or_else(|| FileError::Changed(self.path.clone()))
    }
}

impl std::fmt::Debug for Document {
    /// Shows no content: it may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file that is removed unless it is renamed.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    fn create(directory: &Path, target: &Path) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".ostler-{}", std::process::id()));
        let path = directory.join(name);
        // Left by a process with the same pid that was killed.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path)?;
        Ok(Self { path, file })
    }

    fn fill(&self, text: &str, mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
        (&self.file).write_all(text.as_bytes())?;
        if let Some((user, group)) = owner {
            let now = self.file.metadata()?;
            if (now.uid(), now.gid()) != (user, group) {
                fchown(&self.file, Some(user), Some(group))?;
            }
        }
        rustix::fs::fchmod(&self.file, rustix::fs::Mode::from_raw_mode(mode))?;
        self.file.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a directory and those above it, for this user alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Writes a file that must not exist, for this user alone.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), FileError> {
    let unwritable = |source| FileError::Unwritable { path: path.to_owned(), source };
    make_directory(path.parent().unwrap_or(Path::new("/"))).map_err(unwritable)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path);
    let write = |mut file: File| file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    file.and_then(write).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_link_stays_and_the_file_behind_it_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        Document::read(&link).unwrap().replace("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(mode(&file), 0o640);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "a temporary file is left");
    }

    #[test]
    fn a_file_that_changed_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let missing = Document::read(&path).unwrap();
        fs::write(&path, "old").unwrap();
        let old = Document::read(&path).unwrap();
        fs::write(&path, "other").unwrap();
        for document in [missing, old] {
            assert!(matches!(document.replace("new"), Err(FileError::Changed(_))));
            assert_eq!(fs::read_to_string(&path).unwrap(), "other");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a temporary file is left");
    }

    #[test]
    fn new_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        Document::read(&path).unwrap().replace("new").unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert!(write_new(&path, "other").is_err());
    }

    #[test]
    fn what_is_no_text_file_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"\xff").unwrap();
        rustix::fs::mknodat(
            CWD,
            directory.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        for (path, what) in [
            (path, "not UTF-8"),
            (directory.path().to_owned(), "no regular"),
            (directory.path().join("pipe"), "no regular"),
        ] {
            let error = Document::read(&path).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
