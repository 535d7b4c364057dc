//! Exiting with the status of the server.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::exit;

/// Exits with the server's code, or dies by the same signal.
pub(super) fn like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // Only the server leaves a core file.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Returns only if the default action of the signal is not to terminate.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    ExitCode::from(code_of(status))
}

/// Shell convention: 128 + signal.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}
