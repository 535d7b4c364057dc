//! `ostler demo`: agents that share a server, rude servers, all ended in every way, and the survivors counted.
//!
//! The counts come from the process table, never from what some function returned.

mod scene;
mod sharing;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::exit;
use crate::say::{chain, say};
use scene::{Count, Scene, Way};
use sharing::Sharing;

const SHARING: &str = "\
Ten agents share a server through `ostler connect`. Counted in the process table:

                                                     agents  servers
";

const INTRODUCTION: &str = "
A rude server: a shell that ignores TERM and the end of its input, with a child in its own
process group, one in a session of its own, and a daemon. Counted in the process table:

                                                    running  left
";

pub(crate) fn run() -> ExitCode {
    match show(&mut io::stdout().lock()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => exit::LEFT_OVER.into(),
        Err(error) => {
            say(format_args!("demo: {}", chain(&error)));
            exit::FAILED.into()
        }
    }
}

/// Returns how many processes were left in spite of ostler.
fn show(out: &mut impl Write) -> io::Result<usize> {
    out.write_all(SHARING.as_bytes())?;
    let mut left = Sharing::start()?.play(&mut |count| {
        writeln!(out, "{count}")?;
        out.flush()
    })?;
    out.write_all(INTRODUCTION.as_bytes())?;
    writeln!(out, "without ostler")?;
    let bare = Scene::without_ostler()?.end(Way::ClientKilled)?;
    row(out, Way::ClientKilled, &bare)?;
    writeln!(out, "with `ostler run --`")?;
    for way in Way::ALL {
        let count = Scene::with_ostler()?.end(way)?;
        row(out, way, &count)?;
        left += count.left;
    }
    writeln!(out, "\nSurvivors with ostler: {left}")?;
    Ok(left)
}

fn row(out: &mut impl Write, way: impl Display, count: &Count) -> io::Result<()> {
    writeln!(out, "  {way:<48}  {:>7}  {:>4}", count.running, count.left)?;
    out.flush()
}
