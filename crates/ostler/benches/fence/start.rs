//! Overhead of an owner on the start of a server.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ostler::{Engine, GuardianProgram, Owner, Terms};
use ostler_testkit::binary;

use crate::Result;
use crate::args::Effort;
use crate::sample::{Sample, milliseconds};
use crate::server::{CAT, Ends, cat, proven_gone};
use crate::table::{MILLISECONDS, Table};

/// Warm-up rounds, which load programs into the page cache.
const WARM_UP: usize = 5;

/// The heap of the large owner.
const HEAP: usize = 1 << 30;

/// A way to start a server, by the name in the table.
struct Way {
    name: &'static str,
    start: fn(&Owner) -> Result<Timing>,
}

const PLAIN: Way = Way { name: "plain `Command`", start: |_| plain(&mut Command::new(CAT)) };
const FORKED: Way = Way { name: "plain `Command` that has to fork", start: |_| forked() };
const GUARDED: Way = Way {
    name: "`Owner::start`, guardian is the host itself",
    start: |owner| guarded(owner, &Terms::default()),
};
const WITHOUT_ENGINES: Way = Way {
    name: "`Owner::start`, the same with engine `off`",
    start: |owner| guarded(owner, &Terms { engine: Engine::Off, ..Terms::default() }),
};
const GUARDED_BY_OSTLER: Way = Way {
    name: "`Owner::start`, guardian is `ostler`",
    start: |owner| {
        let guardian = GuardianProgram::At(binary("ostler"));
        guarded(owner, &Terms { guardian, ..Terms::default() })
    },
};

/// One start, in milliseconds from the call.
#[derive(Clone, Copy)]
struct Timing {
    /// Until the call returned, which is how long it would block an event loop.
    returned: f64,
    /// Until the server's first byte arrived.
    answered: f64,
}

/// Pause between starts.
#[derive(Clone, Copy)]
enum Pace {
    /// As in practice: one start now and then. The kernel makes the first move into a cgroup wait for
    /// an RCU grace period and lets moves right after it pass, so a loop without pauses would hide
    /// that cost.
    Rested,
    /// None.
    InSuccession,
}

/// Pause after which a move into a cgroup has its full cost again.
const REST: Duration = Duration::from_millis(100);

pub(crate) fn small_owner(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let rounds = effort.choose(200, 10);
    let ways = [PLAIN, GUARDED, GUARDED_BY_OSTLER, WITHOUT_ENGINES];
    let rested = in_turns(owner, &ways, rounds, Pace::Rested)?;
    let succession = in_turns(owner, &ways, rounds, Pace::InSuccession)?;

    let what = format!(
        "From the call to the first byte of `cat`'s answer, {REST:?} after the start before; \
         {rounds} rounds."
    );
    let mut answered = Table::new("Start: first byte", what, &MILLISECONDS);
    let more = compare(&mut answered, &ways, &rested, |timing| timing.answered);
    answered.goal("at most 2 ms more than plain at p50", more.p50(), 2.0);

    let what = format!("From the call to its return, in the same {rounds} rounds.");
    let mut returned = Table::new("Start: the caller is blocked", what, &MILLISECONDS);
    compare(&mut returned, &ways, &rested, |timing| timing.returned);

    let what = format!("The same without rests; {rounds} rounds.");
    let mut burst = Table::new("Start in quick succession: first byte", what, &MILLISECONDS);
    compare(&mut burst, &ways, &succession, |timing| timing.answered);
    Ok(vec![answered, returned, burst])
}

pub(crate) fn large_owner(owner: &Owner, effort: Effort) -> Result<Vec<Table>> {
    let rounds = effort.choose(100, 5);
    let heap = std::hint::black_box(vec![1_u8; HEAP]);
    let ways = [PLAIN, GUARDED, GUARDED_BY_OSTLER, FORKED];
    let timings = in_turns(owner, &ways, rounds, Pace::Rested)?;
    drop(std::hint::black_box(heap));

    let what = format!(
        "From an owner with 1 GiB of touched heap, {REST:?} after the start before; {rounds} rounds."
    );
    let title = "Start from a large owner: the caller is blocked";
    let mut returned = Table::new(title, what.clone(), &MILLISECONDS);
    compare(&mut returned, &ways, &timings, |timing| timing.returned);
    let guarded = Sample::of(timings.iter().map(|round| round[1].returned));
    returned.goal("at most 5 ms at p95", guarded.p95(), 5.0);

    let mut answered = Table::new("Start from a large owner: first byte", what, &MILLISECONDS);
    compare(&mut answered, &ways, &timings, |timing| timing.answered);
    Ok(vec![returned, answered])
}

/// Each round starts one server in each way, in turn.
fn in_turns(owner: &Owner, ways: &[Way], rounds: usize, pace: Pace) -> Result<Vec<Vec<Timing>>> {
    let start = |way: &Way| {
        match pace {
            Pace::Rested => sleep(REST),
            Pace::InSuccession => {}
        }
        (way.start)(owner)
    };
    let round = |_| ways.iter().map(start).collect::<Result<Vec<_>>>();
    let timings = (0..WARM_UP + rounds).map(round).collect::<Result<Vec<_>>>()?;
    Ok(timings.into_iter().skip(WARM_UP).collect())
}

/// Adds a row for each way, and for its extra cost over the first per round. Returns the extra cost of
/// the second.
fn compare(
    table: &mut Table,
    ways: &[Way],
    timings: &[Vec<Timing>],
    value: fn(&Timing) -> f64,
) -> Sample {
    for (index, way) in ways.iter().enumerate() {
        let sample = Sample::of(timings.iter().map(|round| value(&round[index])));
        table.quantiles(way.name, &sample);
    }
    let more = |index: usize| {
        Sample::of(timings.iter().map(move |round| value(&round[index]) - value(&round[0])))
    };
    for (index, way) in ways.iter().enumerate().skip(1) {
        table.quantiles(format!("{}: more than plain", way.name), &more(index));
    }
    more(1)
}

fn plain(command: &mut Command) -> Result<Timing> {
    let (mut ends, stdio) = Ends::open()?;
    let env = cat().env;
    let begin = Instant::now();
    let spawned =
        command.env_clear().envs(env).stdin(stdio.stdin).stdout(stdio.stdout).stderr(stdio.stderr);
    let mut child = spawned.spawn()?;
    let returned = begin.elapsed();
    ends.await_first_byte()?;
    let answered = begin.elapsed();
    drop(ends);
    child.wait()?;
    Ok(Timing { returned: milliseconds(returned), answered: milliseconds(answered) })
}

/// Setting a user id (here: the same) makes the standard library fork instead of spawn, as any hook
/// before exec does. It shows that the heap is real, and the cost that the guardian saves its owner.
fn forked() -> Result<Timing> {
    plain(Command::new(CAT).uid(rustix::process::getuid().as_raw()))
}

fn guarded(owner: &Owner, terms: &Terms) -> Result<Timing> {
    let (mut ends, stdio) = Ends::open()?;
    let spec = cat();
    let begin = Instant::now();
    let instance = owner.start(spec, stdio, terms)?;
    let returned = begin.elapsed();
    ends.await_first_byte()?;
    let answered = begin.elapsed();
    drop(ends);
    proven_gone(instance)?;
    Ok(Timing { returned: milliseconds(returned), answered: milliseconds(answered) })
}
