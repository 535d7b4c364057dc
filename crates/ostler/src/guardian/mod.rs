//! The guardian: one small process per instance, parent of all that the server causes.
//!
//! # Theory of operation
//!
//! The owner spawns its own binary again in this role (see [`run_if_asked`]), or the program that its
//! [`GuardianProgram`](crate::GuardianProgram) names, with one end of a socket as descriptor 0. The guardian
//! leaves the owner's session and becomes a subreaper, so that orphans of the server's process tree become its
//! children. When the owner sends the launch order, the guardian creates the leaf, the cgroups of the limits and the
//! sockets of the server's Doors, and forks into the leaf. The child sets its parent-death signal and executes the
//! server's command.
//!
//! From then on the guardian blocks in a single `poll` without a timeout. An order, SIGTERM, the end of the control
//! socket (the owner dropped the instance), the owner's pidfd (the owner died) or the server's own exit starts
//! the [ladder](crate::Ladder). The guardian climbs it alone until the kernel reports that none of the server's
//! processes is its child and that the leaf is empty. It reports this as proof and stays until the owner dismisses
//! it. If the owner is dead, the guardian writes the proof into the owner's ledger and sweeps the remains of the
//! owner's other instances.
//!
//! At [`Level::Strict`](crate::Level::Strict) the guardian's child is an init, pid 1 of a new PID namespace (see
//! `init`), and the server is a child of that init.
//!
//! If the server may use a container engine, the guardian holds the listening sockets of the server's Doors (see
//! `doors`). At the first connection to one of them it starts a porter, which serves them. If the server used podman
//! without a service, the guardian starts a porter once no process of the server is left. The porter is a child of
//! the guardian, but the guardian does not kill it with the server's tree. The guardian gives no proof before the
//! porter has reported that neither engines nor podman hold anything of the instance.
//!
//! While it watches, the guardian is single-threaded, except for the log of `ostler run --log` (see `stderr_log`). It has
//! no runtime and never prints: its own standard streams are /dev/null. Only the sweep at the very end uses a runtime,
//! and only if a dead owner has left containers. The guardian stays outside the leaf, because `cgroup.kill` must not
//! hit it.

mod doors;
mod fork;
mod hide;
mod init;
mod init_channel;
mod launch;
mod namespace;
mod role;
mod root;
mod stderr_log;
mod tree;
mod watch;

use std::ffi::OsString;
use std::path::Path;

use crate::roles;
use crate::ways::{run_podman, run_porter};

/// Runs this process as a guardian, a porter or a podman wrapper if the library started it in that role; otherwise
/// returns at once.
///
/// In one of these roles it never returns. A host that embeds the library calls this as the first line of `main`,
/// before any thread, runtime or signal handler exists: not in an `async fn main` with `#[tokio::main]`, which has a
/// runtime already. A guardian that finds other threads in its process refuses to start a server.
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
