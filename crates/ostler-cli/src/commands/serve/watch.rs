//! Reloads the configuration when its file changes.
//!
//! Editors write a file in several steps or replace it, so the directory is watched, and a reload waits for 100 ms without events, at most 2 s.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use ostler::keeper::Changes;
use ostler_gateway::Gateway;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use crate::out::say;

/// Time without events before a reload.
const QUIET: Duration = Duration::from_millis(100);
/// Longest delay of a reload.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches the file until the returned values are dropped.
pub(super) fn begin(
    gateway: &Arc<Gateway>,
) -> Option<(RecommendedWatcher, tokio::task::JoinHandle<()>)> {
    let path = gateway.configuration()?.to_owned();
    let (sender, receiver) = mpsc::channel(1);
    let watcher = watch(&path, sender);
    let watcher = watcher
        .inspect_err(|error| {
            say(format_args!(
                "cannot watch the configuration: {error}; `ostler reload` rereads it"
            ));
        })
        .ok()?;
    Some((watcher, tokio::spawn(follow(Arc::clone(gateway), receiver))))
}

/// Watches the directory, because editors replace the file.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let file = path.to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_change =
            event.is_ok_and(|event| !event.kind.is_access() && event.paths.contains(&file));
        if is_change {
            // One queued event is enough.
            let _ = changed.try_send(());
        }
    })?;
    watcher.watch(path.parent().unwrap_or(path), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

async fn follow(gateway: Arc<Gateway>, mut changed: mpsc::Receiver<()>) {
    // The file may have changed between reading and watching.
    take_over(&gateway, false);
    while changed.recv().await.is_some() {
        let end = Instant::now() + PATIENCE;
        let is_quiet = |next: Result<Option<()>, Elapsed>| !matches!(next, Ok(Some(())));
        while Instant::now() < end && !is_quiet(timeout(QUIET, changed.recv()).await) {}
        take_over(&gateway, true);
    }
}

fn take_over(gateway: &Gateway, is_news: bool) {
    match gateway.reload() {
        Ok((Changes { kept, changed, removed, added }, notices)) => {
            let counts = [kept, changed, removed, added].map(|names| names.len());
            if is_news || counts[1..] != [0; 3] {
                let [kept, changed, removed, added] = counts;
                say(format_args!(
                    "applied the configuration: {kept} kept, {changed} changed, {removed} removed, {added} added"
                ));
                notices.iter().for_each(say);
            }
        }
        Err(error) => say(format_args!("kept the current configuration: {error}")),
    }
}
