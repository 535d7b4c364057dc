//! `ostler man`: prints the manual page.

use std::io::{self, Write};
use std::process::ExitCode;

use clap_mangen::Man;

use crate::{cli, exit, out};

pub(crate) fn run() -> ExitCode {
    match page() {
        Ok(page) => out::generated(&page),
        Err(error) => exit::written(Err(error)),
    }
}

/// One page with a section per command, so that a single file is installed.
fn page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut command = cli::command();
    command.build();
    Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = subcommand.get_name().to_uppercase();
        writeln!(page, ".SH \"OSTLER {name}\"")?;
        let man = Man::new(subcommand.clone());
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    Ok(page)
}
