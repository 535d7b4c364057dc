//! The exit codes, in one place.

use std::process::ExitCode;

/// It could not be done; stderr says why.
pub(crate) const FAILED: u8 = 1;
/// There is no such server or process.
pub(crate) const NOT_FOUND: u8 = 3;
/// Something was left over and is named.
pub(crate) const LEFT_OVER: u8 = 4;
/// As shells have it: the command was found but can't be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// As shells have it: there is no such command.
pub(crate) const COMMAND_NOT_FOUND: u8 = 127;

/// Success, unless the output could not be written.
pub(crate) fn written(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            crate::out::say(format_args!("the output can't be written: {error}"));
            FAILED.into()
        }
    }
}
