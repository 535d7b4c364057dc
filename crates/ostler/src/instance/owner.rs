//! Owners: start servers and keep a ledger of them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::process::getppid;

use super::Instance;
use crate::fence::{ServerStdio, StartError};
use crate::id::{InstanceId, OwnerId};
#[cfg(feature = "keeper")]
use crate::ledger::Entry;
use crate::ledger::{Client, End, Intent, Ledger, OwnerRecord, Record};
use crate::places::Places;
use crate::process::{Post, StartOrder};
use crate::proctable::{Identity, Process, boot_id};
use crate::spec::ServerSpec;
use crate::terms::Terms;

/// Starts servers, and records each in its ledger before it starts.
///
/// A process may have several owners; each has its own ledger and lock.
#[derive(Clone, Debug)]
pub struct Owner {
    ledger: Arc<Ledger>,
}

impl Owner {
    /// Creates an owner with a ledger in one of `places`. `program` is its display name.
    pub fn new(places: Places, program: &str) -> io::Result<Self> {
        Ok(Self { ledger: Arc::new(Ledger::new(places, describe(program)?)) })
    }

    /// Records the intent and starts a server as a process of this machine. [`Instance::next_event`] reports the result.
    pub fn start(
        &self,
        spec: ServerSpec,
        stdio: ServerStdio,
        terms: &Terms,
    ) -> Result<Instance, StartError> {
        let id = InstanceId::random().map_err(StartError::Guardian)?;
        let post = Post::prepare(id, &spec, terms)?;
        let book = self.intend(post.intent().clone())?;
        match post.start(StartOrder { spec, stdio, owner: self.ledger.owner(), book }) {
            Ok(fence) => Ok(Instance::new(fence, Arc::clone(&self.ledger), terms.limits)),
            Err(error) => {
                self.note(&Record::Ended { instance: id, end: End::Refused });
                Err(error)
            }
        }
    }

    /// Its id. Backends mark what they start with it.
    pub fn id(&self) -> OwnerId {
        self.ledger.owner()
    }

    /// Records what a backend is about to start, and returns the directory of the ledger. A backend must not start an
    /// instance that is not on record.
    pub fn intend(&self, intent: Intent) -> Result<PathBuf, StartError> {
        self.ledger.intend(intent).map_err(StartError::Ledger)
    }

    /// The ledger entry of an instance that it started and that is not settled.
    #[cfg(feature = "keeper")]
    pub(crate) fn entry(&self, instance: InstanceId) -> Option<Entry> {
        self.ledger.entry(instance)
    }

    /// Records what became of an intent.
    pub fn note(&self, record: &Record) {
        self.ledger.note(record);
    }
}

fn describe(program: &str) -> io::Result<OwnerRecord> {
    let client = getppid().and_then(|parent| Process::with_pid(parent.as_raw_pid()));
    Ok(OwnerRecord {
        id: OwnerId::random()?,
        process: Identity::own().ok_or(io::ErrorKind::NotFound)?,
        program: program.to_owned(),
        client: client.map(|process| Client { process: process.identity(), name: process.name }),
        boot: boot_id()?,
    })
}
