//! `ostler schema`.

use std::process::ExitCode;

use crate::render;

pub(crate) fn run() -> ExitCode {
    render::json(&ostler_gateway::config::schema())
}
