//! What it costs to write a start down before it happens.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ostler::backend::{Backend, Evidence, Hold, Prepared, StartOrder, Whereabouts};
use ostler::ledger::{Entry, Intent, Ways};
use ostler::{
    Event, Identity, InstanceId, Leaving, Level, Outcome, Owner, Proof, ServerSpec, ServerStdio,
    StartError, Step, Terms,
};

use crate::Result;
use crate::args::Effort;
use crate::sample::{Sample, milliseconds};
use crate::server::cat;
use crate::table::{MILLISECONDS, Table};

const GOAL: f64 = 1.0;

/// A backend that starts nothing: what is left is the ledger.
#[derive(Debug)]
struct Nothing;

/// Starts and ends at once.
#[derive(Debug)]
struct Nobody {
    id: InstanceId,
    descriptor: OwnedFd,
    events: Vec<Event>,
}

/// Ready to start nothing.
#[derive(Debug)]
struct Ready(Intent);

impl Backend for Nothing {
    fn prepare(
        &self,
        instance: InstanceId,
        spec: &ServerSpec,
        _: &Terms,
    ) -> std::result::Result<Box<dyn Prepared>, StartError> {
        let (name, program) = (spec.name.clone(), spec.program.to_string_lossy().into_owned());
        let (leaf, cgroups) = (Some("/sys/fs/cgroup/ostler".into()), Vec::new());
        Ok(Box::new(Ready(Intent {
            instance,
            name,
            program,
            leaf,
            cgroups,
            ways: Ways::default(),
            at: 0,
        })))
    }

    fn evidence(&self, _: &[Entry]) -> BTreeMap<InstanceId, Evidence> {
        BTreeMap::new()
    }

    fn end(&self, _: &[Entry], _: Duration) -> BTreeMap<InstanceId, Outcome> {
        BTreeMap::new()
    }
}

impl Prepared for Ready {
    fn intent(&self) -> &Intent {
        &self.0
    }

    fn start(self: Box<Self>, order: StartOrder) -> std::result::Result<Box<dyn Hold>, StartError> {
        let nobody = Identity { pid: 0, start: 0 };
        let whereabouts = Whereabouts::Process { guardian: nobody, server: nobody };
        let started = Event::Started { whereabouts, level: Level::Tree };
        Ok(Box::new(Nobody {
            id: self.0.instance,
            descriptor: order.stdio.stdin,
            events: vec![Event::Empty(Proof::NoChild), started],
        }))
    }
}

impl AsFd for Nobody {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Hold for Nobody {
    fn id(&self) -> InstanceId {
        self.id
    }

    fn stop(&self, _: Step) {}

    fn hurry(&self) {}

    fn next_event(&mut self) -> io::Result<Option<Event>> {
        Ok(self.events.pop())
    }

    fn dismiss(&mut self) -> Option<Leaving> {
        None
    }

    fn rescue(&mut self) -> Outcome {
        Outcome::Gone(Proof::NoChild)
    }
}

pub(crate) fn per_start(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let rounds = effort.choose(2000, 100);
    let what = format!(
        "Intent, start and end of an instance that a backend only pretends to start, with the making and \
         removing of the owner's directory when it is the only one; {rounds} rounds."
    );
    let mut table = Table::new("Ledger", what, &MILLISECONDS);
    let alone = Sample::of((0..rounds).map(|_| round(owner)).collect::<Result<Vec<_>>>()?);
    let (stdio, _pipe) = ServerStdio::piped()?;
    let other = owner.start_on(&Nothing, cat(), stdio, &Terms::default())?;
    let among = Sample::of((0..rounds).map(|_| round(owner)).collect::<Result<Vec<_>>>()?);
    drop(other);
    table.quantiles("the only instance of its owner", &alone);
    table.quantiles("one of several", &among);
    table.goal("under 1 ms at p50, as the only instance", alone.p50(), GOAL);
    Ok(vec![table])
}

fn round(owner: &Owner) -> Result<f64> {
    let (stdio, _pipe) = ServerStdio::piped()?;
    let begin = Instant::now();
    let mut instance = owner.start_on(&Nothing, cat(), stdio, &Terms::default())?;
    while !matches!(instance.next_event()?, Some(Event::Empty(_))) {}
    Ok(milliseconds(begin.elapsed()))
}
