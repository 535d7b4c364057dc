//! Waits for one descriptor, with a timeout.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether `fd` becomes readable within `limit`. An interrupted wait counts as readable.
pub(crate) fn readable(fd: impl AsFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
