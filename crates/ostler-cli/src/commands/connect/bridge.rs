//! Copies between the client and the gateway, where descriptors cannot be passed: a terminal, a file, another namespace.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::End;
use super::hold::LAST_ANSWERS;
use crate::out::protocol;

const CHUNK: usize = 64 << 10;

/// Copies until the session ends.
pub(super) fn copy(gateway: &UnixStream) -> io::Result<End> {
    let has_input_ended = Arc::new(AtomicBool::new(false));
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
