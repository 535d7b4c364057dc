//! The guardian: one small process per instance, parent of all that the server causes.
//!
//! # Theory of operation
//!
//! The owner spawns its own binary again in this role (see [`run_if_asked`]), or the program that its
//! [`GuardianProgram`](crate::GuardianProgram) names, with one end of a socket as descriptor 0. The guardian
//! leaves the owner's session and becomes a subreaper, so that whatever loses its parent below it becomes its
//! child. When the owner tells it what to start, it makes the leaf, the cgroups of the limits and the sockets of
//! the server's Doors, and forks into the leaf. The fork asks for a death signal and executes the server's command.
//!
//! From then on the guardian sits in a single `poll` without a time limit. An order, TERM, the end of the control
//! socket (the owner dropped the instance), the owner's pidfd (the owner died) or the server's own exit put
//! it on the [ladder](crate::Ladder), which it climbs by itself until the kernel says that it has no child of the
//! server's left and that the leaf is empty. It reports that as proof and stays until the owner dismisses it. If the
//! owner is dead, the guardian writes the proof into the owner's ledger and sweeps what the owner's other instances
//! have left.
//!
//! At [`Level::Strict`](crate::Level::Strict) its child is not the server but an init that is the
//! first process of a PID namespace (see `init`), and the server is a child of that.
//!
//! If the server may use a container engine, the guardian holds the sockets of the server's Doors (see `gate`). A
//! porter, which the guardian starts at the first connection to one of them, serves them. If podman was used without
//! a service, the guardian starts a porter when no process of the server is left. The porter is a child of the
//! guardian and no part of what the guardian ends. The guardian gives no proof before the porter has said that the
//! engines and podman have nothing of the instance any more.
//!
//! While it watches, the guardian is single-threaded, has no runtime and never prints: its own standard streams are
//! /dev/null. Only the sweep at the very end uses a runtime, and only if a dead owner has left containers. The
//! guardian stays outside the leaf, because `cgroup.kill` must not hit it.

mod estate;
mod fork;
mod gate;
mod hide;
mod init;
mod launch;
mod line;
mod namespace;
mod role;
mod root;
mod watch;

use std::ffi::OsString;
use std::path::Path;

use crate::roles;
use crate::ways::{run_podman, run_porter};

/// Becomes a guardian, the porter of one or the wrapper of a server's podman command, and never returns,
/// if the library has started this process as such, or has put it in that command's place.
///
/// A host that embeds the library calls this as the first line of `main`, before any thread,
/// runtime or signal handler exists: not in an `async fn main` with `#[tokio::main]`, which has a
/// runtime already. A guardian that finds threads refuses to start anything.
pub fn run_if_asked() {
    roles::ask();
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let code = if name == roles::GUARDIAN {
        let owner: Option<OsString> = arguments.next();
        role::run(owner.as_deref().unwrap_or_default())
    } else if name == roles::PORTER {
        run_porter()
    } else if Path::new(&name).file_name().is_some_and(|name| name == roles::PODMAN) {
        run_podman(&name, arguments)
    } else {
        return;
    };
    #[expect(clippy::exit, reason = "the role replaces the whole of the host's main")]
    std::process::exit(code);
}
