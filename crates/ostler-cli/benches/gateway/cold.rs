//! First call to a server that does not run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use ostler_testkit::measure::sample::{Sample, milliseconds};
use ostler_testkit::measure::table::{MILLISECONDS, Table};
use ostler_testkit::measure::{Effort, machine};

use crate::Result;
use crate::client::Client;
use crate::load::Caller;
use crate::test_gateway::{TestGateway, direct};

/// Goal, in milliseconds.
const GOAL: f64 = 5.0;
/// Pause in which the instance of the previous round ends.
const REST: Duration = Duration::from_millis(100);

pub(crate) fn first_call(effort: Effort) -> Result<Table> {
    let rounds = effort.choose(200, 5);
    let what = format!(
        "The first call on a server that does not run, in turns: by a client of a gateway, each on an instance of its \
         own (`share: call`), and by a client that starts it, with the handshake; {REST:?} after the one before; \
         {rounds} rounds."
    );
    eprintln!("cold: load {}", machine::load());
    let mut table = Table::new("First call", what, &MILLISECONDS);
    let test_gateway = TestGateway::open(r#""share":"call""#)?;
    let mut client = test_gateway.client()?;
    client.call()?;
    let (mut gateway, mut plain, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let shared = timed(|| client.call())?;
        let alone = timed(|| Client::meet(&mut direct())?.call())?;
        gateway.push(shared);
        plain.push(alone);
        added.push(shared - alone);
    }
    let added = Sample::of(added);
    table.quantiles("direct", &Sample::of(plain));
    table.quantiles("gateway", &Sample::of(gateway));
    table.quantiles("gateway: more than direct", &added);
    table.goal("at most 5 ms more than direct at p50", added.p50(), GOAL);
    Ok(table)
}

fn timed(what: impl FnOnce() -> Result<()>) -> Result<f64> {
    sleep(REST);
    let begin = Instant::now();
    what()?;
    Ok(milliseconds(begin.elapsed()))
}
