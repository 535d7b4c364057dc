//! Time to record a start in the ledger.

use std::time::Instant;

use ostler::backend::Whereabouts;
use ostler::ledger::{End, Intent, PROCESS, Record, Start};
use ostler::{Identity, InstanceId, Level, Owner, Proof};

use crate::Result;
use crate::args::Effort;
use crate::sample::{Sample, milliseconds};
use crate::server::cat;
use crate::table::{MILLISECONDS, Table};

const GOAL: f64 = 1.0;

pub(crate) fn per_start(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let rounds = effort.choose(2000, 100);
    let what = format!(
        "Intent, start and end of an instance that no backend starts, with the making and \
         removing of the owner's directory when it is the only one; {rounds} rounds."
    );
    let mut table = Table::new("Ledger", what, &MILLISECONDS);
    let alone = Sample::of((0..rounds).map(|_| round(owner)).collect::<Result<Vec<_>>>()?);
    let other = intend(owner)?;
    let among = Sample::of((0..rounds).map(|_| round(owner)).collect::<Result<Vec<_>>>()?);
    end(owner, other);
    table.quantiles("the only instance of its owner", &alone);
    table.quantiles("one of several", &among);
    table.goal("under 1 ms at p50, as the only instance", alone.p50(), GOAL);
    Ok(vec![table])
}

fn round(owner: &Owner) -> Result<f64> {
    let begin = Instant::now();
    let instance = intend(owner)?;
    let none = Identity { pid: 0, start: 0 };
    let whereabouts = Whereabouts::Process { guardian: none, server: none };
    owner.note(&Record::Started(Start { instance, whereabouts, level: Some(Level::Tree) }));
    end(owner, instance);
    Ok(milliseconds(begin.elapsed()))
}

fn intend(owner: &Owner) -> Result<InstanceId> {
    let instance = InstanceId::random()?;
    let leaf = Some("/sys/fs/cgroup/ostler".into());
    owner.intend(Intent { leaf, ..Intent::new(instance, &cat(), PROCESS) })?;
    Ok(instance)
}

fn end(owner: &Owner, instance: InstanceId) {
    owner.note(&Record::Ended { instance, end: End::Gone(Proof::NoChild) });
}
