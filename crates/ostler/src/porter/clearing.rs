//! Removes everything that the server created in engines and podman, for as long as that takes.
//!
//! One task per Door, and one for podman without a service, run at the same time, so an engine that is down does not
//! delay the others. Each task repeats until its engine proves that nothing is left. Whenever a round exceeds its
//! limit, the task reports the rest as residue, once per distinct residue, and goes on. The clearing ends, with
//! [`PorterReport::Cleared`], when all tasks have ended.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use super::engine_states::{EngineStateSlot, EngineStates};
use super::role::ServedDoor;
use crate::containers::{EngineResidue, EngineState, RemovedContainer};
use crate::door::note::Note;
use crate::engine::claim::{Claim, ClearProgress, Cleared, PendingCreates, Times};
use crate::engine::clear::clear;
use crate::engine::exec::end_execs;
use crate::notes::is_podman_noted;
use crate::podman::{self, ClearOptions};
use crate::wire::porter::{PorterConfig, PorterReport, WrappedPodman};

/// Limit of each round after the first one.
const LATER_LIMIT: Duration = Duration::from_secs(30);

/// Delay before another attempt to end exec sessions.
const EXEC_RETRY: Duration = Duration::from_secs(5);

/// Delay before another attempt if podman has not removed everything.
const PODMAN_RETRY: Duration = Duration::from_secs(1);

/// Creates that an earlier porter forwarded and whose responses are lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct LostCreates {
    pub(super) count: usize,
    /// After this time no container can appear from them any more.
    pub(super) until: Instant,
}

/// What is known of the server's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerProcesses {
    /// Some may be alive.
    Alive,
    /// None is; the teardown began at that time, in seconds since 1970.
    Empty { since: i64 },
    /// The guardian is dead, so this porter can't know. The sweep that ends the processes clears podman too.
    Unwatched,
}

/// Returns when nothing is left and the notes are removed.
pub(super) async fn run(
    config: &Rc<PorterConfig>,
    doors: &[Rc<ServedDoor>],
    grace: Duration,
    processes: &watch::Sender<ServerProcesses>,
    reports: &UnboundedSender<PorterReport>,
) {
    let (mut all, states) = (JoinSet::new(), EngineStates::default());
    for served in doors {
        let task = ClearTask::new(config, grace, &states, reports);
        all.spawn_local(task.clear_door(Rc::clone(served)));
    }
    let task = ClearTask::new(config, grace, &states, reports);
    all.spawn_local(task.clear_podman(processes.subscribe()));
    all.join_all().await;
    send(reports, PorterReport::Cleared);
}

struct ClearTask {
    config: Rc<PorterConfig>,
    limit: Duration,
    grace: Duration,
    last_reported: Option<EngineResidue>,
    slot: EngineStateSlot,
    reports: UnboundedSender<PorterReport>,
}

impl ClearTask {
    fn new(
        config: &Rc<PorterConfig>,
        grace: Duration,
        states: &EngineStates,
        reports: &UnboundedSender<PorterReport>,
    ) -> Self {
        let (config, reports, slot) = (Rc::clone(config), reports.clone(), states.add());
        Self { limit: config.limit, config, grace, last_reported: None, slot, reports }
    }

    /// Clears the containers behind one Door.
    async fn clear_door(mut self, served: Rc<ServedDoor>) {
        // Without a note no create was ever forwarded.
        if matches!(Note::read(&served.config.note), Ok(None)) {
            return;
        }
        self.slot.set(EngineState::Asked, &self.reports);
        self.clear_containers(&served, PendingCreates::Counted(served.door.creates())).await;
        let LostCreates { count, until } = served.lost;
        if count > 0 {
            let settle = until.saturating_duration_since(Instant::now());
            self.clear_containers(&served, PendingCreates::Lost { count, settle }).await;
        }
        self.end_execs(&served).await;
        // If this fails, the next sweep finds that the engine holds nothing.
        let _ = Note::remove(&served.config.note);
        self.slot.set(EngineState::Clear, &self.reports);
    }

    /// Clears what podman created without a service, once no process of the server can create more.
    async fn clear_podman(mut self, mut processes: watch::Receiver<ServerProcesses>) {
        let known = processes
            .wait_for(|processes| *processes != ServerProcesses::Alive)
            .await
            .map(|processes| *processes);
        let Ok(ServerProcesses::Empty { since }) = known else { return };
        let instance = self.config.labels.instance;
        let Some(WrappedPodman { podman, .. }) = self.config.podman.clone() else { return };
        while is_podman_noted(&self.config.book, instance) {
            if self.last_reported.is_none() {
                self.slot.set(EngineState::Answering, &self.reports);
            }
            let (book, limit, reports, podman) =
                (self.config.book.clone(), self.limit, self.reports.clone(), podman.clone());
            let cleared = spawn_blocking(move || {
                let mut removed = |container| send(&reports, PorterReport::Removed(container));
                let removed: Option<&mut dyn FnMut(RemovedContainer)> = Some(&mut removed);
                podman::clear(&book, instance, &podman, &mut ClearOptions { limit, since, removed })
            });
            match cleared.await {
                Ok(Ok(())) => return self.slot.set(EngineState::Clear, &self.reports),
                Ok(Err(residue)) => {
                    if matches!(residue, EngineResidue::Unreachable(_)) {
                        self.slot.set(EngineState::Silent, &self.reports);
                    }
                    self.report_residue(residue);
                }
                // The blocking task is never aborted and does not panic.
                Err(_) => {}
            }
            self.limit = LATER_LIMIT;
            tokio::time::sleep(PODMAN_RETRY).await;
        }
    }

    async fn clear_containers(&mut self, served: &ServedDoor, creates: PendingCreates) {
        let (instance, made) = (self.config.labels.instance, served.door.made());
        let claim = Claim { instance, made, creates };
        loop {
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.limit };
            let (slot, reports) = (&self.slot, &self.reports);
            let mut on_progress = |progress| match progress {
                ClearProgress::Removed(container) => {
                    send(reports, PorterReport::Removed(container));
                }
                ClearProgress::State(state) => slot.set(state, reports),
            };
            match clear(&served.config.engine_door.endpoint, &claim, &times, &mut on_progress).await
            {
                Cleared::Gone { .. } => return,
                Cleared::Unverified(residue) => self.report_residue(residue),
            }
            (self.limit, self.grace) = (LATER_LIMIT, Duration::ZERO);
        }
    }

    /// Ends exec sessions in foreign containers. Those in our own containers ended with the containers.
    async fn end_execs(&mut self, served: &ServedDoor) {
        loop {
            let execs = served.door.execs();
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.config.limit };
            let left = end_execs(&served.config.engine_door.endpoint, &execs, &times).await;
            let is_left = |exec: &&String| left.iter().any(|one| one.id == **exec);
            execs
                .iter()
                .filter(|exec| !is_left(exec))
                .for_each(|exec| served.door.exec_ended(exec));
            if left.is_empty() {
                return;
            }
            self.report_residue(EngineResidue::Execs(left));
            tokio::time::sleep(EXEC_RETRY).await;
        }
    }

    fn report_residue(&mut self, residue: EngineResidue) {
        if self.last_reported.as_ref() != Some(&residue) {
            send(&self.reports, PorterReport::Remaining(residue.clone()));
            self.last_reported = Some(residue);
        }
    }
}

pub(super) fn send(reports: &UnboundedSender<PorterReport>, report: PorterReport) {
    // The receiver lives as long as the porter.
    let _ = reports.send(report);
}
