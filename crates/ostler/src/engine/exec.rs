//! Ending commands that a server has started in somebody else's containers.
//!
//! An engine has no way to end one, and lets it run on when its client is gone. It tells its pid,
//! though, which means something on the machine of the engine only. The container itself stays.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use rustix::process::Signal;
use tokio::time::sleep;

use super::answers::Exec;
use super::call::CallError;
use super::claim::Times;
use super::client::Client;
use crate::containers::{Endpoint, LeftExec};
use crate::proctable::{Identity, Process};

/// Between two looks at what is being ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Why a command goes on.
#[derive(Debug, thiserror::Error)]
enum NotEnded {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("its engine is on another machine")]
    Elsewhere,
    #[error("process {0} is not in its container as this machine sees it")]
    Stranger(i32),
    #[error("process {0} can't be signalled: {1}")]
    Signal(i32, io::Error),
    #[error("process {0} did not end")]
    Stayed(i32),
}

/// Ends these, each within [`Times::limit`], and returns those that may go on.
pub(crate) async fn end_execs(endpoint: &Endpoint, ids: &[String], times: &Times) -> Vec<LeftExec> {
    let mut left = Vec::new();
    for id in ids {
        if let Err(error) = end(endpoint, id, times).await {
            left.push(LeftExec { id: id.clone(), reason: error.to_string() });
        }
    }
    left
}

async fn end(endpoint: &Endpoint, id: &str, times: &Times) -> Result<(), NotEnded> {
    let client = Client::connect(endpoint, times.call).await?;
    let since = Instant::now();
    // All that was ever seen of it: what it has started is orphaned when it ends itself.
    let mut family: BTreeMap<Identity, Process> = BTreeMap::new();
    while let Some(exec) = running(&client, id).await? {
        if !matches!(endpoint, Endpoint::Unix(_)) {
            return Err(NotEnded::Elsewhere);
        }
        if let Some(process) = process_of(&client, id, &exec).await? {
            let below = Process::descendants_of(process.pid);
            let is_over = since.elapsed() >= times.grace;
            let signal = if is_over { Signal::KILL } else { Signal::TERM };
            process.signal(signal).map_err(|error| NotEnded::Signal(process.pid, error))?;
            family.extend(below.into_iter().map(|one| (one.identity(), one)));
        }
        if since.elapsed() >= times.limit {
            return Err(NotEnded::Stayed(exec.pid));
        }
        sleep(BETWEEN_LOOKS).await;
    }
    for process in family.into_values() {
        process.kill().map_err(|error| NotEnded::Signal(process.pid, error))?;
    }
    Ok(())
}

/// `None` if it has ended. Engines forget those some minutes after that.
async fn running(client: &Client, id: &str) -> Result<Option<Exec>, CallError> {
    match client.exec(id).await {
        Ok(exec) => Ok(Some(exec).filter(|exec| exec.running)),
        Err(CallError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The process that the engine means. It is looked at first, and the engine asked again after that:
/// if the command has not ended meanwhile, its pid has not passed to another one.
async fn process_of(client: &Client, id: &str, exec: &Exec) -> Result<Option<Process>, NotEnded> {
    let process = Process::with_pid(exec.pid);
    let is_inside = is_in_container(exec.pid, &exec.container);
    match running(client, id).await? {
        Some(again) if again.pid == exec.pid && is_inside => Ok(process),
        Some(again) if again.pid == exec.pid => Err(NotEnded::Stranger(exec.pid)),
        _ => Ok(None),
    }
}

/// Whether the process is in a cgroup that is named after the container.
fn is_in_container(pid: i32, container: &str) -> bool {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // An engine that isn't one may name any text: only an id stands for nothing else.
    let is_id = container.len() == 64 && container.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id && cgroups.contains(container)
}
