//! Private `/tmp` and `/run` for one test.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Mounts the directories of `$0` over the system's, in a mount namespace that the program keeps. The sandbox `$1` is
/// mounted back at its place first, because it is usually below `/tmp`.
const MOUNT: &str = r#"sandbox="$1" && shift || exit
case "$sandbox" in
  /tmp/*) inner="$0$sandbox"; mkdir -p "$inner" && mount --bind "$sandbox" "$inner" || exit;;
esac
mount --rbind "$0/tmp" /tmp && mount --rbind "$0/run" /run && exec "$@""#;

/// The directories that stand for the system's.
#[derive(Clone, Debug)]
pub struct System {
    sandbox: PathBuf,
}

impl System {
    /// The directories of the sandbox at this path.
    pub(crate) fn of(sandbox: &Path) -> Self {
        let system = Self { sandbox: sandbox.to_owned() };
        for (path, mode) in [(system.tmp(), 0o1777), (system.root().join("run/user"), 0o755)] {
            fs::create_dir_all(&path).expect("a directory for the system");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("chmod");
        }
        system
    }

    fn root(&self) -> PathBuf {
        self.sandbox.join("system")
    }

    /// Directory that its programs see as `/tmp`.
    pub fn tmp(&self) -> PathBuf {
        self.root().join("tmp")
    }

    /// Creates `/run/user/UID`, as a login does, and returns it.
    pub fn log_in(&self, uid: u32) -> PathBuf {
        let path = self.root().join(format!("run/user/{uid}"));
        fs::create_dir(&path).expect("a runtime directory");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("chmod");
        chown(&path, Some(uid), Some(uid)).expect("chown");
        path
    }

    /// The command prefix that makes a program see them.
    pub(crate) fn prefix(&self) -> Vec<OsString> {
        let words = ["unshare", "--mount", "--", "/bin/sh", "-c", MOUNT].map(OsString::from);
        words.into_iter().chain([self.root().into(), self.sandbox.clone().into()]).collect()
    }
}
