//! Memory of a guardian while its server runs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use ostler::{GuardianProgram, Owner, Terms};
use ostler_testkit::{Launched, Process, binary, pss_of, rss_of};

use crate::Result;
use crate::args::Effort;
use crate::bench::Bench;
use crate::sample::Sample;
use crate::server::{CAT, Running, cat};
use crate::table::Table;

/// Goal: 1 MB, in KiB.
const GOAL: f64 = 1024.0;

/// Limit far beyond the duration of anything here, so that a hang becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);

/// How guardians are started. It determines how many processes share their pages.
struct Arrangement {
    name: &'static str,
    measure: fn(&Bench, usize) -> Result<Vec<Footprint>>,
}

const ARRANGEMENTS: [Arrangement; 3] = [
    Arrangement {
        name: "one host, which is its own guardian",
        measure: |bench, count| of_one_host(&bench.owner, count, GuardianProgram::Myself),
    },
    Arrangement {
        name: "one host with `ostler` as guardian",
        measure: |bench, count| {
            of_one_host(&bench.owner, count, GuardianProgram::At(binary("ostler")))
        },
    },
    Arrangement { name: "that many `ostler run`", measure: of_runs },
];

/// Memory of one guardian, in KiB.
struct Footprint {
    pss: f64,
    rss: f64,
    private_dirty: f64,
}

pub(crate) fn of_guardians(bench: &Bench, effort: Effort) -> Result<Vec<Table>> {
    let counts: &[usize] = effort.choose(&[1, 10, 100], &[1, 10]);
    let what = "Per guardian while that many run `cat`. PSS divides each page by the number of \
                processes that map it, so it falls with their number."
        .to_owned();
    let header = ["KiB", "PSS p50", "PSS max", "RSS p50", "private dirty p50"];
    let mut table = Table::new("Memory of a guardian", what, &header);
    for Arrangement { name, measure } in ARRANGEMENTS {
        let mut worst: f64 = 0.0;
        for count in counts {
            let footprints = measure(bench, *count)?;
            let sample = |value: fn(&Footprint) -> f64| Sample::of(footprints.iter().map(value));
            let pss = sample(|footprint| footprint.pss);
            let rss = sample(|footprint| footprint.rss);
            let dirty = sample(|footprint| footprint.private_dirty);
            table.row(
                format!("{count}, {name}"),
                vec![pss.p50(), pss.max(), rss.p50(), dirty.p50()],
            );
            worst = worst.max(pss.max());
        }
        table.goal(&format!("at most {GOAL} KiB of PSS each, {name}"), worst, GOAL);
    }
    Ok(vec![table])
}

fn of_one_host(owner: &Owner, count: usize, guardian: GuardianProgram) -> Result<Vec<Footprint>> {
    let terms = Terms { guardian, ..Terms::default() };
    let running = Running::many(owner, count, &cat(), &terms)?;
    let guardians = running.iter().map(|server| server.guardian);
    let footprints =
        guardians.map(|pid| Footprint::of(u32::try_from(pid)?)).collect::<Result<Vec<_>>>();
    running.into_iter().try_for_each(Running::end)?;
    footprints
}

/// Each server has its own `ostler run`, which is the same program as its guardian.
fn of_runs(bench: &Bench, count: usize) -> Result<Vec<Footprint>> {
    let ostler = binary("ostler");
    let start = |_| {
        let mut command = Command::new(&ostler);
        Launched::start(command.args(["run", "--", CAT]).env("XDG_STATE_HOME", bench.state.path()))
    };
    let mut runs: Vec<Launched> = (0..count).map(start).collect();
    for run in &mut runs {
        run.write(b"\n", PATIENCE)?;
        run.line(PATIENCE)?.ok_or_else(|| format!("no answer: {}", run.stderr()))?;
    }
    let owners: Vec<u32> = runs.iter().map(Launched::pid).collect();
    let all = Process::all().into_iter();
    let guardians = all.filter(|process| owners.contains(&process.ppid));
    let footprints = guardians.map(|guardian| Footprint::of(guardian.pid)).collect();
    for run in &mut runs {
        run.close_stdin();
        run.wait_exit(PATIENCE);
    }
    footprints
}

impl Footprint {
    fn of(pid: u32) -> Result<Self> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let dirty = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
        let dirty = dirty.and_then(|value| value.split_whitespace().next()).unwrap_or_default();
        let kib = |value: u64| u32::try_from(value).map(f64::from);
        Ok(Self { pss: kib(pss_of(pid))?, rss: kib(rss_of(pid))?, private_dirty: dirty.parse()? })
    }
}
