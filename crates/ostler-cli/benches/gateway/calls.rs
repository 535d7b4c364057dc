//! Calls of many clients at once.

use std::time::Duration;

use ostler_testkit::measure::sample::Sample;
use ostler_testkit::measure::table::Table;
use ostler_testkit::measure::{Effort, machine};

use crate::Result;
use crate::client::Client;
use crate::house::{House, direct};
use crate::load::Load;

/// The number of clients that the goals are about.
const GOAL_AT: usize = 10;
/// Of the calls per second of direct pipes.
const SHARE_GOAL: f64 = 2.5;
/// In microseconds.
const ADDED_GOAL: f64 = 100.0;

pub(crate) fn at_once(effort: Effort) -> Result<Table> {
    let counts: &[usize] = effort.choose(&[1, 10, 100, 1000], &[1, 10]);
    let (rounds, time) =
        effort.choose((10, Duration::from_millis(500)), (2, Duration::from_millis(100)));
    let what = format!(
        "Each client has one call of `echo` in flight, for {rounds} times {time:?}, in turns: through a gateway, all \
         on one instance (`share: all`), and each through pipes to a server of its own. The clients are one \
         thread of one process. Times are in microseconds."
    );
    let header = [
        "clients",
        "calls/s direct",
        "calls/s gateway",
        "direct / gateway",
        "p50 direct",
        "p50 gateway",
        "p99 direct",
        "p99 gateway",
    ];
    let mut table = Table::new("Calls", what, &header);
    for count in counts {
        eprintln!("calls: {count} clients, load {}", machine::load());
        let (direct, gateway) = compare(*count, rounds, time)?;
        let factor = direct.per_second() / gateway.per_second();
        let (alone, shared) = (
            Sample::of(direct.latencies.iter().copied()),
            Sample::of(gateway.latencies.iter().copied()),
        );
        let values = vec![
            direct.per_second(),
            gateway.per_second(),
            factor,
            alone.p50(),
            shared.p50(),
            alone.p99(),
            shared.p99(),
        ];
        table.row(count.to_string(), values);
        if *count == GOAL_AT {
            table.goal(
                "direct pipes have at most 2.5 times the calls per second, 10 clients",
                factor,
                SHARE_GOAL,
            );
            let added = shared.p50() - alone.p50();
            table.goal("at most 100 microseconds added at p50, 10 clients", added, ADDED_GOAL);
        }
    }
    Ok(table)
}

fn compare(count: usize, rounds: u32, time: Duration) -> Result<(Load, Load)> {
    let house = House::open(r#""share":"all","maxInstances":1"#)?;
    let mut shared = (0..count).map(|_| house.client()).collect::<Result<Vec<_>>>()?;
    let mut alone = (0..count).map(|_| Client::meet(&mut direct())).collect::<Result<Vec<_>>>()?;
    // The first calls start things, and are not counted.
    Load::default().add(&mut shared, time)?;
    Load::default().add(&mut alone, time)?;
    let (mut direct, mut gateway) = (Load::default(), Load::default());
    for _ in 0..rounds {
        gateway.add(&mut shared, time)?;
        direct.add(&mut alone, time)?;
    }
    match house.instances()? {
        1 => Ok((direct, gateway)),
        many => Err(format!("{many} instances instead of one").into()),
    }
}
