//! The backend for processes of this machine: a guardian for each instance.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::{Backend, Evidence, Hold, Prepared, StartOrder};
use crate::cgroup::{Control, Leaf, is_limit_of};
use crate::containers::Ways;
use crate::fence::{Fence, StartError};
use crate::guardians::{self, Claimants};
use crate::id::InstanceId;
use crate::ledger::{Entry, Intent};
use crate::level::Level;
use crate::outcome::Outcome;
use crate::places::hidden;
use crate::remains::{self, Remains};
use crate::spec::ServerSpec;
use crate::terms::Terms;
use crate::ways::Found;
use crate::wire::guardian::Launch;

/// Starts servers as processes, each below a guardian of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

/// A guardian that has taken up its post and is not told yet what to start. It does so while the
/// intent is being written down.
#[derive(Debug)]
struct Post {
    intent: Intent,
    controls: Vec<Control>,
    terms: Terms,
    /// Its ways to containers.
    found: Found,
    /// Taken when it is told.
    guardian: Option<Fence>,
}

impl Backend for Processes {
    fn prepare(
        &self,
        instance: InstanceId,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Box<dyn Prepared>, StartError> {
        // First, because it takes the longest, and the rest is done meanwhile.
        let guardian = Fence::spawn(instance, &spec.name, terms)?;
        let mut post = Post {
            intent: intent(instance, spec),
            controls: Vec::new(),
            terms: terms.clone(),
            found: Found::default(),
            guardian: Some(guardian),
        };
        post.find_cgroups()?;
        post.found = Found::of(instance, spec, terms)?;
        post.intent.ways = post.found.ways.clone();
        Ok(Box::new(post))
    }

    fn evidence(&self, open: &[Entry]) -> BTreeMap<InstanceId, Evidence> {
        let (guarded, unclear): (Vec<&Entry>, Vec<&Entry>) =
            open.iter().partition(|entry| guardians::recorded(entry).is_some());
        // The whole process table is looked at only if somebody may be in it that nobody guards.
        let ids: Vec<InstanceId> = unclear.iter().map(|entry| entry.intent.instance).collect();
        let claimants = Claimants::of(unclear.iter().copied());
        let mut marked = if ids.is_empty() { BTreeMap::new() } else { remains::marked(&ids) };
        let evidence = |entry: &Entry| {
            let id = entry.intent.instance;
            let evidence = Evidence {
                entry: entry.clone(),
                guardian: claimants.guardian(entry),
                leaf: leaf_of(entry).is_some(),
                processes: marked.remove(&id).unwrap_or_default(),
            };
            (id, evidence)
        };
        guarded.into_iter().chain(unclear).map(evidence).collect()
    }

    fn end(&self, abandoned: &[Entry], limit: Duration) -> BTreeMap<InstanceId, Outcome> {
        let remains = |entry: &Entry| Remains {
            id: entry.intent.instance,
            leaf: leaf_of(entry),
            cgroups: limits_of(entry),
        };
        let all: Vec<Remains> = abandoned.iter().map(remains).collect();
        if all.is_empty() { BTreeMap::new() } else { remains::end(&all, limit) }
    }
}

impl Post {
    /// Where the guardian may make the leaf and the cgroups of the limits.
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
}

impl Prepared for Post {
    fn intent(&self) -> &Intent {
        &self.intent
    }

    fn start(mut self: Box<Self>, order: StartOrder) -> Result<Box<dyn Hold>, StartError> {
        let nobody = || StartError::Control(io::ErrorKind::NotConnected.into());
        let mut guardian = self.guardian.take().ok_or_else(nobody)?;
        if let Some(error) = self.found.no_door.take() {
            guardian.dismiss();
            return Err(StartError::Door(error));
        }
        let mut spec = order.spec;
        let whose = (&self.intent, order.owner);
        let engine = self.found.service(whose, &order.book, &spec, &self.terms);
        if let Some(service) = &engine {
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
        };
        guardian.remark(self.found.unfollowed.take());
        let told = guardian.tell(launch, &self.intent, order.stdio);
        if told.is_err() {
            see_off(&mut guardian);
        }
        told.map(|()| -> Box<dyn Hold> { Box::new(guardian) })
    }
}

impl Drop for Post {
    /// A guardian that has nothing to guard leaves.
    fn drop(&mut self) {
        if let Some(guardian) = &mut self.guardian {
            see_off(guardian);
        }
    }
}

/// Waits for a guardian that was told nothing, no longer than its way out should take.
fn see_off(guardian: &mut Fence) {
    if let Some(leaving) = guardian.dismiss() {
        leaving.reap();
    }
}

fn intent(instance: InstanceId, spec: &ServerSpec) -> Intent {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Intent {
        instance,
        name: spec.name.clone(),
        program: spec.program.to_string_lossy().into_owned(),
        leaf: None,
        cgroups: Vec::new(),
        ways: Ways::default(),
        at: u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The leaf that the ledger names, if it is there and one that we would have made.
pub(crate) fn leaf_of(entry: &Entry) -> Option<Leaf> {
    Leaf::find(entry.intent.leaf.as_deref()?, entry.intent.instance)
}

fn limits_of(entry: &Entry) -> Vec<PathBuf> {
    let cgroups = entry.intent.cgroups.iter();
    cgroups.filter(|path| is_limit_of(entry.intent.instance, path)).cloned().collect()
}
