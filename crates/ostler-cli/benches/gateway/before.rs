//! Calls through two builds of the gateway, in turns: did a change make calls slower or the gateway larger?

use std::path::Path;
use std::time::Duration;

use ostler_testkit::binary;
use ostler_testkit::measure::sample::Sample;
use ostler_testkit::measure::table::Table;
use ostler_testkit::measure::{Effort, machine};
use ostler_testkit::rss_of;

use crate::Result;
use crate::load::{Caller, Load};
use crate::test_gateway::TestGateway;

const HEADER: [&str; 8] = [
    "clients",
    "calls/s before",
    "calls/s now",
    "now / before",
    "p50 before",
    "p50 now",
    "KiB before",
    "KiB now",
];

/// One build under load.
struct Build<C> {
    /// Dropped before the gateway, which they would miss.
    clients: Vec<C>,
    gateway: TestGateway,
    /// Calls per second, round by round.
    rates: Vec<f64>,
    latencies: Vec<f64>,
}

/// Compares this build with the program of another build.
pub(crate) fn compare(before: &Path, effort: Effort) -> Result<Table> {
    let (rounds, time) =
        effort.choose((40, Duration::from_millis(250)), (4, Duration::from_millis(100)));
    let what = format!(
        "Each client has one call of `echo` in flight, for {rounds} times {time:?}, in turns through the gateways of two \
         builds, all on one instance of the same server. Medians of the rounds; latencies in microseconds; resident \
         memory of the gateway after the last round."
    );
    let mut table = Table::new("Calls before and after a change", what, &HEADER);
    for count in [1, 10] {
        let name = format!("{count} on pipes");
        table.row(name, in_turns(before, count, rounds, time, TestGateway::client)?);
    }
    for count in [1, 10] {
        let name = format!("{count} on HTTP");
        table.row(name, in_turns(before, count, rounds, time, TestGateway::web)?);
    }
    Ok(table)
}

fn in_turns<C: Caller>(
    before: &Path,
    count: usize,
    rounds: u32,
    time: Duration,
    client: impl Fn(&TestGateway) -> Result<C>,
) -> Result<Vec<f64>> {
    eprintln!("before: {count} clients, load {}", machine::load());
    let mut builds = [before, &binary("ostler")]
        .map(|program| Build::open(program, count, &client))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    builds.iter_mut().try_for_each(|build| build.round(time))?;
    builds.iter_mut().for_each(Build::reset);
    for round in 0..rounds {
        // The build that went second goes first in the next round.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            builds[index].round(time)?;
        }
    }
    let [rates, p50s, sizes] =
        [Build::rate, Build::p50, Build::kib].map(|of| builds.iter().map(of).collect::<Vec<f64>>());
    let ratio = rates[1] / rates[0];
    Ok(vec![rates[0], rates[1], ratio, p50s[0], p50s[1], sizes[0], sizes[1]])
}

impl<C: Caller> Build<C> {
    fn open(
        program: &Path,
        count: usize,
        client: impl Fn(&TestGateway) -> Result<C>,
    ) -> Result<Self> {
        let gateway = TestGateway::of(program, r#""share":"all","maxInstances":1"#)?;
        let clients = (0..count).map(|_| client(&gateway)).collect::<Result<Vec<_>>>()?;
        Ok(Self { clients, gateway, rates: Vec::new(), latencies: Vec::new() })
    }

    fn round(&mut self, time: Duration) -> Result<()> {
        let mut load = Load::default();
        load.add(&mut self.clients, time)?;
        self.rates.push(load.per_second());
        self.latencies.append(&mut load.latencies);
        Ok(())
    }

    fn reset(&mut self) {
        self.rates.clear();
        self.latencies.clear();
    }

    fn rate(&self) -> f64 {
        Sample::of(self.rates.iter().copied()).p50()
    }

    fn p50(&self) -> f64 {
        Sample::of(self.latencies.iter().copied()).p50()
    }

    fn kib(&self) -> f64 {
        u32::try_from(rss_of(self.gateway.pid())).map_or(f64::NAN, f64::from)
    }
}
