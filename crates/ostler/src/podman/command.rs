//! Asking podman, within a limit.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::store::Store;
use crate::fence::readable;
use crate::id::{INSTANCE_VARIABLE, InstanceId};

/// For one call, on a machine under load.
const CALL: Duration = Duration::from_secs(10);
/// More than any list that makes sense.
const LARGEST_ANSWER: u64 = 16 << 20;

/// Why podman has not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("it can't be run: {0}")]
    NotRun(#[from] io::Error),
    #[error("it has not answered within {0:?}")]
    TooLate(Duration),
    #[error("it says: {0}")]
    Refused(String),
    #[error("its answer can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// What podman prints. Whatever it leaves behind carries the instance's mark.
pub(super) fn ask(
    store: &Store,
    instance: Option<InstanceId>,
    words: &[&str],
    limit: Duration,
) -> Result<Vec<u8>, NoAnswer> {
    let limit = limit.min(CALL);
    let (out, err) = (memory()?, memory()?);
    let mut command = Command::new(&store.program);
    // If that has gone, nothing of the flags can be relative to it.
    let cwd = if store.cwd.is_dir() { &store.cwd } else { Path::new("/") };
    command.args(&store.globals).args(words).current_dir(cwd).env_clear();
    command.envs(store.env.iter().map(|(name, value)| (name, value)));
    command.envs(instance.map(|id| (INSTANCE_VARIABLE, id.to_string())));
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut podman = command.spawn()?;
    // Our own child, which nobody has waited for: the number is still its own.
    let handle = pidfd_open(Pid::from_child(&podman), PidfdFlags::empty());
    let handle = handle.map_err(io::Error::from)?;
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = podman.try_wait()? {
            break status;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            podman.kill()?;
            podman.wait()?;
            return Err(NoAnswer::TooLate(limit));
        }
        readable(&handle, left)?;
    };
    if status.success() {
        return Ok(content(out)?);
    }
    let said = content(err)?;
    Err(NoAnswer::Refused(String::from_utf8_lossy(&said).trim().to_owned()))
}

/// It takes whatever is printed, and nobody has to read it meanwhile.
fn memory() -> io::Result<File> {
    Ok(memfd_create("podman", MemfdFlags::CLOEXEC)?.into())
}

fn content(mut file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.rewind()?;
    file.take(LARGEST_ANSWER).read_to_end(&mut content)?;
    Ok(content)
}
