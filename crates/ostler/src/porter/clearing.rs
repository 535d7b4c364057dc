//! Removing what came of a Door, for as long as it takes.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::wire::{Report, Service};
use crate::door::Door;
use crate::door::note::Note;
use crate::engine::claim::{Claim, Cleared, Creates, News, Times};
use crate::engine::clear::clear;
use crate::engine::exec::end_execs;
use crate::engine::{EngineResidue, EngineState};

/// Until what is still there is looked at anew, after it was told once.
const LATER_LIMIT: Duration = Duration::from_secs(30);

/// Before commands that could not be ended are looked at again.
const EXEC_RETRY: Duration = Duration::from_secs(5);

/// Creates that another porter has let through and nobody counts any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) count: usize,
    /// When they can't appear any more.
    pub(super) until: Instant,
}

/// Returns when nothing is left, and that is on record.
pub(super) async fn run(
    service: &Service,
    door: &Door,
    lost: Lost,
    grace: Duration,
    reports: &UnboundedSender<Report>,
) {
    let instance = service.door.labels.instance;
    // Without a note nothing was ever created.
    if !matches!(Note::read(&service.book, instance), Ok(None)) {
        let state = EngineState::Asked;
        tell(reports, Report::Engine(state));
        let mut rounds =
            Rounds { service, limit: service.limit, grace, told: None, state, reports };
        rounds.go(Creates::Counted(door.creates())).await;
        if lost.count > 0 {
            let settle = lost.until.saturating_duration_since(Instant::now());
            rounds.go(Creates::Lost { count: lost.count, settle }).await;
        }
        rounds.end_execs(door).await;
        // If it can't be taken back, the next sweep finds out that there is nothing.
        let _ = Note::remove(&service.book, instance);
    }
    tell(reports, Report::Cleared);
}

struct Rounds<'a> {
    service: &'a Service,
    limit: Duration,
    grace: Duration,
    /// What was told last.
    told: Option<EngineResidue>,
    state: EngineState,
    reports: &'a UnboundedSender<Report>,
}

impl Rounds<'_> {
    async fn go(&mut self, creates: Creates) {
        let Service { door, .. } = self.service;
        let claim = Claim { instance: door.labels.instance, creates };
        loop {
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.limit };
            let mut hear = |news| match news {
                News::Removed(container) => tell(self.reports, Report::Removed(container)),
                News::State(state) if state == self.state => {}
                News::State(state) => {
                    self.state = state;
                    tell(self.reports, Report::Engine(state));
                }
            };
            match clear(&door.endpoint, &claim, &times, &mut hear).await {
                Cleared::Gone { .. } => return,
                Cleared::Unverified(residue) => self.tell_of(residue),
            }
            (self.limit, self.grace) = (LATER_LIMIT, Duration::ZERO);
        }
    }

    /// What runs in our own containers has gone with them.
    async fn end_execs(&mut self, door: &Door) {
        loop {
            let execs = door.execs();
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.service.limit };
            let left = end_execs(&self.service.door.endpoint, &execs, &times).await;
            let is_left = |exec: &&String| left.iter().any(|one| one.id == **exec);
            execs.iter().filter(|exec| !is_left(exec)).for_each(|exec| door.ended(exec));
            if left.is_empty() {
                return;
            }
            self.tell_of(EngineResidue::Execs(left));
            tokio::time::sleep(EXEC_RETRY).await;
        }
    }

    fn tell_of(&mut self, residue: EngineResidue) {
        if self.told.as_ref() != Some(&residue) {
            tell(self.reports, Report::Remaining(residue.clone()));
            self.told = Some(residue);
        }
    }
}

fn tell(reports: &UnboundedSender<Report>, report: Report) {
    // Whoever receives them ends with the porter.
    let _ = reports.send(report);
}
