//! Many cycles of starting and stopping leave no process, descriptor, thread or file behind.

use ostler_testkit::{Host, Stage, fds_of, rows, threads_of, zombies_of};

/// Everything that could grow.
#[derive(Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    threads: u64,
    zombies: usize,
    processes: Vec<u32>,
    cgroups: usize,
    files: usize,
}

fn holdings(stage: &Stage, host: &Host) -> Holdings {
    let survivors = stage.sandbox.survivors();
    Holdings {
        descriptors: fds_of(host.0.pid()).len(),
        threads: threads_of(host.0.pid()),
        zombies: zombies_of(host.0.pid()).len(),
        processes: survivors.pids(),
        cgroups: survivors.cgroups.len(),
        files: survivors.files.len(),
    }
}

mod alone {
    use super::*;

    rows! {
        fn l47_l56_a_thousand_cycles_leave_no_trace(stage) {
            let mut host = stage.host(10, &["", "--setsid-child --ignore-eof"], &["--grace-ms", "30"]);
            assert!(host.obey("stop").starts_with("gone: 10 "));
            let before = holdings(&stage, &host);
            for _ in 0..100 {
                assert!(host.obey("cycle").starts_with("gone: 10 "));
                assert_eq!(holdings(&stage, &host), before);
            }
        }
    }
}
