//! Removing what came of the Doors, for as long as it takes.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};

use super::moods::{Mood, Moods};
use super::role::Post;
use crate::containers::{EngineResidue, EngineState, RemovedContainer};
use crate::door::note::Note;
use crate::engine::claim::{Claim, Cleared, Creates, News, Times};
use crate::engine::clear::clear;
use crate::engine::exec::end_execs;
use crate::notes::is_podman_noted;
use crate::podman::{self, Clearance};
use crate::wire::porter::{Report, Service, Wrapped};

/// Until what is still there is looked at anew, after it was told once.
const LATER_LIMIT: Duration = Duration::from_secs(30);

/// Before commands that could not be ended are looked at again.
const EXEC_RETRY: Duration = Duration::from_secs(5);

/// Before podman is asked again that has not removed everything.
const PODMAN_RETRY: Duration = Duration::from_secs(1);

/// Creates that another porter has let through and nobody counts any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) count: usize,
    /// When they can't appear any more.
    pub(super) until: Instant,
}

/// What is known of the server's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// Some may be alive.
    Alive,
    /// None is, and the way down began at that time, in seconds since 1970.
    Empty { since: i64 },
    /// Nobody is left to say so. Whoever ends them sees to the rest.
    Unwatched,
}

/// Returns when nothing is left, and that is on record.
pub(super) async fn run(
    service: &Rc<Service>,
    posts: &[Rc<Post>],
    grace: Duration,
    tree: &watch::Sender<Tree>,
    reports: &UnboundedSender<Report>,
) {
    // At the same time, because an engine that is down has nothing to do with another.
    let (mut all, moods) = (JoinSet::new(), Moods::default());
    for post in posts {
        let rounds = Rounds::new(service, grace, &moods, reports);
        all.spawn_local(rounds.behind(Rc::clone(post)));
    }
    let rounds = Rounds::new(service, grace, &moods, reports);
    all.spawn_local(rounds.in_podmans_books(tree.subscribe()));
    all.join_all().await;
    tell(reports, Report::Cleared);
}

struct Rounds {
    service: Rc<Service>,
    limit: Duration,
    grace: Duration,
    /// What was told last.
    told: Option<EngineResidue>,
    mood: Mood,
    reports: UnboundedSender<Report>,
}

impl Rounds {
    fn new(
        service: &Rc<Service>,
        grace: Duration,
        moods: &Moods,
        reports: &UnboundedSender<Report>,
    ) -> Self {
        let (service, reports, mood) = (Rc::clone(service), reports.clone(), moods.enter());
        Self { limit: service.limit, service, grace, told: None, mood, reports }
    }

    /// Removes what came of one Door.
    async fn behind(mut self, post: Rc<Post>) {
        // Without a note nothing was ever created.
        if matches!(Note::read(&post.orders.note), Ok(None)) {
            return;
        }
        self.mood.set(EngineState::Asked, &self.reports);
        self.go(&post, Creates::Counted(post.door.creates())).await;
        let Lost { count, until } = post.lost;
        if count > 0 {
            let settle = until.saturating_duration_since(Instant::now());
            self.go(&post, Creates::Lost { count, settle }).await;
        }
        self.end_execs(&post).await;
        // If it can't be taken back, the next sweep finds out that there is nothing.
        let _ = Note::remove(&post.orders.note);
        self.mood.set(EngineState::Clear, &self.reports);
    }

    /// Removes what podman has made by itself, once no process of the server can make more.
    async fn in_podmans_books(mut self, mut tree: watch::Receiver<Tree>) {
        let known = tree.wait_for(|tree| *tree != Tree::Alive).await.map(|tree| *tree);
        let Ok(Tree::Empty { since }) = known else { return };
        let instance = self.service.labels.instance;
        let Some(Wrapped { podman, .. }) = self.service.podman.clone() else { return };
        while is_podman_noted(&self.service.book, instance) {
            if self.told.is_none() {
                self.mood.set(EngineState::Answering, &self.reports);
            }
            let (book, limit, reports, podman) =
                (self.service.book.clone(), self.limit, self.reports.clone(), podman.clone());
            let cleared = spawn_blocking(move || {
                let mut removed = |container| tell(&reports, Report::Removed(container));
                let removed: Option<&mut dyn FnMut(RemovedContainer)> = Some(&mut removed);
                podman::clear(&book, instance, &podman, &mut Clearance { limit, since, removed })
            });
            match cleared.await {
                Ok(Ok(())) => return self.mood.set(EngineState::Clear, &self.reports),
                Ok(Err(residue)) => {
                    if matches!(residue, EngineResidue::Unreachable(_)) {
                        self.mood.set(EngineState::Silent, &self.reports);
                    }
                    self.tell_of(residue);
                }
                // Nobody aborts it, and it does not panic.
                Err(_) => {}
            }
            self.limit = LATER_LIMIT;
            tokio::time::sleep(PODMAN_RETRY).await;
        }
    }

    async fn go(&mut self, post: &Post, creates: Creates) {
        let (instance, made) = (self.service.labels.instance, post.door.made());
        let claim = Claim { instance, made, creates };
        loop {
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.limit };
            let (mood, reports) = (&self.mood, &self.reports);
            let mut hear = |news| match news {
                News::Removed(container) => tell(reports, Report::Removed(container)),
                News::State(state) => mood.set(state, reports),
            };
            match clear(&post.orders.passage.endpoint, &claim, &times, &mut hear).await {
                Cleared::Gone { .. } => return,
                Cleared::Unverified(residue) => self.tell_of(residue),
            }
            (self.limit, self.grace) = (LATER_LIMIT, Duration::ZERO);
        }
    }

    /// What runs in our own containers has gone with them.
    async fn end_execs(&mut self, post: &Post) {
        loop {
            let execs = post.door.execs();
            let times = Times { grace: self.grace, call: Times::CALL, limit: self.service.limit };
            let left = end_execs(&post.orders.passage.endpoint, &execs, &times).await;
            let is_left = |exec: &&String| left.iter().any(|one| one.id == **exec);
            execs.iter().filter(|exec| !is_left(exec)).for_each(|exec| post.door.ended(exec));
            if left.is_empty() {
                return;
            }
            self.tell_of(EngineResidue::Execs(left));
            tokio::time::sleep(EXEC_RETRY).await;
        }
    }

    fn tell_of(&mut self, residue: EngineResidue) {
        if self.told.as_ref() != Some(&residue) {
            tell(&self.reports, Report::Remaining(residue.clone()));
            self.told = Some(residue);
        }
    }
}

pub(super) fn tell(reports: &UnboundedSender<Report>, report: Report) {
    // Whoever receives them ends with the porter.
    let _ = reports.send(report);
}
