//! Instances that are processes of this machine: their start, and the sweep over those whose owner is dead.
//!
//! A start has two halves around the ledger. [`Post::prepare`] spawns the guardian and finds cgroups and engines; none
//! of that needs cleanup if the start goes no further. Then the caller records the intent, and [`Post::start`] sends the
//! launch order. [`list`] and [`end`] work from the ledger of a dead owner, and [`rescue`] from the fence of an instance
//! whose guardian was killed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::cgroup::{Control, Leaf, is_limit_of};
use crate::evidence::{Evidence, Fields, Traces};
use crate::fence::{Fence, ServerStdio, StartError};
use crate::guardians::{self, Claimants};
use crate::id::{InstanceId, OwnerId};
use crate::ledger::{Book, Entry, Intent, PROCESS};
use crate::level::Level;
use crate::limits::Limits;
use crate::notes::is_noted;
use crate::outcome::{Outcome, Proof, Residue};
use crate::places::hidden;
use crate::proctable::{Process, boot_id};
use crate::remains::{self, Remains};
use crate::shelf::Shelf;
use crate::spec::ServerSpec;
use crate::terms::{GuardianProgram, Terms};
use crate::ways::{self, Found, Haste, Removal};
use crate::wire::guardian::Launch;

/// A server to be started.
#[derive(Debug)]
pub(crate) struct StartOrder {
    pub(crate) spec: ServerSpec,
    pub(crate) stdio: ServerStdio,
    pub(crate) owner: OwnerId,
    /// The owner's ledger directory, for guardians and sweeps that outlive the owner.
    pub(crate) book: PathBuf,
}

/// A guardian that runs and waits for its launch order, while the owner records the intent.
#[derive(Debug)]
pub(crate) struct Post {
    intent: Intent,
    controls: Vec<Control>,
    terms: Terms,
    /// The server's ways to containers.
    found: Found,
    /// `None` once the launch order was sent.
    guardian: Option<Fence>,
}

impl Post {
    /// Spawns the guardian and finds what the launch needs. Creates nothing that would need cleanup: that has to wait
    /// until the intent is recorded.
    pub(crate) fn prepare(
        instance: InstanceId,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Self, StartError> {
        // First, because the guardian's start takes the longest and runs in parallel with the rest.
        let guardian = Fence::spawn(instance, &spec.name, terms)?;
        let mut post = Self {
            intent: Intent { log: terms.log.clone(), ..Intent::new(instance, spec, PROCESS) },
            controls: Vec::new(),
            terms: terms.clone(),
            found: Found::default(),
            guardian: Some(guardian),
        };
        post.find_cgroups()?;
        post.found = Found::of(instance, spec, terms)?;
        post.intent.ways = post.found.ways.clone();
        Ok(post)
    }

    /// Finds paths for the leaf and for the cgroups of the limits, which the guardian creates.
    fn find_cgroups(&mut self) -> Result<(), StartError> {
        let instance = self.intent.instance;
        let leaf = match Leaf::place(instance) {
            Err(reason) if self.terms.containment.minimum() == Level::Leaf => {
                return Err(StartError::Containment(Level::Leaf, reason));
            }
            place => place.ok(),
        };
        self.controls = Control::places(&self.terms.resources, instance, leaf.as_deref())
            .map_err(|(name, reason)| StartError::Limit(name, reason))?;
        let limits = self.controls.iter().filter_map(Control::cgroup).map(Path::to_owned);
        (self.intent.leaf, self.intent.cgroups) = (leaf, limits.collect());
        Ok(())
    }

    /// What the start may create, for the ledger.
    pub(crate) fn intent(&self) -> &Intent {
        &self.intent
    }

    /// Sends the launch order, after the intent was recorded. From here on the server ends with its owner, whatever
    /// happens to the [`Fence`].
    pub(crate) fn start(mut self, order: StartOrder) -> Result<Fence, StartError> {
        let no_guardian = || StartError::Control(io::ErrorKind::NotConnected.into());
        let mut guardian = self.guardian.take().ok_or_else(no_guardian)?;
        if let Some(error) = self.found.no_door.take() {
            guardian.dismiss();
            return Err(StartError::Door(error));
        }
        let mut spec = order.spec;
        let whose = (&self.intent, order.owner);
        let engine = self.found.service(whose, &order.book, &spec, &self.terms);
        if let Some(service) = &engine {
            // Made here because the guardian, which the server waits for, still loads its program.
            if let Err(refusal) = Shelf::make(service) {
                guardian.dismiss();
                ways::remove_files(&self.intent.ways, self.intent.instance);
                return Err(StartError::Refused(refusal));
            }
            self.found.lead(&mut spec, &service.labels);
        }
        let Terms { containment, limits, descriptors, .. } = &self.terms;
        let launch = Launch {
            id: self.intent.instance,
            spec,
            leaf: self.intent.leaf.clone(),
            controls: std::mem::take(&mut self.controls),
            minimum: containment.minimum(),
            descriptors: *descriptors,
            ladder: limits.ladder(),
            orphan_ladder: limits.orphan_ladder(),
            proof_limit: limits.proof,
            hidden: hidden(containment.minimum(), Some(&order.book)),
            book: Some(order.book),
            engine,
            log: self.intent.log.clone(),
        };
        guardian.remark(self.found.unfollowed.take());
        let told = guardian.tell(launch, &self.intent, order.stdio);
        if told.is_err() {
            see_off(&mut guardian);
            ways::remove_files(&self.intent.ways, self.intent.instance);
        }
        told.map(|()| guardian)
    }
}

impl Drop for Post {
    /// Dismisses a guardian that got no launch order.
    fn drop(&mut self) {
        if let Some(guardian) = &mut self.guardian {
            see_off(guardian);
        }
    }
}

/// Dismisses a guardian without a server and reaps it, within the control limit.
fn see_off(guardian: &mut Fence) {
    if let Some(leaving) = guardian.dismiss() {
        leaving.reap();
    }
}

/// Lists what is left of each open instance of a dead owner, without changing anything.
pub(crate) fn list(left: &Book) -> BTreeMap<InstanceId, Evidence> {
    if is_of_another_boot(left) {
        let owed = left.open_entries().filter(|(id, entry)| is_owed(left, *id, entry));
        let evidence =
            |entry: &Entry| Evidence { entry: entry.clone(), traces: traces(None, false, &[]) };
        return owed.map(|(id, entry)| (id, evidence(entry))).collect();
    }
    let (guarded, unclear): (Vec<&Entry>, Vec<&Entry>) = left
        .open_entries()
        .map(|(_, entry)| entry)
        .partition(|entry| guardians::recorded(entry).is_some());
    // Scans the whole process table only if a process without a guardian may be in it.
    let ids: Vec<InstanceId> = unclear.iter().map(|entry| entry.intent.instance).collect();
    let claimants = Claimants::of(unclear.iter().copied());
    let mut marked = if ids.is_empty() { BTreeMap::new() } else { remains::marked(&ids) };
    let evidence = |entry: &Entry| {
        let id = entry.intent.instance;
        let marked = marked.remove(&id).unwrap_or_default();
        let traces = traces(claimants.guardian(entry), leaf_of(entry).is_some(), &marked);
        (id, Evidence { entry: entry.clone(), traces })
    };
    guarded.into_iter().chain(unclear).map(evidence).collect()
}

fn traces(guardian: Option<Process>, has_leaf: bool, marked: &[Process]) -> Traces {
    let pid = guardian.map(|guardian| guardian.pid);
    let mut lines = vec![("guardian", pid.map_or("dead".into(), |pid| format!("{pid}, alive")))];
    lines.extend(has_leaf.then(|| ("leaf", "there".to_owned())));
    let line = |process: &Process| ("process", format!("{process}, carries the instance's mark"));
    lines.extend(marked.iter().map(line));
    let fields =
        [("guardian", json!(pid)), ("leaf", json!(has_leaf)), ("processes", json!(marked))];
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Traces { lines, fields: Fields::from_iter(fields), is_tended: pid.is_some() }
}

/// Asks the guardian of an instance to end its server. Returns whether the instance still has a guardian.
#[cfg(feature = "keeper")]
pub(crate) fn ask(entry: &Entry) -> bool {
    let guardian = Claimants::of(std::iter::once(entry)).guardian(entry);
    // A guardian that is gone meanwhile has ended its server.
    guardian.as_ref().map(Process::ask).is_some()
}

/// Ends all that is left of a dead owner's instances and has no guardian, within `limit`.
pub(crate) fn end(left: &Book, limit: Duration) -> BTreeMap<InstanceId, Outcome> {
    let abandoned = list(left).into_values().filter(|evidence| !evidence.traces.is_tended);
    let abandoned: Vec<Entry> = abandoned.map(|evidence| evidence.entry).collect();
    let mut outcomes = if is_of_another_boot(left) {
        let gone = |entry: &Entry| (entry.intent.instance, Outcome::Gone(Proof::AnotherBoot));
        abandoned.iter().map(gone).collect()
    } else {
        end_processes(&abandoned, limit)
    };
    let ways =
        abandoned.iter().map(|entry| (entry.intent.instance, &entry.intent.ways, entry.level()));
    let limits = Limits { proof: limit, ..Limits::default() };
    let guardian = GuardianProgram::Myself;
    let removal = Removal { limits, haste: Haste::Sweeping, guardian };
    ways::end(&left.directory, ways, &mut outcomes, &removal);
    outcomes
}

/// Ends what is left of an instance whose guardian was killed: processes and containers.
pub(crate) fn rescue(fence: &mut Fence) -> Outcome {
    let (id, outcome) = (fence.id(), fence.end_processes());
    let Some((book, ways)) = fence.ways() else { return outcome };
    let mut outcomes = BTreeMap::from([(id, outcome)]);
    let (limits, guardian) = (fence.limits(), fence.program().clone());
    let removal = Removal { limits, haste: Haste::Waiting, guardian };
    ways::end(book, [(id, ways, fence.level())], &mut outcomes, &removal);
    outcomes.remove(&id).unwrap_or(Outcome::Unverified(Residue::Unwatched))
}

fn end_processes(abandoned: &[Entry], limit: Duration) -> BTreeMap<InstanceId, Outcome> {
    let remains = |entry: &Entry| Remains {
        id: entry.intent.instance,
        leaf: leaf_of(entry),
        cgroups: limits_of(entry),
    };
    let all: Vec<Remains> = abandoned.iter().map(remains).collect();
    if all.is_empty() { BTreeMap::new() } else { remains::end(&all, limit) }
}

/// Whether something may be left of an open entry. A reboot ends all processes, but not the containers that a note
/// names.
pub(crate) fn is_owed(book: &Book, id: InstanceId, entry: &Entry) -> bool {
    !is_of_another_boot(book) || is_noted(&book.directory, id, &entry.intent.ways)
}

/// Whether the ledger is from another boot. Then no process of it is alive, and its pids belong to other processes.
fn is_of_another_boot(book: &Book) -> bool {
    boot_id().is_ok_and(|boot| boot != book.owner.boot)
}

/// The leaf that the ledger names, if it exists and has the name that we give.
pub(crate) fn leaf_of(entry: &Entry) -> Option<Leaf> {
    Leaf::find(entry.intent.leaf.as_deref()?, entry.intent.instance)
}

fn limits_of(entry: &Entry) -> Vec<PathBuf> {
    let cgroups = entry.intent.cgroups.iter();
    cgroups.filter(|path| is_limit_of(entry.intent.instance, path)).cloned().collect()
}
