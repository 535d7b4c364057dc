//! The init: the first process of a server's own PID namespace.
//!
//! # Theory of operation
//!
//! At `strict` the guardian forks once, straight into a new PID namespace, and its copy stays there
//! as pid 1, the parent of the server. No process stands between the two, so that one death signal
//! is enough: the guardian's end kills the init, and with its init the kernel kills all of a
//! namespace, whoever else is dead by then. No exec lies between them either: what the guardian
//! knew, the init knows.
//!
//! The server is not pid 1 itself, because that could not be asked to end (the kernel keeps every
//! signal without a handler from it) and would have to bury strangers.
//!
//! The init does nothing but bury. It tells the server's wait status over a [line](super::line) and
//! stays until it has no child left, so that helpers that the server leaves behind are asked before
//! they are ended, by the guardian, as everywhere. It keeps the guardian's handlers that do nothing
//! and is deaf to requests like it.

use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, chdir, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setsid, wait, waitpid,
};

use super::fork::{Birth, leave};
use super::hide;
use super::launch::Start;
use super::line::{self, Listener, Speaker, Word};
use super::namespace::{self, NoNamespace, Side, Users};
use super::root::Init;
use crate::cgroup::Leaf;
use crate::containers::{Endpoint, Passage};
use crate::level::Level;
use crate::notes::podman_note;
use crate::outcome::Refusal;
use crate::wire::guardian::Launch;

/// Starts the server below an init of its own.
pub(super) fn launch(start: Start<'_>) -> Result<Init, Refusal> {
    let (speaker, listener) = line::pair().map_err(Refusal::guardian)?;
    match namespace::fork(start.leaf).map_err(refusal)? {
        Side::Init(users, birth) => {
            // Its only other holder is the guardian, whose death cuts the line.
            drop(listener);
            live(&speaker, &users, birth, start)
        }
        Side::Guardian { init } => {
            drop(speaker);
            start.forget();
            await_server(init, listener)
        }
    }
}

/// The guardian's part: waits until the server runs.
fn await_server(pid: Pid, line: Listener) -> Result<Init, Refusal> {
    // Our own child, which nobody has waited for: the number is still its own.
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| Refusal::guardian(e.into()))?;
    let refusal = match line.wait() {
        Ok(Word::Started(server)) => return Ok(Init { pid, handle, server, line: Some(line) }),
        Ok(Word::Refused(refusal)) => refusal,
        Ok(Word::Exited(_) | Word::Silence) => Refusal::guardian(Errno::CONNRESET.into()),
        Err(error) => Refusal::guardian(error),
    };
    // Nothing may be left of the attempt. It is about to leave, if it has not left already.
    let _ = pidfd_send_signal(&handle, Signal::KILL);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    Err(refusal)
}

/// The init's part, from its first moment to its last.
fn live(speaker: &Speaker, users: &Users, birth: Birth, mut start: Start<'_>) -> ! {
    // The server is born where its init is.
    let leaf = start.leaf.take().filter(|_| matches!(birth, Birth::Outside));
    let settled = settle(speaker, users, leaf).and_then(|()| cover(start.orders));
    let settled = settled.and_then(|()| hide(start.orders));
    match settled.and_then(|()| start.launch()) {
        Ok(server) => bury(speaker, server),
        Err(refusal) => {
            // A guardian that can't hear it has died, and takes us along.
            let _ = speaker.refused(refusal);
        }
    }
    leave()
}

fn settle(speaker: &Speaker, users: &Users, leaf: Option<&Leaf>) -> Result<(), Refusal> {
    namespace::forget_child_notice();
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(post)?;
    // A guardian that died before the line above could not be noticed by it, and the number of a
    // parent outside of the namespace reads as 0, dead or alive.
    if speaker.is_cut() {
        leave();
    }
    namespace::keep_names(users).map_err(refusal)?;
    if let Some(leaf) = leaf {
        leaf.enter().map_err(Refusal::leaf)?;
    }
    setsid().map_err(post)?;
    rustix::thread::set_name(c"ostler-init").map_err(post)?;
    namespace::mount_proc().map_err(refusal)
}

/// Leaves no way to local engines but the server's own.
fn cover(orders: &Launch) -> Result<(), Refusal> {
    let ways = orders.engine.iter().flat_map(|service| &service.ways.engines);
    for Passage { endpoint, socket } in ways {
        if let Endpoint::Unix(engine) = endpoint {
            namespace::cover(engine, socket).map_err(refusal)?;
        }
    }
    Ok(())
}

/// Leaves nothing of ostler's own in sight but what the server needs of it.
fn hide(orders: &Launch) -> Result<(), Refusal> {
    let service = orders.engine.as_ref();
    let ways = service.map(|service| &service.ways);
    let sockets = ways.into_iter().flat_map(|ways| &ways.engines).map(|way| way.socket.clone());
    let shelf = ways.and_then(|ways| ways.shelf.clone());
    let note = service.map(|service| podman_note(&service.book, service.labels.instance));
    let kept: Vec<PathBuf> = sockets.chain(shelf).chain(note).collect();
    hide::hide(&orders.hidden, &kept).map_err(refusal)
}

/// Returns when nobody is left: all that loses its parent in the namespace becomes our child.
fn bury(speaker: &Speaker, server: Pid) {
    // A guardian that can't hear it has died, and takes us along.
    let _ = speaker.started(server);
    // Nothing of the owner's, the client's or the guardian's is held from here on.
    namespace::close_all_but(speaker);
    let _ = chdir("/");
    let mut server = Some(server);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == server => {
                // The number may be given to a stranger from now on.
                server = None;
                let _ = speaker.exited(status.as_raw());
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
fn refusal(reason: NoNamespace) -> Refusal {
    Refusal::containment(Level::Strict, &reason)
}

fn post(errno: Errno) -> Refusal {
    Refusal::guardian(errno.into())
}
