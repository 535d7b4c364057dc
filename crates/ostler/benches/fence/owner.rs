//! The owner that is killed; this binary in another role.

use std::io::{self, Read};

use ostler::{Owner, Places, Terms};

use crate::Result;
use crate::server::{Heeds, Running, stub};

/// Starts its servers, prints the pids, and waits to be killed. Exits when its stdin ends, so that it
/// does not outlive the benchmark.
pub(crate) fn run(count: usize, heeds: Heeds) -> Result<()> {
    // In a sandbox these directories are its own.
    let owner = Owner::new(Places::of_user(), "bench")?;
    let running = Running::many(&owner, count, &stub(heeds), &Terms::default())?;
    let servers: Vec<String> = running.iter().map(|server| server.pid.to_string()).collect();
    let guardians: Vec<String> = running.iter().map(|server| server.guardian.to_string()).collect();
    println!("{}\n{}", servers.join(" "), guardians.join(" "));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
