//! `ostler demo`.
use std::process::ExitCode;
pub(crate) fn run() -> ExitCode {
    ExitCode::SUCCESS
}
