//! All exit codes.

use std::process::ExitCode;

/// Failed; stderr says why.
pub(crate) const FAILED: u8 = 1;
/// Wrong usage, with the same code as for options that clap refuses; or nothing was done for lack of consent.
pub(crate) const USAGE: u8 = 2;
/// No such server, process or gateway.
pub(crate) const NOT_FOUND: u8 = 3;
/// Something is left, and was named.
pub(crate) const LEFT_OVER: u8 = 4;
/// Shell convention: the command was found but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// Shell convention: command not found.
pub(crate) const COMMAND_NOT_FOUND: u8 = 127;

/// Shell convention: ended by a signal.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILED)
}

/// Success if the output was written.
pub(crate) fn written(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::out::say(format_args!("cannot write the output: {error}"));
            FAILED.into()
        }
    }
}
