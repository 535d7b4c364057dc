//! Many servers: each costs the host a constant amount, and nothing while it is idle.

use std::time::Duration;

use ostler_testkit::{KeeperHost, Stage, cpu_ticks_of, fds_of, rows, threads_of, wait_until};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);
/// Number of servers that froze a host with one thread for each.
const MANY: usize = 300;
const FEW: usize = 10;

fn host(stage: &Stage) -> KeeperHost {
    let mut host = stage.keeper_host(&json!({
        "servers": {"a": {"share": "session"}},
        "caps": {"instances": MANY + 1, "queue": 2 * MANY, "queueMs": 600_000},
    }));
    // After the first server, the host has everything that it needs only once.
    host.ask("session first");
    host.call("first a");
    host.ask("close first");
    host
}

/// Opens sessions with these numbers, each with its own server.
fn start(host: &mut KeeperHost, numbers: std::ops::Range<usize>) {
    for number in numbers.clone() {
        host.ask(&format!("session s{number}"));
        host.later(&format!("c{number}"), &format!("call s{number} a"));
    }
    for number in numbers {
        assert_eq!(host.answered(&format!("c{number}")), 1);
    }
}

fn descriptors(host: &KeeperHost) -> usize {
    fds_of(host.0.pid()).len()
}

/// Waits for idle threads to exit.
fn expect_threads(host: &KeeperHost, threads: u64) {
    wait_until("there are no more threads than before", PATIENCE, || {
        threads_of(host.0.pid()) <= threads
    });
}

/// Processor time that the host and all guardians have used, in ticks.
fn cpu_ticks(stage: &Stage, host: &KeeperHost) -> u64 {
    let guardians = stage.guardians().into_iter().map(cpu_ticks_of);
    cpu_ticks_of(host.0.pid()) + guardians.sum::<u64>()
}

rows! {
    fn s15_descriptors_return_to_the_baseline_after_every_cycle(stage) {
        let mut host = host(&stage);
        let base = descriptors(&host);
        for cycle in 0..20 {
            start(&mut host, 0..FEW);
            assert!(descriptors(&host) > base);
            stage.assert_servers(&host, FEW);
            for number in 0..FEW {
                host.ask(&format!("close s{number}"));
            }
            assert_eq!(descriptors(&host), base, "cycle {cycle}");
            stage.assert_servers(&host, 0);
        }
        stage.shut_down(host);
    }
}

mod alone {
    use super::*;

    rows! {
        fn s15_l53_three_hundred_idle_servers(stage) {
            let mut host = host(&stage);
            wait_until("only threads are left that stay", PATIENCE, || threads_of(host.0.pid()) <= 3);
            let (base, threads) = (descriptors(&host), threads_of(host.0.pid()));
            // The first start creates the ledger, which all share.
            start(&mut host, 0..1);
            let one = descriptors(&host);
            start(&mut host, 1..FEW);
            let each = (descriptors(&host) - one) / (FEW - 1);
            assert!((1..=8).contains(&each), "{each} for each");
            assert_eq!(descriptors(&host), one + each * (FEW - 1));
            start(&mut host, FEW..MANY);
            assert_eq!(descriptors(&host), one + each * (MANY - 1));
            expect_threads(&host, threads);
            stage.assert_servers(&host, MANY);
            // Without calls, no processor time is used.
            let before = cpu_ticks(&stage, &host);
            host.ask("pause 1000000");
            let used = cpu_ticks(&stage, &host) - before;
            assert!(used <= 2, "{used} ticks of 10 ms in a second");
            // Calls are still answered.
            for number in [0, MANY / 2, MANY - 1] {
                host.call(&format!("s{number} a --times 10"));
            }
            expect_threads(&host, threads);
            for number in 0..MANY {
                host.ask(&format!("close s{number}"));
            }
            stage.assert_servers(&host, 0);
            assert_eq!(descriptors(&host), base);
            expect_threads(&host, threads);
            stage.shut_down(host);
        }
    }
}
