//! Ends exec sessions that a server has started in foreign containers.
//!
//! An engine offers no request to end an exec session, and keeps it running after its client is gone. It does tell the
//! pid, which is valid only on the engine's machine, so this works for local engines only: the process is checked to be
//! in the container's cgroup, then signalled with its descendants. The container itself keeps running.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use rustix::process::Signal;
use tokio::time::sleep;

use super::call::CallError;
use super::claim::Times;
use super::client::Client;
use super::responses::Exec;
use crate::containers::{Endpoint, LeftExec};
use crate::proctable::{Identity, Process};

/// Delay between two checks of a session that is being ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Why an exec session may still run.
#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("its engine is on another machine")]
    Elsewhere,
    #[error("process {0} is not in the container's cgroup on this machine")]
    Stranger(i32),
    #[error("process {0} can't be signalled: {1}")]
    Signal(i32, io::Error),
    #[error("process {0} did not exit after SIGKILL")]
    Stayed(i32),
}

/// Ends exec sessions, each within [`Times::limit`]. Returns those that may still run.
pub(crate) async fn end_execs(endpoint: &Endpoint, ids: &[String], times: &Times) -> Vec<LeftExec> {
    let mut left = Vec::new();
    for id in ids {
        if let Err(error) = end(endpoint, id, times).await {
            left.push(LeftExec { id: id.clone(), reason: error.to_string() });
        }
    }
    left
}

async fn end(endpoint: &Endpoint, id: &str, times: &Times) -> Result<(), ExecError> {
    let client = Client::connect(endpoint, times.call).await?;
    let since = Instant::now();
    // Every descendant that was ever seen: descendants become orphans when the session's process exits.
    let mut family: BTreeMap<Identity, Process> = BTreeMap::new();
    while let Some(exec) = running(&client, id).await? {
        if !matches!(endpoint, Endpoint::Unix(_)) {
            return Err(ExecError::Elsewhere);
        }
        if let Some(process) = process_of(&client, id, &exec).await? {
            let below = Process::descendants_of(process.pid);
            let is_over = since.elapsed() >= times.grace;
            let signal = if is_over { Signal::KILL } else { Signal::TERM };
            process.signal(signal).map_err(|error| ExecError::Signal(process.pid, error))?;
            family.extend(below.into_iter().map(|one| (one.identity(), one)));
        }
        if since.elapsed() >= times.limit {
            return Err(ExecError::Stayed(exec.pid));
        }
        sleep(BETWEEN_LOOKS).await;
    }
    for process in family.into_values() {
        process.kill().map_err(|error| ExecError::Signal(process.pid, error))?;
    }
    Ok(())
}

/// The running session. `None` if it has ended; engines forget a session some minutes after its end.
async fn running(client: &Client, id: &str) -> Result<Option<Exec>, CallError> {
    match client.exec(id).await {
        Ok(exec) => Ok(Some(exec).filter(|exec| exec.running)),
        Err(CallError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process of a session. It is read first and the engine asked again afterwards: if the session still runs then,
/// its pid was not recycled in between.
async fn process_of(client: &Client, id: &str, exec: &Exec) -> Result<Option<Process>, ExecError> {
    let process = Process::with_pid(exec.pid);
    let is_inside = is_in_container(exec.pid, &exec.container);
    match running(client, id).await? {
        Some(again) if again.pid == exec.pid && is_inside => Ok(process),
        Some(again) if again.pid == exec.pid => Err(ExecError::Stranger(exec.pid)),
        _ => Ok(None),
    }
}

/// Whether the process is in a cgroup named after the container.
fn is_in_container(pid: i32, container: &str) -> bool {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // A malicious engine could name any text; only a full id can't match another cgroup by accident.
    let is_id = container.len() == 64 && container.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && cgroups.contains(container)
}
