//! Removes containers of instances that have neither guardian nor porter any more.
//!
//! The notes beside the ledger tell which instances may have containers, and in which engines and podman stores. All
//! engines are cleared at the same time, a few instances at once; then podman's stores, if no process of the instance is
//! left. A note is removed only when its engine is proven to hold nothing.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Haste, Removal, remove_files};
use crate::containers::{Endpoint, EngineDoor, EngineResidue, Unreachable, Ways};
use crate::door::note::Note;
use crate::engine::Tool;
use crate::engine::claim::{Claim, Cleared, PendingCreates, Times};
use crate::engine::clear::{block_on, clear};
use crate::engine::exec::end_execs;
use crate::engine::proof::CreatedIds;
use crate::id::InstanceId;
use crate::ledger::End;
use crate::level::Level;
use crate::limits::Limits;
use crate::notes::{door_note, is_podman_noted, remove_unused_podman_note};
use crate::outcome::{Outcome, Residue};
use crate::podman::{self, ClearOptions, Podman};
use crate::spec::ServerSpec;

/// Engines that are cleared at a time; in each, several containers are removed at a time.
const AT_A_TIME: usize = 4;
/// How long a sweep goes on with an engine that responds but still holds containers.
const BUSY_ENGINE: Duration = Duration::from_mins(2);

/// The reason reported for an ssh engine that only a ledger names.
const SSH_REFUSED: &str = "ostler connects through ssh only to the engine that its own environment names; \
                       run 'ostler reap --yes' with DOCKER_HOST set to it";

/// An engine that may hold something of an instance, according to a Door's note.
#[derive(Clone, Debug)]
struct PendingClear {
    instance: InstanceId,
    /// Path of the note.
    note: PathBuf,
    endpoint: Endpoint,
    /// Number of creates whose responses are lost.
    creates: usize,
    /// Exec sessions that may still run in foreign containers.
    execs: Vec<String>,
    /// Created containers.
    made: CreatedIds,
}

/// Removes everything that the notes beside a ledger name, and adds the result to `outcomes`. Removes the sockets and
/// shelves of instances that are settled then.
pub(crate) fn end<'w>(
    book: &Path,
    instances: impl IntoIterator<Item = (InstanceId, &'w Ways, Level)>,
    outcomes: &mut BTreeMap<InstanceId, Outcome>,
    removal: &Removal,
) {
    let instances: Vec<(InstanceId, &Ways, Level)> = instances.into_iter().collect();
    let pending = instances.iter().flat_map(|(id, ways, _)| pending_clears(book, *id, ways));
    let (pending, refused) = split_refused(pending, removal.haste);
    let mut left = clear_engines(pending, &removal.limits, removal.haste);
    left.extend(refused);
    for (id, ways, level) in instances {
        let Some(outcome) = outcomes.remove(&id) else { continue };
        let cleared = left.remove(&id).map_or(Ok(()), Err);
        let podmans = clear_podman(book, id, &outcome, removal, level);
        let cleared = cleared.and(podmans);
        let outcome = outcome.with_engine(cleared);
        if End::from(&outcome).is_settled() {
            remove_files(ways, id);
        }
        outcomes.insert(id, outcome);
    }
}

/// Clears podman's stores, but only if no process of the instance is left, because it could create more.
fn clear_podman(
    book: &Path,
    instance: InstanceId,
    outcome: &Outcome,
    removal: &Removal,
    level: Level,
) -> Result<(), EngineResidue> {
    let has_processes = matches!(outcome, Outcome::Unverified(Residue::Processes(_)));
    remove_unused_podman_note(book, instance);
    if has_processes || !is_podman_noted(book, instance) {
        return Ok(());
    }
    let Removal { limits, haste, guardian } = removal;
    let podman = Podman::own(level, guardian.clone());
    let begin = Instant::now();
    loop {
        // Nothing is reported: the owner that would receive it is dead.
        let mut options = ClearOptions { limit: limits.containers, since: 0, removed: None };
        match podman::clear(book, instance, &podman, &mut options) {
            Ok(()) => return Ok(()),
            Err(residue @ EngineResidue::Unreachable(_)) => return Err(residue),
            Err(residue) if is_enough(&residue, *haste, begin) => return Err(residue),
            Err(_) => {}
        }
    }
}

/// Whether to give up for now. More time does not help if the origin of all that is left is unknown.
fn is_enough(residue: &EngineResidue, haste: Haste, begin: Instant) -> bool {
    haste == Haste::Waiting || residue.is_in_doubt() || begin.elapsed() > BUSY_ENGINE
}

/// The engines that may hold containers of the instance according to the notes, without those that must not be
/// contacted.
pub(crate) fn noted_engines(
    book: &Path,
    instance: InstanceId,
    ways: &Ways,
) -> impl Iterator<Item = Endpoint> {
    let noted = pending_clears(book, instance, ways).map(|one| one.endpoint);
    noted.filter(|endpoint| !matches!(endpoint, Endpoint::Ssh(_)) || is_own_engine(endpoint))
}

/// Splits off ssh engines that only a ledger names: reaching one executes a program, and a server of the same user may
/// have written the ledger. An ssh engine that this process's own environment names is allowed.
fn split_refused(
    pending: impl Iterator<Item = PendingClear>,
    haste: Haste,
) -> (Vec<PendingClear>, BTreeMap<InstanceId, EngineResidue>) {
    let is_refused = |one: &PendingClear| {
        haste == Haste::Sweeping
            && matches!(one.endpoint, Endpoint::Ssh(_))
            && !is_own_engine(&one.endpoint)
    };
    let (refused, pending): (Vec<PendingClear>, Vec<PendingClear>) = pending.partition(is_refused);
    let residue = |one: PendingClear| {
        let endpoint = one.endpoint.to_string();
        (
            one.instance,
            EngineResidue::Unreachable(Unreachable { endpoint, reason: SSH_REFUSED.into() }),
        )
    };
    (pending, refused.into_iter().map(residue).collect())
}

/// Whether a docker command of this process would use this engine.
fn is_own_engine(endpoint: &Endpoint) -> bool {
    let spec = ServerSpec {
        name: String::new(),
        program: "docker".into(),
        args: Vec::new(),
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    Endpoint::of(&spec, Tool::Docker).is_ok_and(|own| own == *endpoint)
}

fn pending_clears(
    book: &Path,
    instance: InstanceId,
    ways: &Ways,
) -> impl Iterator<Item = PendingClear> {
    ways.engines.iter().filter_map(move |engine_door| pending_clear(book, instance, engine_door))
}

fn pending_clear(
    book: &Path,
    instance: InstanceId,
    engine_door: &EngineDoor,
) -> Option<PendingClear> {
    // An unreadable note may have said anything, so one lost create is assumed.
    let unread = |_| Some(Note::new(1));
    let note = door_note(book, &engine_door.socket);
    let Note { creates, execs, made } = Note::read(&note).unwrap_or_else(unread)?;
    let endpoint = engine_door.endpoint.clone();
    Some(PendingClear { instance, note, endpoint, creates, execs, made: made.into() })
}

/// Clears all engines and returns what is left, by instance.
fn clear_engines(
    pending: Vec<PendingClear>,
    limits: &Limits,
    haste: Haste,
) -> BTreeMap<InstanceId, EngineResidue> {
    if pending.is_empty() {
        return BTreeMap::new();
    }
    let limits = *limits;
    let clear_engine =
        move |one: PendingClear| async move { clear_engine(&one, limits, haste).await };
    let result = block_on(run_all(pending.clone(), clear_engine));
    result.unwrap_or_else(|error| {
        pending.into_iter().map(|one| (one.instance, unreachable(&one.endpoint, &error))).collect()
    })
}

fn unreachable(endpoint: &Endpoint, error: &io::Error) -> EngineResidue {
    let (endpoint, reason) = (endpoint.to_string(), error.to_string());
    EngineResidue::Unreachable(Unreachable { endpoint, reason })
}

/// Runs `clear_engine` for all, a few at a time. Removes the notes of those that succeed and returns what is left.
async fn run_all<Task>(
    pending: Vec<PendingClear>,
    clear_engine: impl Fn(PendingClear) -> Task,
) -> BTreeMap<InstanceId, EngineResidue>
where
    Task: Future<Output = Result<(), EngineResidue>> + Send + 'static,
{
    let (mut pending, mut tasks, mut left) = (pending.into_iter(), JoinSet::new(), BTreeMap::new());
    let mut running = HashMap::new();
    loop {
        while tasks.len() < AT_A_TIME
            && let Some(one) = pending.next()
        {
            running.insert(tasks.spawn(clear_engine(one.clone())).id(), one);
        }
        let (task, cleared) = match tasks.join_next_with_id().await {
            Some(Ok((task, cleared))) => (task, Ok(cleared)),
            Some(Err(error)) => (error.id(), Err(io::Error::from(error))),
            None => return left,
        };
        let Some(one) = running.remove(&task) else { continue };
        // A task that panicked has proven nothing, so its note stays.
        match cleared.unwrap_or_else(|error| Err(unreachable(&one.endpoint, &error))) {
            Err(residue) => drop(left.insert(one.instance, residue)),
            // If the note can't be removed, the next sweep checks the engine again.
            Ok(()) => drop(Note::remove(&one.note)),
        }
    }
}

async fn clear_engine(
    one: &PendingClear,
    limits: Limits,
    haste: Haste,
) -> Result<(), EngineResidue> {
    let begin = Instant::now();
    let mut grace = limits.orphan_grace;
    loop {
        let settle = limits.late_create.saturating_sub(begin.elapsed());
        let (creates, limit) = match (one.creates, haste) {
            (0, _) => (PendingCreates::None, limits.containers),
            (count, Haste::Waiting) => (PendingCreates::Lost { count, settle }, limits.containers),
            (count, Haste::Sweeping) => {
                (PendingCreates::Lost { count, settle }, limits.containers + settle)
            }
        };
        let claim = Claim { instance: one.instance, made: one.made.clone(), creates };
        let times = Times { grace, call: Times::CALL, limit };
        match clear(&one.endpoint, &claim, &times, &mut |_| {}).await {
            Cleared::Gone { .. } => break,
            Cleared::Unverified(residue @ EngineResidue::Unreachable(_)) => return Err(residue),
            Cleared::Unverified(residue) if is_enough(&residue, haste, begin) => {
                return Err(residue);
            }
            Cleared::Unverified(_) => grace = Duration::ZERO,
        }
    }
    let times = Times { grace, call: Times::CALL, limit: limits.containers };
    let left = end_execs(&one.endpoint, &one.execs, &times).await;
    if left.is_empty() { Ok(()) } else { Err(EngineResidue::Execs(left)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_at(endpoint: Endpoint, instance: InstanceId) -> PendingClear {
        let (note, made) = (PathBuf::new(), CreatedIds::from(Vec::new()));
        PendingClear { instance, note, endpoint, creates: 0, execs: Vec::new(), made }
    }

    /// A server of the same user may have written the ledger, and reaching an ssh engine executes a program.
    #[test]
    fn a_sweep_does_not_connect_by_ssh_to_an_engine_that_only_a_ledger_names() {
        let instance = InstanceId::random().unwrap();
        let one = |endpoint: &str| pending_at(endpoint.parse().unwrap(), instance);
        let pending = || ["ssh://evil", "unix:///engine"].map(one).into_iter();
        let (allowed, refused) = split_refused(pending(), Haste::Sweeping);
        let allowed: Vec<String> = allowed.iter().map(|one| one.endpoint.to_string()).collect();
        assert_eq!(allowed, ["unix:///engine"]);
        assert!(refused[&instance].to_string().contains("DOCKER_HOST"), "{refused:?}");
        let (allowed, refused) = split_refused(pending(), Haste::Waiting);
        assert_eq!((allowed.len(), refused.len()), (2, 0), "the owner itself found these");
    }

    /// A task that panicked has proven nothing.
    #[tokio::test]
    async fn a_clearing_that_panics_leaves_a_residue_and_its_note() {
        let directory = tempfile::tempdir().unwrap();
        let [lost, cleared] = ["lost", "cleared"].map(|name| {
            let note = directory.path().join(name);
            std::fs::write(&note, "").unwrap();
            let endpoint = format!("unix:///{name}").parse().unwrap();
            PendingClear { note, ..pending_at(endpoint, InstanceId::random().unwrap()) }
        });
        let lost_id = lost.instance;
        let left = run_all(vec![lost.clone(), cleared.clone()], move |one| async move {
            assert_ne!(one.instance, lost_id, "this clearing fails");
            Ok(())
        });
        let left = left.await;
        assert_eq!(left.len(), 1, "{left:?}");
        let EngineResidue::Unreachable(residue) = &left[&lost.instance] else { panic!("{left:?}") };
        assert_eq!(residue.endpoint, "unix:///lost");
        assert!(lost.note.exists(), "the next sweep has to find it");
        assert!(!cleared.note.exists());
        let gone = Outcome::Gone(crate::outcome::Proof::NoChild);
        let outcome = gone.with_engine(Err(left[&lost.instance].clone()));
        assert!(!End::from(&outcome).is_settled());
    }
}
