//! Costs of the keeper: time of a lease, and memory per instance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::Owner;
use ostler::keeper::{Caps, Config, Keeper, Lease, Scope, Server, Sharing};
use ostler_testkit::{rss_of, threads_of};
use tokio::runtime::Runtime;

use crate::Result;
use crate::args::Effort;
use crate::sample::Sample;
use crate::server::cat;
use crate::table::Table;

/// In microseconds.
const LEASE_GOAL: f64 = 2.0;
/// In KiB.
const HOLD_GOAL: f64 = 16.0;
/// Leases timed together: a single one takes less time than reading the clock.
const BATCH: u32 = 1000;

fn keeper(owner: &Owner, sharing: Sharing) -> Keeper {
    let server = Server { sharing, ..Server::new(cat()) };
    let caps =
        Caps { instances: 10_000, queue: 10_000, queue_timeout: PATIENCE, ..Caps::default() };
    Keeper::new(owner.clone(), Config { servers: [("cat".to_owned(), server)].into(), caps })
}

/// Limit far beyond the duration of anything here.
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) fn lease(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let batches = effort.choose(500, 20);
    let what = format!(
        "Taking a lease on an instance that is ready, and giving it back; {batches} batches of {BATCH}."
    );
    let mut table = Table::new("Lease", what, &["microseconds", "min", "p50", "p95", "max"]);
    let runtime = runtime()?;
    runtime.block_on(async {
        let keeper = keeper(owner, Sharing::All);
        let session = keeper.session();
        let first = session.acquire("cat").await?;
        let alone = take_and_return(&session, batches).await?;
        drop(first);
        table.quantiles("the only instance", &alone);
        table.goal("under 2 microseconds at p50", alone.p50(), LEASE_GOAL);
        keeper.shutdown().await;
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    Ok(vec![table])
}

async fn take_and_return(session: &Scope, batches: u32) -> Result<Sample> {
    let mut times = Vec::new();
    for _ in 0..batches {
        let begin = Instant::now();
        for _ in 0..BATCH {
            drop(session.acquire("cat").await?);
        }
        times.push(begin.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    Ok(Sample::of(times))
}

pub(crate) fn idle(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let count: u32 = effort.choose(1000, 50);
    let what = format!(
        "Memory and threads of a host that holds {count} idle instances of `cat`, each for a \
         session of its own, against the same host before the first one; it has used all its threads before."
    );
    let header = ["", "KiB per instance", "threads before", "threads with all"];
    let mut table = Table::new("Idle instances", what, &header);
    let runtime = runtime()?;
    runtime.block_on(async {
        let keeper = Arc::new(keeper(owner, Sharing::Session));
        // The first instances grow pools and threads that stay.
        drop(hold(&keeper, 32).await?);
        let gone = || keeper.books().live == 0;
        while !gone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let own = std::process::id();
        let (memory, threads) = (rss_of(own), threads_of(own));
        let held = hold(&keeper, count).await?;
        let grown = f64::from(u32::try_from(rss_of(own).saturating_sub(memory))?);
        let kib = grown / f64::from(count);
        let counts = |threads: u64| u32::try_from(threads).map(f64::from);
        table.row("host", vec![kib, counts(threads)?, counts(threads_of(own))?]);
        table.goal("at most 16 KiB per instance", kib, HOLD_GOAL);
        drop(held);
        let keeper = Arc::into_inner(keeper).ok_or("the keeper is still shared")?;
        keeper.shutdown().await;
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    Ok(vec![table])
}

/// Opens this many sessions with an instance each.
async fn hold(keeper: &Keeper, count: u32) -> Result<Vec<(Scope, Lease)>> {
    let mut held = Vec::new();
    for _ in 0..count {
        let session = keeper.session();
        let lease = session.acquire("cat").await?;
        held.push((session, lease));
    }
    Ok(held)
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
