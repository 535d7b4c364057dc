//! An adoptive parent that reaps at once, as a keeper does and the machine's init need not.

use std::io;
use std::process::{Command, ExitCode};

use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

use crate::args::ReapArgs;
use crate::raw;

/// Starts the program, and exits when no child is left to reap.
pub(crate) fn run(args: &ReapArgs) -> io::Result<ExitCode> {
    raw::alarm(args.lifetime);
    set_child_subreaper(Some(getpid()))?;
    if let Some((program, rest)) = args.command.split_first() {
        Command::new(program).args(rest).spawn()?;
    }
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ok(ExitCode::SUCCESS),
        }
    }
}
