//! Who starts servers.

use std::io;
use std::sync::Arc;

use rustix::process::getppid;

use super::Instance;
use crate::backend::{Backend, StartOrder};
use crate::fence::{ServerStdio, StartError};
use crate::id::{InstanceId, OwnerId};
use crate::ledger::{Client, End, Ledger, OwnerRecord, Record};
use crate::places::Places;
use crate::process::Processes;
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

    /// Starts a server as a process of this machine.
    pub fn start(
        &self,
        spec: ServerSpec,
        stdio: ServerStdio,
        terms: &Terms,
    ) -> Result<Instance, StartError> {
        self.start_on(&Processes, spec, stdio, terms)
    }

    /// Starts a server, after its intent is on record. What becomes of it is told by
    /// [`Instance::next_event`].
    pub fn start_on(
        &self,
        backend: &dyn Backend,
        spec: ServerSpec,
        stdio: ServerStdio,
        terms: &Terms,
    ) -> Result<Instance, StartError> {
        let id = InstanceId::random().map_err(StartError::Guardian)?;
        let prepared = backend.prepare(id, &spec, terms)?;
        let book = self.ledger.intend(prepared.intent().clone()).map_err(StartError::Ledger)?;
        match prepared.start(StartOrder { spec, stdio, owner: self.ledger.owner(), book }) {
            Ok(hold) => Ok(Instance::new(hold, Arc::clone(&self.ledger), terms.limits)),
            Err(error) => {
                self.ledger.note(&Record::Ended { instance: id, end: End::Refused });
                Err(error)
            }
        }
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
