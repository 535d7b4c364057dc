//! Who starts servers.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::getppid;

use super::Instance;
use crate::cgroup::Leaf;
use crate::fence::{Fence, FenceOrder, ServerStdio, StartError, Terms};
use crate::id::{InstanceId, OwnerId};
use crate::ledger::{Client, End, Intent, Ledger, OwnerRecord, Record};
use crate::places::Places;
use crate::proctable::{Identity, Process, boot_id};
use crate::spec::ServerSpec;

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

    /// Starts a server, after its intent is on record. What becomes of it is told by
    /// [`Instance::next_event`].
    pub fn start(
        &self,
        spec: ServerSpec,
        stdio: ServerStdio,
        terms: &Terms,
    ) -> Result<Instance, StartError> {
        let id = InstanceId::random().map_err(StartError::Guardian)?;
        let leaf = Leaf::place(id);
        let intent = Intent {
            instance: id,
            name: spec.name.clone(),
            program: spec.program.to_string_lossy().into_owned(),
            leaf: leaf.as_ref().ok().cloned(),
            at: milliseconds_since_1970(),
        };
        let book = self.ledger.intend(intent).map_err(StartError::Ledger)?;
        match Fence::start(FenceOrder { id, spec, stdio, leaf, book }, terms) {
            Ok(fence) => Ok(Instance::new(fence, Arc::clone(&self.ledger))),
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

fn milliseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
