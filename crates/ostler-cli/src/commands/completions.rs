//! `ostler completions`: prints a shell completion script.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::{cli, out};

pub(crate) fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "ostler", &mut script);
    out::generated(&script)
}
