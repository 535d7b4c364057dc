//! Copies between the client and the gateway, where descriptors cannot be passed: a terminal, a file, another namespace.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, poll};
use rustix::io::Errno;

use super::End;
use super::hold::LAST_ANSWERS;
use crate::out::protocol;
use crate::parents::Parents;

const CHUNK: usize = 64 << 10;

/// Copies until the session ends, or the client dies.
pub(super) fn copy(gateway: &UnixStream, parents: Parents) -> io::Result<End> {
    let has_input_ended = Arc::new(AtomicBool::new(false));
    watch(parents, gateway.try_clone()?, Arc::clone(&has_input_ended))?;
    let (to, ended) = (gateway.try_clone()?, Arc::clone(&has_input_ended));
    // The thread ends with this process: nothing else interrupts a read from a terminal.
    thread::Builder::new().name("ostler-input".into()).spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut &to);
        ended.store(true, Ordering::SeqCst);
        // Applies to a read that already blocks, too.
        let _ = to.set_read_timeout(Some(LAST_ANSWERS));
        let _ = to.shutdown(Shutdown::Write);
    })?;
    copy_output(gateway)?;
    let is_over = has_input_ended.load(Ordering::SeqCst);
    Ok(if is_over { End::Input } else { End::Gateway })
}

/// Closes the connection when the client dies; the thread ends with this process.
fn watch(parents: Parents, gateway: UnixStream, ended: Arc<AtomicBool>) -> io::Result<()> {
    thread::Builder::new().name("ostler-parents".into()).spawn(move || {
        let mut fds: Vec<PollFd<'_>> = parents.poll_fds().collect();
        // Without parents to watch, this waits for ever.
        while poll(&mut fds, None) == Err(Errno::INTR) {}
        ended.store(true, Ordering::SeqCst);
        let _ = gateway.shutdown(Shutdown::Both);
    })?;
    Ok(())
}

fn copy_output(mut from: &UnixStream) -> io::Result<()> {
    let mut stdout = protocol().lock();
    let mut chunk = vec![0; CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                stdout.write_all(&chunk[..read])?;
                stdout.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The time for last answers is over.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
