//! Looking after the configuration file.

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

/// Whoever writes a file does so in several steps.
const QUIET: Duration = Duration::from_millis(100);
/// But not for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// Takes over the configuration whenever its file changes, as long as this is held.
pub(super) fn begin(
    gateway: &Arc<Gateway>,
) -> Option<(RecommendedWatcher, tokio::task::JoinHandle<()>)> {
    let path = gateway.configuration()?.to_owned();
    let (sender, receiver) = mpsc::channel(1);
    let watcher = watch(&path, sender);
    let watcher = watcher
        .inspect_err(|error| {
            say(format_args!("changes of the configuration are not seen: {error}"));
        })
        .ok()?;
    Some((watcher, tokio::spawn(follow(Arc::clone(gateway), receiver))))
}

/// Its directory, because editors put a new file in the place of the old one.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let file = path.to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let is_change =
            event.is_ok_and(|event| !event.kind.is_access() && event.paths.contains(&file));
        if is_change {
            // One that waits already stands for all.
            let _ = changed.try_send(());
        }
    })?;
    watcher.watch(path.parent().unwrap_or(path), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

async fn follow(gateway: Arc<Gateway>, mut changed: mpsc::Receiver<()>) {
    // It may have changed since it was read, when nobody watched yet.
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
                    "took over the configuration: {kept} kept, {changed} changed, {removed} removed, {added} added"
                ));
                notices.iter().for_each(say);
            }
        }
        Err(error) => say(format_args!("the configuration in force stays: {error}")),
    }
}
