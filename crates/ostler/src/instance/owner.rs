//! Who starts servers.

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

/// One that starts servers, and writes down what it starts before it does.
///
/// A process may have several; each has a ledger and a life line of its own.
#[derive(Clone, Debug)]
pub struct Owner {
    ledger: Arc<Ledger>,
}

impl Owner {
    /// A new one, which keeps its ledger in one of `places`. `program` is what people call it.
    pub fn new(places: Places, program: &str) -> io::Result<Self> {
        Ok(Self { ledger: Arc::new(Ledger::new(places, describe(program)?)) })
    }

    /// Starts a server as a process of this machine, after its intent is on record. What becomes of it is told
    /// by [`Instance::next_event`].
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

    /// Which one it is. A backend marks what it starts with it.
    pub fn id(&self) -> OwnerId {
        self.ledger.owner()
    }

    /// Puts on record what a backend is about to start, and returns the directory of the ledger. What is not on record
    /// must not be started.
    pub fn intend(&self, intent: Intent) -> Result<PathBuf, StartError> {
        self.ledger.intend(intent).map_err(StartError::Ledger)
    }

    /// What is on record of an instance that it has started and that is not settled.
    #[cfg(feature = "keeper")]
    pub(crate) fn entry(&self, instance: InstanceId) -> Option<Entry> {
        self.ledger.entry(instance)
    }

    /// Puts on record what became of an intent.
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
