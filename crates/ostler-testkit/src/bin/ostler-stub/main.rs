//! A stub MCP server over stdio with every bad habit that a real one was seen to have.
//!
//! The order of a start is fixed, so that tests can rely on it: reports (`--list-fds`, `--dump`), pid file, lock,
//! signal habits, descendants, then `--ready`; only after that the acts that hurt (`--kill-*`, `--stop-self`, exits)
//! and the serving of requests.
//!
//! Exit statuses: 3 the lock is taken, 4 an act was refused as unsafe, 70 the set-up failed, otherwise `--exit-code`.
#![expect(clippy::disallowed_methods, reason = "a server speaks on stdout")]

mod acts;
mod args;
mod call;
mod family;
mod idle;
mod raw;
mod reap;
mod report;
mod serve;

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;

use crate::args::{Cli, Mode, ServerArgs};
use crate::family::Family;

const LOCK_TAKEN: u8 = 3;
const REFUSED: u8 = 4;
const SETUP_FAILED: u8 = 70;

/// Resources that a started server holds until its end.
struct Held {
    _lock: Option<File>,
    _family: Family,
}

/// Why the set-up ended.
enum Stop {
    LockTaken,
    Failed(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.mode {
        Some(Mode::Idle(args)) => idle::run(&args),
        Some(Mode::Reap(args)) => reap::run(&args),
        None => Ok(server(&cli.server)),
    };
    result.unwrap_or_else(|error| complain(&error.to_string(), SETUP_FAILED))
}

fn server(args: &ServerArgs) -> ExitCode {
    let held = match set_up(args) {
        Ok(held) => held,
        Err(Stop::LockTaken) => return complain("the lock is taken", LOCK_TAKEN),
        Err(Stop::Failed(error)) => return complain(&format!("set-up: {error}"), SETUP_FAILED),
    };
    let code = live(args);
    drop(held);
    code
}

fn set_up(args: &ServerArgs) -> Result<Held, Stop> {
    raw::alarm(args.lifetime);
    report::on_start(args)?;
    if args.new_session {
        rustix::process::setsid().map_err(io::Error::from)?;
    }
    if let Some(path) = &args.pid_file {
        report::append_pid(path)?;
    }
    if let Some(path) = &args.census {
        report::census(path)?;
    }
    let lock = args.lock.as_deref().map(take_lock).transpose()?;
    if args.ignore_term {
        ignore_term()?;
    }
    let family = Family::start(args)?;
    if let Some(path) = &args.ready {
        report::ready(path)?;
    }
    Ok(Held { _lock: lock, _family: family })
}

fn live(args: &ServerArgs) -> ExitCode {
    if let Err(refused) = acts::perform(args) {
        return complain(&refused.to_string(), REFUSED);
    }
    if args.exit_at_once {
        return ExitCode::from(args.exit_code);
    }
    if args.endless_line {
        acts::endless_line();
    }
    if args.never_read {
        idle::forever();
    }
    serve::serve(args)
}

fn take_lock(path: &Path) -> Result<File, Stop> {
    let file = File::options().create(true).append(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Stop::LockTaken),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// A handler instead of `SIG_IGN`, because an ignored signal would be inherited across exec by descendants.
fn ignore_term() -> io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::new(AtomicBool::new(false)))?;
    Ok(())
}

/// Prints the reason on stderr, which may be closed.
fn complain(why: &str, code: u8) -> ExitCode {
    let _ = writeln!(io::stderr(), "ostler-stub: {why}");
    ExitCode::from(code)
}
