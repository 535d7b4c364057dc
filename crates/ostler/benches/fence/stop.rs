//! Time until many servers that stop at once are proven gone.

use std::time::{Duration, Instant};

use ostler::{Event, Instance, Limits, Owner, Step, Terms};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Result;
use crate::args::Effort;
use crate::sample::{Sample, milliseconds};
use crate::server::{Heeds, Running, stub};
use crate::table::{MILLISECONDS, Table};

/// Limit far beyond the goal, so that a hang becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);

const KINDS: [Heeds; 2] = [Heeds::EndOfInput, Heeds::Nothing];

/// One round, in milliseconds since the first order.
struct Round {
    /// When the last order was given.
    ordered: f64,
    /// When each proof came, in order.
    proofs: Vec<f64>,
}

pub(crate) fn in_parallel(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let (count, repetitions) = (effort.choose(500, 50), effort.choose(5, 1));
    let grace = milliseconds(Limits::default().grace);
    let what = format!(
        "{count} servers are ordered to stop, then all proofs are awaited; grace {grace} ms, \
         {repetitions} rounds. Since the first order."
    );
    let mut table = Table::new("Stop of many at once", what, &MILLISECONDS);
    let mut rounds: [Vec<Round>; 2] = Default::default();
    for repetition in 0..repetitions {
        for (heeds, rounds) in KINDS.into_iter().zip(&mut rounds) {
            eprintln!("stop: round {repetition}, {count} servers that heed {}", heeds.name());
            rounds.push(round(owner, count, heeds)?);
        }
    }
    for (heeds, rounds) in KINDS.into_iter().zip(&rounds) {
        let ordered = Sample::of(rounds.iter().map(|round| round.ordered));
        let each = Sample::of(rounds.iter().flat_map(|round| round.proofs.iter().copied()));
        let last = Sample::of(rounds.iter().filter_map(|round| round.proofs.last().copied()));
        table.quantiles(format!("heeds {}: last order given", heeds.name()), &ordered);
        table.quantiles(format!("heeds {}: each proof", heeds.name()), &each);
        table.quantiles(format!("heeds {}: last proof", heeds.name()), &last);
        let what =
            format!("last proof of those that heed {} within grace + 1 s at p95", heeds.name());
        table.goal(&what, last.p95(), grace + 1000.0);
    }
    Ok(vec![table])
}

fn round(owner: &Owner, count: usize, heeds: Heeds) -> Result<Round> {
    let running = Running::many(owner, count, &stub(heeds), &Terms::default())?;
    let begin = Instant::now();
    let mut instances = Vec::with_capacity(count);
    for Running { instance, ends, .. } in running {
        drop(ends);
        instance.stop(Step::Closing);
        instances.push(instance);
    }
    let ordered = milliseconds(begin.elapsed());
    let mut proofs = Vec::with_capacity(count);
    while !instances.is_empty() {
        for index in readable(&instances)?.into_iter().rev() {
            if is_proven(&mut instances[index])? {
                proofs.push(milliseconds(begin.elapsed()));
                instances.swap_remove(index);
            }
        }
    }
    Ok(Round { ordered, proofs })
}

/// Indices of the instances that have events.
fn readable(instances: &[Instance]) -> Result<Vec<usize>> {
    let mut fds: Vec<PollFd<'_>> =
        instances.iter().map(|instance| PollFd::new(instance, PollFlags::IN)).collect();
    if poll(&mut fds, Some(&Timespec::try_from(PATIENCE)?))? == 0 {
        return Err(format!("{} guardians are silent", instances.len()).into());
    }
    Ok((0..fds.len()).filter(|index| !fds[*index].revents().is_empty()).collect())
}

fn is_proven(instance: &mut Instance) -> Result<bool> {
    while let Some(event) = instance.next_event()? {
        match event {
            Event::Empty(_) => return Ok(true),
            Event::Exited(_) | Event::Remaining(_) | Event::Clearing(_) => {}
            other => return Err(format!("unexpected: {other:?}").into()),
        }
    }
    Ok(false)
}
