//! Time from the death of an owner to the end of its servers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ostler_testkit::{Launched, Sandbox};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::Result;
use crate::args::{Effort, OWNER};
use crate::sample::{Sample, milliseconds};
use crate::server::Heeds;
use crate::table::{MILLISECONDS, Table};

/// Limit far beyond the goal, so that a hang becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);

/// Goal for a killed host.
const GOAL: f64 = 1000.0;

/// One round, in milliseconds since the signal.
struct Death {
    /// Until the last server had ended.
    servers: f64,
    /// Until the last guardian had ended as well.
    guardians: f64,
}

pub(crate) fn owner(effort: Effort) -> Result<Vec<Table>> {
    let (count, rounds) = (effort.choose(50, 10), effort.choose(20, 2));
    let what = format!(
        "SIGKILL to an owner of {count} servers, {rounds} rounds. A pidfd of each process says when \
         it ended; afterwards the testkit's oracle has to find no process and no cgroup."
    );
    let mut table = Table::new("Owner killed", what, &MILLISECONDS);
    let mut deaths: [Vec<Death>; 3] = Default::default();
    for round in 0..rounds {
        eprintln!("killed: round {round}, {count} servers of each kind");
        for ((heeds, _), deaths) in Heeds::ALL.iter().zip(&mut deaths) {
            deaths.push(kill_owner(count, *heeds)?);
        }
    }
    for ((_, heeds), deaths) in Heeds::ALL.iter().zip(&deaths) {
        let servers = Sample::of(deaths.iter().map(|death| death.servers));
        let guardians = Sample::of(deaths.iter().map(|death| death.guardians));
        table.quantiles(format!("heeds {heeds}: last server gone"), &servers);
        table.quantiles(format!("heeds {heeds}: last guardian gone"), &guardians);
        let what = format!("last server that heeds {heeds} gone within 1 s at p95");
        table.goal(&what, servers.p95(), GOAL);
    }
    Ok(vec![table])
}

fn kill_owner(count: usize, heeds: Heeds) -> Result<Death> {
    // Dropping it ends what an error leaves behind.
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(std::env::current_exe()?);
    command.args([OWNER, &count.to_string(), heeds.name()]);
    let mut owner = Launched::start(&mut command);
    let servers = handles(&mut owner)?;
    let guardians = handles(&mut owner)?;
    if (servers.len(), guardians.len()) != (count, count) {
        return Err("the owner did not start all servers".into());
    }
    let begin = Instant::now();
    owner.signal(Signal::KILL);
    await_end(&servers)?;
    let servers = milliseconds(begin.elapsed());
    await_end(&guardians)?;
    let guardians = milliseconds(begin.elapsed());
    owner.wait_exit(PATIENCE);
    sandbox.expect_no_survivors(PATIENCE);
    Ok(Death { servers, guardians })
}

/// Opens pidfds of the processes in the owner's next line. They are alive, so no pid was reused.
fn handles(owner: &mut Launched) -> Result<Vec<OwnedFd>> {
    let line = owner.line(PATIENCE)?.ok_or_else(|| format!("no owner: {}", owner.stderr()))?;
    let pids = std::str::from_utf8(&line)?.split_ascii_whitespace();
    let handle = |pid: &str| {
        let pid = Pid::from_raw(pid.parse()?).ok_or("not a pid")?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    };
    pids.map(handle).collect()
}

/// Waits for each in turn. A pidfd stays readable after the end of its process, so the whole wait ends with
/// the last process.
fn await_end(handles: &[OwnedFd]) -> Result<()> {
    let limit = Timespec::try_from(PATIENCE)?;
    for handle in handles {
        if poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&limit))? == 0 {
            return Err("a process outlives its owner".into());
        }
    }
    Ok(())
}
