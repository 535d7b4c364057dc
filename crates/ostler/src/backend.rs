//! The seam below which instances live: processes here, containers, remote servers and clusters
//! beside them.
//!
//! Whoever implements [`Backend`] says how an instance is started, held, found again after its owner
//! has died, and ended with proof. Nothing above knows what an instance is made of: where it is, is
//! a [`Whereabouts`] that only its backend reads. `tests/contract.rs` is the contract in executable
//! form and takes any backend.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::event::Event;
use crate::fence::{Leaving, ServerStdio, StartError};
use crate::id::{InstanceId, OwnerId};
use crate::ladder::Step;
use crate::ledger::{Entry, Intent};
use crate::outcome::Outcome;
use crate::proctable::Process;
use crate::spec::ServerSpec;
use crate::terms::Terms;
pub use crate::whereabouts::Whereabouts;

/// What is to be started.
#[derive(Debug)]
pub struct StartOrder {
    /// What to run.
    pub spec: ServerSpec,
    /// What it reads and writes.
    pub stdio: ServerStdio,
    /// Who starts it.
    pub owner: OwnerId,
    /// The owner's directory, for whoever outlives the owner.
    pub book: PathBuf,
}

/// What is known of an instance of a dead owner, before anything is done about it.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The ledger's entry.
    pub entry: Entry,
    /// The guardian that still works on it, which is then left to do so.
    pub guardian: Option<Process>,
    /// Whether its leaf is still there.
    pub leaf: bool,
    /// What carries its mark.
    pub processes: Vec<Process>,
}

impl Evidence {
    /// Of one that can have no process any more.
    pub(crate) fn without_process(entry: &Entry) -> Self {
        Self { entry: entry.clone(), guardian: None, leaf: false, processes: Vec::new() }
    }
}

/// A way to start instances and to be sure that they are gone.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Makes ready what goes by itself if nothing follows; everything else waits until the intent is
    /// on record.
    fn prepare(
        &self,
        instance: InstanceId,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Box<dyn Prepared>, StartError>;

    /// What there is of these instances, whose owner is dead. Nothing is touched.
    fn evidence(&self, open: &[Entry]) -> BTreeMap<InstanceId, Evidence>;

    /// Ends them, within `limit`. Only for what nobody else ends.
    fn end(&self, abandoned: &[Entry], limit: Duration) -> BTreeMap<InstanceId, Outcome>;
}

/// An instance that can be started.
pub trait Prepared: fmt::Debug {
    /// What may come to be when it is, for the ledger.
    fn intent(&self) -> &Intent;

    /// Starts it, now that the intent is on record. From here on it ends with its owner, whatever
    /// becomes of the [`Hold`].
    fn start(self: Box<Self>, order: StartOrder) -> Result<Box<dyn Hold>, StartError>;
}

/// The owner's end of the line to a started instance. It polls as readable when there is
/// something to hear. Letting go of it ends the instance.
pub trait Hold: AsFd + fmt::Debug + Send {
    /// Which one it is.
    fn id(&self) -> InstanceId;

    /// Begins the way down at `step`. Later orders can only shorten it.
    fn stop(&self, step: Step);

    /// Takes the next step down without waiting for its time.
    fn hurry(&self);

    /// What has happened since; never waits.
    fn next_event(&mut self) -> io::Result<Option<Event>>;

    /// Lets go of it once its end is on record. Never waits: who leaves only now is returned.
    fn dismiss(&mut self) -> Option<Leaving>;

    /// Ends what is left after [`Event::GuardianLost`].
    fn rescue(&mut self) -> Outcome;
}
