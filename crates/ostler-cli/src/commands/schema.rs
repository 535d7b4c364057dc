//! `ostler schema`: prints the JSON Schema of the configuration.

use std::process::ExitCode;

use crate::out;

pub(crate) fn run() -> ExitCode {
    out::json(&ostler_gateway::config::schema())
}
