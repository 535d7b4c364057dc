//! Ending what is left behind the Doors of instances that nobody guards any more.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{Haste, Removal, demolish};
use crate::containers::{Endpoint, EngineDoor, EngineResidue, Unreachable, Ways};
use crate::door::note::Note;
use crate::engine::Tool;
use crate::engine::claim::{Claim, Cleared, Creates, Times};
use crate::engine::clear::{block_on, clear};
use crate::engine::exec::end_execs;
use crate::engine::proof::CreatedIds;
use crate::id::InstanceId;
use crate::ledger::End;
use crate::level::Level;
use crate::limits::Limits;
use crate::notes::{door_note, is_podman_noted, remove_unused_podman_note};
use crate::outcome::{Outcome, Residue};
use crate::podman::{self, Clearance, Podman};
use crate::spec::ServerSpec;

/// How many instances are seen to at a time. For each, several containers are removed at a time.
const AT_A_TIME: usize = 4;
/// How long an engine is given that answers, and has more to remove than is done at once.
const BUSY_ENGINE: Duration = Duration::from_mins(2);

/// Why an engine behind ssh is not asked.
const UNASKED: &str = "ostler connects through ssh only to the engine that its own environment names; \
                       run 'ostler reap --yes' with DOCKER_HOST set to it";

/// An instance that may have something in an engine.
#[derive(Clone, Debug)]
struct Debt {
    instance: InstanceId,
    /// Where it is noted.
    note: PathBuf,
    endpoint: Endpoint,
    /// How many creates nobody counts any more.
    creates: usize,
    /// Commands that may run in containers that are not ours.
    execs: Vec<String>,
    /// Containers that were made.
    made: CreatedIds,
}

/// Removes what the notes beside a ledger tell of, and the sockets of all that is settled then.
pub(crate) fn end<'w>(
    book: &Path,
    instances: impl IntoIterator<Item = (InstanceId, &'w Ways, Level)>,
    outcomes: &mut BTreeMap<InstanceId, Outcome>,
    removal: &Removal,
) {
    let instances: Vec<(InstanceId, &Ways, Level)> = instances.into_iter().collect();
    let debts = instances.iter().flat_map(|(id, ways, _)| debts(book, *id, ways));
    let (debts, refused) = sort(debts, removal.haste);
    let mut left = pay(debts, &removal.limits, removal.haste);
    left.extend(refused);
    for (id, ways, level) in instances {
        let Some(outcome) = outcomes.remove(&id) else { continue };
        let cleared = left.remove(&id).map_or(Ok(()), Err);
        let podmans = clear_podman(book, id, &outcome, removal, level);
        let cleared = cleared.and(podmans);
        let outcome = outcome.with_engine(cleared);
        if End::from(&outcome).is_settled() {
            demolish(ways, id);
        }
        outcomes.insert(id, outcome);
    }
}

/// Only when no process of the instance is left: one that is could create more.
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
        // Whoever would have been told is dead.
        let mut clearance = Clearance { limit: limits.containers, since: 0, removed: None };
        match podman::clear(book, instance, &podman, &mut clearance) {
            Ok(()) => return Ok(()),
            Err(residue @ EngineResidue::Unreachable(_)) => return Err(residue),
            Err(residue) if is_enough(&residue, *haste, begin) => return Err(residue),
            Err(_) => {}
        }
    }
}

/// Whether to give up for now: time does not help where it is not known whose a container is.
fn is_enough(residue: &EngineResidue, haste: Haste, begin: Instant) -> bool {
    haste == Haste::Waiting || residue.is_in_doubt() || begin.elapsed() > BUSY_ENGINE
}

/// Which engines may have containers of the instance, as notes say. Those that must not be asked are left out.
pub(crate) fn noted_engines(
    book: &Path,
    instance: InstanceId,
    ways: &Ways,
) -> impl Iterator<Item = Endpoint> {
    let noted = debts(book, instance, ways).map(|debt| debt.endpoint);
    noted.filter(|endpoint| !matches!(endpoint, Endpoint::Ssh(_)) || is_own_engine(endpoint))
}

/// Splits off what is behind ssh if a ledger on disk says so: to reach it a program is executed, and a server of the
/// same user may have written the ledger. The engine that this process's own environment names is asked.
fn sort(
    debts: impl Iterator<Item = Debt>,
    haste: Haste,
) -> (Vec<Debt>, BTreeMap<InstanceId, EngineResidue>) {
    let is_refused = |debt: &Debt| {
        haste == Haste::Sweeping
            && matches!(debt.endpoint, Endpoint::Ssh(_))
            && !is_own_engine(&debt.endpoint)
    };
    let (refused, debts): (Vec<Debt>, Vec<Debt>) = debts.partition(is_refused);
    let residue = |debt: Debt| {
        let endpoint = debt.endpoint.to_string();
        (
            debt.instance,
            EngineResidue::Unreachable(Unreachable { endpoint, reason: UNASKED.into() }),
        )
    };
    (debts, refused.into_iter().map(residue).collect())
}

/// Whether a docker command of this process would ask this engine.
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

fn debts(book: &Path, instance: InstanceId, ways: &Ways) -> impl Iterator<Item = Debt> {
    ways.engines.iter().filter_map(move |engine_door| debt(book, instance, engine_door))
}

fn debt(book: &Path, instance: InstanceId, engine_door: &EngineDoor) -> Option<Debt> {
    // One that is there and can't be read may have said anything.
    let unread = |_| Some(Note::new(1));
    let note = door_note(book, &engine_door.socket);
    let Note { creates, execs, made } = Note::read(&note).unwrap_or_else(unread)?;
    let endpoint = engine_door.endpoint.clone();
    Some(Debt { instance, note, endpoint, creates, execs, made: made.into() })
}

/// Returns what is left.
fn pay(debts: Vec<Debt>, limits: &Limits, haste: Haste) -> BTreeMap<InstanceId, EngineResidue> {
    if debts.is_empty() {
        return BTreeMap::new();
    }
    let limits = *limits;
    let pay_one = move |debt: Debt| async move { pay_one(&debt, limits, haste).await };
    let asked = block_on(pay_all(debts.clone(), pay_one));
    asked.unwrap_or_else(|error| {
        debts.into_iter().map(|debt| (debt.instance, unasked(&debt.endpoint, &error))).collect()
    })
}

fn unasked(endpoint: &Endpoint, error: &io::Error) -> EngineResidue {
    let (endpoint, reason) = (endpoint.to_string(), error.to_string());
    EngineResidue::Unreachable(Unreachable { endpoint, reason })
}

/// Sees to all of them, a few at a time, and returns what is left.
async fn pay_all<Paid>(
    debts: Vec<Debt>,
    pay_one: impl Fn(Debt) -> Paid,
) -> BTreeMap<InstanceId, EngineResidue>
where
    Paid: Future<Output = Result<(), EngineResidue>> + Send + 'static,
{
    let (mut debts, mut tasks, mut left) = (debts.into_iter(), JoinSet::new(), BTreeMap::new());
    let mut under_way = HashMap::new();
    loop {
        while tasks.len() < AT_A_TIME
            && let Some(debt) = debts.next()
        {
            under_way.insert(tasks.spawn(pay_one(debt.clone())).id(), debt);
        }
        let (task, paid) = match tasks.join_next_with_id().await {
            Some(Ok((task, paid))) => (task, Ok(paid)),
            Some(Err(error)) => (error.id(), Err(io::Error::from(error))),
            None => return left,
        };
        let Some(debt) = under_way.remove(&task) else { continue };
        // A task that has panicked has proven nothing, and its note stays.
        match paid.unwrap_or_else(|error| Err(unasked(&debt.endpoint, &error))) {
            Err(residue) => drop(left.insert(debt.instance, residue)),
            // What can't be taken back is looked into again by the next sweep.
            Ok(()) => drop(Note::remove(&debt.note)),
        }
    }
}

async fn pay_one(debt: &Debt, limits: Limits, haste: Haste) -> Result<(), EngineResidue> {
    let begin = Instant::now();
    let mut grace = limits.orphan_grace;
    loop {
        let settle = limits.late_create.saturating_sub(begin.elapsed());
        let (creates, limit) = match (debt.creates, haste) {
            (0, _) => (Creates::None, limits.containers),
            (count, Haste::Waiting) => (Creates::Lost { count, settle }, limits.containers),
            (count, Haste::Sweeping) => {
                (Creates::Lost { count, settle }, limits.containers + settle)
            }
        };
        let claim = Claim { instance: debt.instance, made: debt.made.clone(), creates };
        let times = Times { grace, call: Times::CALL, limit };
        match clear(&debt.endpoint, &claim, &times, &mut |_| {}).await {
            Cleared::Gone { .. } => break,
            Cleared::Unverified(residue @ EngineResidue::Unreachable(_)) => return Err(residue),
            Cleared::Unverified(residue) if is_enough(&residue, haste, begin) => {
                return Err(residue);
            }
            Cleared::Unverified(_) => grace = Duration::ZERO,
        }
    }
    let times = Times { grace, call: Times::CALL, limit: limits.containers };
    let left = end_execs(&debt.endpoint, &debt.execs, &times).await;
    if left.is_empty() { Ok(()) } else { Err(EngineResidue::Execs(left)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt_to(endpoint: Endpoint, instance: InstanceId) -> Debt {
        let (note, made) = (PathBuf::new(), CreatedIds::from(Vec::new()));
        Debt { instance, note, endpoint, creates: 0, execs: Vec::new(), made }
    }

    /// A server of the same user may have written the ledger, and to reach this engine a program is executed.
    #[test]
    fn a_sweep_goes_through_ssh_to_no_engine_that_only_a_ledger_names() {
        let instance = InstanceId::random().unwrap();
        let debt = |endpoint: &str| debt_to(endpoint.parse().unwrap(), instance);
        let debts = || ["ssh://evil", "unix:///engine"].map(debt).into_iter();
        let (asked, refused) = sort(debts(), Haste::Sweeping);
        let asked: Vec<String> = asked.iter().map(|debt| debt.endpoint.to_string()).collect();
        assert_eq!(asked, ["unix:///engine"]);
        assert!(refused[&instance].to_string().contains("DOCKER_HOST"), "{refused:?}");
        let (asked, refused) = sort(debts(), Haste::Waiting);
        assert_eq!((asked.len(), refused.len()), (2, 0), "the owner itself found these");
    }

    /// The engine has proven nothing to a task that was lost.
    #[tokio::test]
    async fn a_clearing_that_panics_leaves_a_residue_and_its_note() {
        let directory = tempfile::tempdir().unwrap();
        let [lost, cleared] = ["lost", "cleared"].map(|name| {
            let note = directory.path().join(name);
            std::fs::write(&note, "").unwrap();
            let endpoint = format!("unix:///{name}").parse().unwrap();
            Debt { note, ..debt_to(endpoint, InstanceId::random().unwrap()) }
        });
        let lost_id = lost.instance;
        let left = pay_all(vec![lost.clone(), cleared.clone()], move |debt| async move {
            assert_ne!(debt.instance, lost_id, "this clearing fails");
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
