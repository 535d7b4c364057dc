//! `ostler run` as process 1 of a container: reaps orphans and forwards signals.

use std::ffi::c_int;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::ending;
use crate::exit;
use crate::out::say;

pub(super) fn is_needed() -> bool {
    getpid() == Pid::INIT
}

/// Runs this command again as a child, forwards signals to it, and reaps every child.
pub(super) fn run() -> ExitCode {
    match hold_the_fort() {
        Ok(status) => ending::code_of(status).into(),
        Err(error) => {
            say(format_args!("cannot serve as the first process of a container: {error}"));
            exit::FAILED.into()
        }
    }
}

fn hold_the_fort() -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "ostler".into());
    let worker = Command::new("/proc/self/exe").arg0(name).args(arguments).spawn()?;
    let worker = Pid::from_child(&worker);
    for signal in signals.forever() {
        if signal != SIGCHLD {
            pass_on(worker, signal);
        } else if let Some(status) = bury(worker) {
            return Ok(status);
        }
    }
    Err(Errno::CANCELED.into())
}

fn pass_on(worker: Pid, signal: c_int) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        // The worker is not reaped yet, so its pid cannot have been reused.
        let _ = kill_process(worker, signal);
    }
}

/// Reaps all exited children. Returns the worker's status if it is among them.
fn bury(worker: Pid) -> Option<ExitStatus> {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == worker {
            return Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
    None
}
