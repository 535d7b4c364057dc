//! Memory of a gateway.

use ostler_testkit::measure::table::Table;
use ostler_testkit::measure::{Effort, machine};
use ostler_testkit::{rss_of, threads_of};

use crate::Result;
use crate::load::Caller;
use crate::test_gateway::TestGateway;

/// In KiB.
const IDLE_GOAL: f64 = 12.0 * 1024.0;
const CLIENT_GOAL: f64 = 24.0;

pub(crate) fn of_clients(effort: Effort) -> Result<Table> {
    let counts: &[u32] = effort.choose(&[10, 100, 1000], &[10]);
    let what = "Resident memory of an idle gateway, with one client whose call has started the server, and with further \
                clients that have made one call each and are idle: on pipes, and on HTTP, where each keeps its \
                connection."
        .to_owned();
    let header = [
        "further clients",
        "KiB idle",
        "KiB with one",
        "KiB with all",
        "KiB per client",
        "threads",
    ];
    let mut table = Table::new("Memory of a gateway", what, &header);
    for count in counts {
        eprintln!("memory: {count} clients, load {}", machine::load());
        let pipes = measure(*count, TestGateway::client)?;
        let http = measure(*count, TestGateway::web)?;
        table.row(count.to_string(), pipes.to_vec());
        table.row(format!("{count} on HTTP"), http.to_vec());
        if *count == 100 {
            table.goal("at most 12 MiB idle", pipes[0], IDLE_GOAL);
            table.goal("at most 24 KiB per client, 100 clients", pipes[3], CLIENT_GOAL);
            table.goal("at most 24 KiB per client on HTTP, 100 clients", http[3], CLIENT_GOAL);
        }
    }
    Ok(table)
}

/// Resident memory when idle, with one client, with all, and per client; and the number of threads.
fn measure<C: Caller>(count: u32, client: impl Fn(&TestGateway) -> Result<C>) -> Result<[f64; 5]> {
    let test_gateway = TestGateway::open(r#""share":"all","maxInstances":1"#)?;
    let idle = kib(rss_of(test_gateway.pid()))?;
    let mut first = client(&test_gateway)?;
    first.call()?;
    let one = kib(rss_of(test_gateway.pid()))?;
    let mut clients = (0..count).map(|_| client(&test_gateway)).collect::<Result<Vec<_>>>()?;
    clients.iter_mut().try_for_each(C::call)?;
    let all = kib(rss_of(test_gateway.pid()))?;
    let each = (all - one) / f64::from(count);
    Ok([idle, one, all, each, kib(threads_of(test_gateway.pid()))?])
}

fn kib(value: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(value)?))
}
