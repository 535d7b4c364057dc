//! Start by a service manager: the socket that it listens on, and the reports that it expects.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use listenfd::ListenFd;

/// The gateway accepts clients.
pub(super) const READY: &str = "READY=1";
/// The gateway drains and stops its servers.
pub(super) const STOPPING: &str = "STOPPING=1";

/// The listening socket that the service manager passed to this process, if there is one.
pub(super) fn inherited() -> io::Result<Option<UnixListener>> {
    // Set for another process, it was inherited by mistake.
    let is_for_us = env::var("LISTEN_PID").is_ok_and(|pid| pid == std::process::id().to_string());
    if is_for_us { ListenFd::from_env().take_unix_listener(0) } else { Ok(None) }
}

/// Reports a state to the service manager, if it wants reports.
pub(super) fn notify(state: &str) {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    // The manager's own timeouts apply if the report is lost.
    let _ = send(&name, state);
}

fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
