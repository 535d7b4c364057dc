//! Calls of many clients at once.

use std::time::Duration;

use ostler_testkit::measure::sample::Sample;
use ostler_testkit::measure::table::Table;
use ostler_testkit::measure::{Effort, machine};

use crate::Result;
use crate::bare;
use crate::client::Client;
use crate::load::{Caller, Load};
use crate::test_gateway::{TestGateway, direct};
use crate::web::Web;

/// Number of clients in most goals.
const GOAL_AT: usize = 10;

/// Transport of the clients, with its goals.
struct Way {
    title: &'static str,
    reached: &'static str,
    /// Column titles.
    header: [&'static str; 8],
    /// Expected number of instances.
    instances: u32,
    /// Highest ratio of calls per second on direct pipes to calls per second here.
    share: Option<(&'static str, f64)>,
    /// Highest added latency in microseconds, and the number of clients.
    added: Option<(&'static str, f64, usize)>,
    /// Highest p99 in microseconds.
    slowest: Option<(&'static str, f64)>,
}

const GATEWAY: [&str; 8] = [
    "clients",
    "calls/s direct",
    "calls/s gateway",
    "direct / gateway",
    "p50 direct",
    "p50 gateway",
    "p99 direct",
    "p99 gateway",
];

const PIPES: Way = Way {
    title: "Calls",
    reached: "through a gateway, all on one instance (`share: all`)",
    header: GATEWAY,
    instances: 1,
    share: Some(("direct pipes have at most 2.5 times the calls per second, 10 clients", 2.5)),
    added: Some(("at most 100 microseconds added at p50, 10 clients", 100.0, GOAL_AT)),
    slowest: None,
};

const HTTP: Way = Way {
    title: "Calls on HTTP",
    reached: "through a gateway on HTTP, each in a session of its own on a connection that is kept, all on one \
              instance (`share: all`)",
    header: GATEWAY,
    instances: 1,
    share: Some(("direct pipes have at most 4 times the calls per second, 10 clients", 4.0)),
    added: Some(("at most 160 microseconds added at p50, 1 client", 160.0, 1)),
    slowest: Some(("at most 1.5 milliseconds at p99, 10 clients", 1500.0)),
};

const BARE: Way = Way {
    title: "Calls on HTTP with nothing behind it",
    reached: "to an HTTP server with a fixed response",
    header: [
        "clients",
        "calls/s direct",
        "calls/s bare",
        "direct / bare",
        "p50 direct",
        "p50 bare",
        "p99 direct",
        "p99 bare",
    ],
    instances: 0,
    share: None,
    added: None,
    slowest: None,
};

pub(crate) fn on_pipes(effort: Effort) -> Result<Table> {
    at_once(effort, &PIPES, TestGateway::client)
}

pub(crate) fn on_http(effort: Effort) -> Result<Table> {
    at_once(effort, &HTTP, TestGateway::web)
}

pub(crate) fn on_bare_http(effort: Effort) -> Result<Table> {
    let address = bare::start()?;
    at_once(effort, &BARE, |_| Web::meet(address, "unused"))
}

fn at_once<C: Caller>(
    effort: Effort,
    way: &Way,
    client: impl Fn(&TestGateway) -> Result<C>,
) -> Result<Table> {
    let counts: &[usize] = effort.choose(&[1, 10, 100, 1000], &[1, 10]);
    let (rounds, time) =
        effort.choose((10, Duration::from_millis(500)), (2, Duration::from_millis(100)));
    let what = format!(
        "Each client has one call of `echo` in flight, for {rounds} times {time:?}, in turns: {}, and each \
         through pipes to a server of its own. The clients are one thread of one process. Times are in microseconds.",
        way.reached
    );
    let mut table = Table::new(way.title, what, &way.header);
    for count in counts {
        eprintln!("{}: {count} clients, load {}", way.title, machine::load());
        let (direct, gateway) = compare(*count, rounds, time, way.instances, &client)?;
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
        let at = |goal: Option<(&'static str, f64)>| goal.filter(|_| *count == GOAL_AT);
        let added = way.added.filter(|(.., at)| at == count).map(|(what, goal, _)| (what, goal));
        let goals = [
            (at(way.share), factor),
            (added, shared.p50() - alone.p50()),
            (at(way.slowest), shared.p99()),
        ];
        for (goal, value) in goals {
            if let Some((what, goal)) = goal {
                table.goal(what, value, goal);
            }
        }
    }
    Ok(table)
}

fn compare<C: Caller>(
    count: usize,
    rounds: u32,
    time: Duration,
    instances: u32,
    client: impl Fn(&TestGateway) -> Result<C>,
) -> Result<(Load, Load)> {
    let test_gateway = TestGateway::open(r#""share":"all","maxInstances":1"#)?;
    let mut shared = (0..count).map(|_| client(&test_gateway)).collect::<Result<Vec<_>>>()?;
    let mut alone = (0..count).map(|_| Client::meet(&mut direct())).collect::<Result<Vec<_>>>()?;
    // The first calls start servers and are not counted.
    Load::default().add(&mut shared, time)?;
    Load::default().add(&mut alone, time)?;
    let (mut direct, mut gateway) = (Load::default(), Load::default());
    for _ in 0..rounds {
        gateway.add(&mut shared, time)?;
        direct.add(&mut alone, time)?;
    }
    match test_gateway.instances()? {
        count if count == instances => Ok((direct, gateway)),
        many => Err(format!("{many} instances instead of {instances}").into()),
    }
}
