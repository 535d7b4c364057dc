//! Ending as the server did.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::exit;

/// The server's own exit code, or death by the same signal.
pub(super) fn like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // The core file, if any, is the server's to leave.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Returns only if the signal does not end a process by default.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    ExitCode::from(code_of(status))
}

/// As shells write a status in one number.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}
