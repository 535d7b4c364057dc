//! The init: pid 1 of a server's own PID namespace.
//!
//! # Theory of operation
//!
//! At `strict` the guardian forks once, straight into a new PID namespace, and the child stays there as pid 1, the
//! parent of the server. It is the guardian's direct child, so one parent-death signal is enough: if the guardian
//! dies, the kernel kills the init, and with the init every process of the namespace, also if the owner is dead. The
//! init does not exec, so it has all that the guardian had in memory.
//!
//! The server itself is not pid 1, because the kernel does not deliver a signal to pid 1 that it has no handler for,
//! so SIGTERM would have no effect; and because pid 1 has to reap orphans.
//!
//! The init only reaps. It reports the server's wait status over a [channel](super::init_channel) and stays until it
//! has no child left, so that the guardian can stop the server's orphans with SIGTERM before SIGKILL, as at every
//! level. It keeps the guardian's no-op signal handlers, so signals do not end it.

use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, chdir, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setsid, wait, waitpid,
};

use super::fork::{ChildCgroup, leave};
use super::hide;
use super::init_channel::{self, InitMessage, InitReceiver, InitSender};
use super::launch::ServerStart;
use super::namespace::{self, NamespaceError, NamespaceFork, UserNamespace};
use super::root::Init;
use crate::cgroup::Leaf;
use crate::containers::{Endpoint, EngineDoor};
use crate::level::Level;
use crate::notes::podman_note;
use crate::outcome::Refusal;
use crate::wire::guardian::Launch;

/// Starts the server below an init of its own.
pub(super) fn launch(start: ServerStart<'_>) -> Result<Init, Refusal> {
    let (sender, receiver) = init_channel::channel().map_err(Refusal::guardian)?;
    match namespace::fork(start.leaf).map_err(strict_refusal)? {
        NamespaceFork::Init(user_namespace, cgroup) => {
            // Now only the guardian holds the receiver, so its death closes the channel.
            drop(receiver);
            run_init(&sender, &user_namespace, cgroup, start)
        }
        NamespaceFork::Guardian { init } => {
            drop(sender);
            start.close_inherited();
            await_server(init, receiver)
        }
    }
}

/// In the guardian: waits until the server runs.
fn await_server(pid: Pid, channel: InitReceiver) -> Result<Init, Refusal> {
    // It is our child and not reaped yet, so the pid can't have been recycled.
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| Refusal::guardian(e.into()))?;
    let refusal = match channel.wait() {
        Ok(InitMessage::Started(server)) => {
            return Ok(Init { pid, handle, server, channel: Some(channel) });
        }
        Ok(InitMessage::Refused(refusal)) => refusal,
        Ok(InitMessage::Exited(_) | InitMessage::Closed) => {
            Refusal::guardian(Errno::CONNRESET.into())
        }
        Err(error) => Refusal::guardian(error),
    };
    // The init exits by itself after a refusal; SIGKILL covers every other case.
    let _ = pidfd_send_signal(&handle, Signal::KILL);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    Err(refusal)
}

/// In the init: sets up the namespace, starts the server, reaps, exits.
fn run_init(
    sender: &InitSender,
    user_namespace: &UserNamespace,
    cgroup: ChildCgroup,
    mut start: ServerStart<'_>,
) -> ! {
    // The server inherits the init's cgroup, so it has no leaf of its own to enter.
    let leaf = start.leaf.take().filter(|_| matches!(cgroup, ChildCgroup::Outside));
    let prepared = enter_namespace(sender, user_namespace, leaf).and_then(|()| cover(start.orders));
    let prepared = prepared.and_then(|()| hide(start.orders));
    match prepared.and_then(|()| start.launch()) {
        Ok(server) => reap_until_empty(sender, server),
        Err(refusal) => {
            // If the send fails, the guardian is dead and the death signal ends this process.
            let _ = sender.refused(refusal);
        }
    }
    leave()
}

fn enter_namespace(
    sender: &InitSender,
    user_namespace: &UserNamespace,
    leaf: Option<&Leaf>,
) -> Result<(), Refusal> {
    namespace::reset_sigchld();
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(guardian_error)?;
    // The death signal does not fire for a guardian that died before it was set. getppid can't tell either: it is
    // always 0 for a parent outside of the namespace.
    if sender.is_closed() {
        leave();
    }
    namespace::map_ids(user_namespace).map_err(strict_refusal)?;
    if let Some(leaf) = leaf {
        leaf.enter().map_err(Refusal::leaf)?;
    }
    setsid().map_err(guardian_error)?;
    rustix::thread::set_name(c"ostler-init").map_err(guardian_error)?;
    namespace::mount_proc().map_err(strict_refusal)
}

/// Mounts the server's Doors over the sockets of local engines.
fn cover(orders: &Launch) -> Result<(), Refusal> {
    let ways = orders.engine.iter().flat_map(|service| &service.ways.engines);
    for EngineDoor { endpoint, socket } in ways {
        if let Endpoint::Unix(engine) = endpoint {
            namespace::cover(engine, socket).map_err(strict_refusal)?;
        }
    }
    Ok(())
}

/// Hides ostler's own directories except for the files that the server needs.
fn hide(orders: &Launch) -> Result<(), Refusal> {
    let service = orders.engine.as_ref();
    let ways = service.map(|service| &service.ways);
    let sockets = ways.into_iter().flat_map(|ways| &ways.engines).map(|way| way.socket.clone());
    let shelf = ways.and_then(|ways| ways.shelf.clone());
    let note = service.map(|service| podman_note(&service.book, service.labels.instance));
    let kept: Vec<PathBuf> = sockets.chain(shelf).chain(note).collect();
    hide::hide(&orders.hidden, &kept).map_err(strict_refusal)
}

/// Reports the server's start and exit, and reaps until no process is left: orphans of the namespace become children
/// of the init.
fn reap_until_empty(sender: &InitSender, server: Pid) {
    // If the send fails, the guardian is dead and the death signal ends this process.
    let _ = sender.started(server);
    // Releases the descriptors and the working directory of owner, client and guardian.
    namespace::close_all_but(sender);
    let _ = chdir("/");
    let mut server = Some(server);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == server => {
                // The pid may be recycled from now on.
                server = None;
                let _ = sender.exited(status.as_raw());
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
fn strict_refusal(reason: NamespaceError) -> Refusal {
    Refusal::containment(Level::Strict, &reason)
}

fn guardian_error(errno: Errno) -> Refusal {
    Refusal::guardian(errno.into())
}
