//! The life of a descendant: set up, report readiness, wait to be killed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getppid};

use crate::args::IdleArgs;
use crate::raw::{self, Side};
use crate::{family, ignore_term, report};

const POLL: Duration = Duration::from_millis(1);
/// The machine's init may reap only every other second, and pids are few: see [`Pace`].
const PACE_UNDER_INIT: Duration = Duration::from_millis(2);
/// Of the initial pid namespace, on every kernel (`PROC_PID_INIT_INO`).
const INITIAL_PIDNS: &str = "pid:[4026531836]";

/// How fast a hopper may hop.
///
/// At full speed it leaves thousands of zombies a second. A keeper reaps them at once; the machine's init need not,
/// and then the machine is out of pids within seconds. So a hopper that init has adopted slows down for good.
struct Pace {
    wanted: Duration,
    init_is_slow: bool,
}

pub(crate) fn run(args: &IdleArgs) -> io::Result<ExitCode> {
    raw::alarm(args.lifetime);
    if args.setsid || args.daemon {
        rustix::process::setsid()?;
    }
    if args.daemon {
        return start_orphan(args);
    }
    if args.ignore_term {
        ignore_term()?;
    }
    if let Some(parent) = args.orphan_of {
        await_adoption(parent);
    }
    if let Some(path) = &args.pid_file {
        report::append_pid(path)?;
    }
    say_up()?;
    if let Some(ms) = args.hop_ms {
        hop(args, Duration::from_millis(ms));
    }
    if let Some(ms) = args.die_after_ms {
        sleep(Duration::from_millis(ms));
        return Ok(ExitCode::SUCCESS);
    }
    forever();
}

/// Until killed, or until the alarm.
pub(crate) fn forever() -> ! {
    loop {
        sleep(Duration::from_hours(1));
    }
}

/// The second half of a double fork: the orphan inherits descriptor 0 and reports on it.
fn start_orphan(args: &IdleArgs) -> io::Result<ExitCode> {
    let orphan = IdleArgs {
        daemon: false,
        setsid: false,
        orphan_of: Some(std::process::id()),
        ..args.clone()
    };
    Command::new(family::own_path()).args(orphan.to_args()).stdout(Stdio::null()).spawn()?;
    Ok(ExitCode::SUCCESS)
}

fn await_adoption(parent: u32) {
    let is_parent = |pid: Pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent);
    while getppid().is_some_and(is_parent) {
        sleep(POLL);
    }
}

/// Reports readiness on descriptor 0 and closes it, because the reader may wait for EOF.
fn say_up() -> io::Result<()> {
    let stdin = io::stdin();
    rustix::io::write(stdin.as_fd(), family::UP)?;
    let null = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(())
}

/// Goes on in a child again and again; each parent exits. No exec, so that a hop is as fast as a fork.
/// An alarm does not pass to a forked child, so the end of the lifetime is looked at here.
fn hop(args: &IdleArgs, wanted: Duration) -> ! {
    let in_initial =
        std::fs::read_link("/proc/self/ns/pid").is_ok_and(|ns| ns == Path::new(INITIAL_PIDNS));
    let mut pace = Pace { wanted, init_is_slow: false };
    let end = Instant::now() + Duration::from_secs(args.lifetime.into());
    while Instant::now() < end {
        pace.init_is_slow |= in_initial && getppid() == Some(Pid::INIT);
        let pause = pace.pause();
        if !pause.is_zero() {
            sleep(pause);
        }
        match raw::fork() {
            Ok(Side::Parent) => raw::exit_now(),
            Ok(Side::Child) => {}
            Err(_) => sleep(POLL),
        }
    }
    raw::exit_now();
}

impl Pace {
    fn pause(&self) -> Duration {
        if self.init_is_slow { self.wanted.max(PACE_UNDER_INIT) } else { self.wanted }
    }
}
