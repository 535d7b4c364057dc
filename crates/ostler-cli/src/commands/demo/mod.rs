//! `ostler demo`: ends shared and rude servers in several ways, and counts the survivors in the process table.

mod scene;
mod sharing;

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::exit;
use crate::out::{Screen, chain, say};
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
    match show(&mut Screen::new()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => exit::LEFT_OVER.into(),
        Err(error) => {
            say(format_args!("demo: {}", chain(&error)));
            exit::FAILED.into()
        }
    }
}

/// Runs the demo. Returns the number of processes that survived ostler.
fn show(screen: &mut Screen) -> io::Result<usize> {
    SHARING.lines().try_for_each(|line| screen.line(line))?;
    let mut left = Sharing::start()?.play(&mut |count| screen.line(count))?;
    INTRODUCTION.lines().try_for_each(|line| screen.line(line))?;
    screen.line("without ostler")?;
    let bare = Scene::without_ostler()?.end(Way::ClientKilled)?;
    row(screen, Way::ClientKilled, &bare)?;
    screen.line("with `ostler run --`")?;
    for way in Way::ALL {
        let count = Scene::with_ostler()?.end(way)?;
        row(screen, way, &count)?;
        left += count.left;
    }
    screen.line("")?;
    screen.line(format_args!("Survivors with ostler: {left}"))?;
    Ok(left)
}

fn row(screen: &mut Screen, way: impl Display, count: &Count) -> io::Result<()> {
    screen.line(format_args!("  {way:<48}  {:>7}  {:>4}", count.running, count.left))
}
