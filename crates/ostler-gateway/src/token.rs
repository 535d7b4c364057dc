//! Bearer token of the HTTP front, and the file that keeps it.

use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

/// Environment variable with a token.
pub const VARIABLE: &str = "OSTLER_TOKEN";
/// Shortest token in characters: a shorter one could be guessed.
const SHORTEST: usize = 16;
const LONGEST: usize = 4096;
/// Random bytes of a generated token.
const DRAWN: usize = 32;
const NAME: &str = "token";

/// Bearer token and its origin.
pub struct Token {
    /// The token itself.
    pub secret: String,
    /// File that contains the token; `None` if the user passed it.
    pub file: Option<PathBuf>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The text is too short for a token, or contains other characters than visible ASCII.
    #[error("a token has at least {SHORTEST} characters, and no spaces")]
    Unfit,
    /// Other users can access the file, so they may know the token.
    #[error("other users can read {}; remove it, and the next start creates another", .0.display())]
    Open(PathBuf),
    /// The file can't be read or created.
    #[error("the token in {} can't be used", path.display())]
    Failed {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

impl Token {
    /// Token that the user passed, or the one in this directory, which is generated if it is missing.
    pub fn take(given: Option<String>, directory: &Path) -> Result<Self, TokenError> {
        if let Some(secret) = given {
            check(&secret)?;
            return Ok(Self { secret, file: None });
        }
        let path = directory.join(NAME);
        let failed = |source| TokenError::Failed { path: path.clone(), source };
        let secret = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&path).map_err(failed)?;
                // Another process may have created the file first.
                read(&path).map_err(failed)?
            }
            read => read.map_err(failed)?,
        };
        let secret = secret.ok_or_else(|| TokenError::Open(path.clone()))?;
        check(&secret)?;
        Ok(Self { secret, file: Some(path) })
    }
}

/// Checks that a text can be a token.
pub(crate) fn check(secret: &str) -> Result<(), TokenError> {
    let is_fit = secret.len() >= SHORTEST && secret.bytes().all(|byte| byte.is_ascii_graphic());
    if is_fit { Ok(()) } else { Err(TokenError::Unfit) }
}

/// Token in a file; `None` if other users can access the file or own it.
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if found.mode() & 0o077 != 0 || found.uid() != own {
        return Ok(None);
    }
    let mut text = String::new();
    file.take(LONGEST as u64).read_to_string(&mut text)?;
    Ok(Some(text.trim().to_owned()))
}

/// Generates a token. Writes a temporary file and links it, so that a reader of the file sees all of it.
fn make(path: &Path) -> io::Result<()> {
    let mut bytes = [0; DRAWN];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    let aside = path.with_extension(std::process::id().to_string());
    let _ = fs::remove_file(&aside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_created_once_and_readable_by_its_user_only() {
        let directory = tempfile::tempdir().unwrap();
        let first = Token::take(None, directory.path()).unwrap();
        assert_eq!(first.secret.len(), 2 * DRAWN);
        let file = first.file.unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::take(None, directory.path()).unwrap().secret, first.secret);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Token::take(None, directory.path()), Err(TokenError::Open(_))));
    }

    #[test]
    fn a_given_token_has_to_be_hard_to_guess() {
        let directory = tempfile::tempdir().unwrap();
        let take = |text: &str| Token::take(Some(text.to_owned()), directory.path());
        assert!(take("0123456789abcdef").is_ok());
        for unfit in ["", "short", "with spaces, long enough", "with\ttabs0123456789"] {
            assert!(matches!(take(unfit), Err(TokenError::Unfit)), "{unfit}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
