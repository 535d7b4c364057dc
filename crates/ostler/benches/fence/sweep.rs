//! Time to sweep a dead owner whose guardians were killed as well.

use std::time::{Duration, Instant};

use ostler::sweep::dead_owners;
use ostler::{Limits, Places};
use ostler_testkit::{Launched, Sandbox, is_alive, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::args::{Effort, OWNER};
use crate::sample::{Sample, milliseconds};
use crate::server::Heeds;
use crate::table::{MILLISECONDS, Table};

const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn of_dead_owner(effort: Effort) -> Result<Vec<Table>> {
    let (count, rounds) = (effort.choose(500, 50), effort.choose(5, 1));
    let what = format!(
        "An owner of {count} servers is killed with all its guardians; from the look at the ledgers to the \
         last entry settled, {rounds} rounds."
    );
    let mut table = Table::new("Sweep", what, &MILLISECONDS);
    let times = (0..rounds).map(|round| {
        eprintln!("sweep: round {round}, {count} remains");
        sweep(count)
    });
    table.quantiles(format!("{count} remains"), &Sample::of(times.collect::<Result<Vec<_>>>()?));
    Ok(vec![table])
}

fn sweep(count: usize) -> Result<f64> {
    // Dropping it ends what an error leaves behind.
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(std::env::current_exe()?);
    command.args([OWNER, &count.to_string(), Heeds::Nothing.name()]);
    let mut owner = Launched::start(&mut command);
    owner.line(PATIENCE)?.ok_or("no servers")?;
    let guardians = owner.line(PATIENCE)?.ok_or("no guardians")?;
    owner.signal(Signal::STOP);
    let guardians = std::str::from_utf8(&guardians)?.split_ascii_whitespace().map(str::parse);
    let guardians = guardians.collect::<std::result::Result<Vec<u32>, _>>()?;
    for guardian in &guardians {
        // Children of a stopped owner, which has not reaped them, so the pids are still theirs.
        let pid = Pid::from_raw(guardian.cast_signed()).ok_or("not a pid")?;
        kill_process(pid, Signal::KILL)?;
    }
    wait_until("the guardians are dead", PATIENCE, || !guardians.iter().any(|g| is_alive(*g)));
    owner.signal(Signal::KILL);
    owner.wait_exit(PATIENCE);

    let places = Places::new([sandbox.state().join("ostler")]);
    let begin = Instant::now();
    let settled = dead_owners(&places)
        .into_iter()
        .map(|dead| dead.settle(Limits::default().proof * 10).len());
    let settled: usize = settled.sum();
    let time = milliseconds(begin.elapsed());
    if settled != count {
        return Err(format!("{settled} of {count} were settled").into());
    }
    sandbox.expect_no_survivors(PATIENCE);
    Ok(time)
}
