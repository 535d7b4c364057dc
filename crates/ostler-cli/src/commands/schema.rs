//! `ostler schema`.

use std::process::ExitCode;

use crate::out;

pub(crate) fn run() -> ExitCode {
    out::json(&ostler_gateway::config::schema())
}
