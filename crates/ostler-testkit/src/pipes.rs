//! Reading and writing pipes with a bound, without a thread that could outlive the test.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The writing end of a pipe, with a bound for each write.
#[derive(Debug)]
pub(crate) struct BoundedWriter<W>(W);

/// The reading end of a pipe, cut into lines, with a bound for each read.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    inner: R,
    buffer: Vec<u8>,
    is_at_end: bool,
}

impl<W: Write + AsFd> BoundedWriter<W> {
    pub(crate) fn new(inner: W) -> io::Result<Self> {
        set_nonblocking(&inner)?;
        Ok(Self(inner))
    }

    /// Writes all of it, or fails with `TimedOut`.
    pub(crate) fn write_all(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait_for(&self.0, PollFlags::OUT, end)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<R: Read + AsFd> LineReader<R> {
    pub(crate) fn new(inner: R) -> io::Result<Self> {
        set_nonblocking(&inner)?;
        Ok(Self { inner, buffer: Vec::new(), is_at_end: false })
    }

    /// The next line without its newline, or the rest before the end; `None` at the end. `TimedOut` if neither comes.
    pub(crate) fn line(&mut self, limit: Duration) -> io::Result<Option<Vec<u8>>> {
        let end = Instant::now() + limit;
        let mut seen = 0;
        loop {
            if let Some(at) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=seen + at).collect();
                line.pop();
                return Ok(Some(line));
            }
            seen = self.buffer.len();
            if self.is_at_end {
                return Ok((seen > 0).then(|| std::mem::take(&mut self.buffer)));
            }
            self.fill(end)?;
        }
    }

    fn fill(&mut self, end: Instant) -> io::Result<()> {
        let mut chunk = [0; 8192];
        match self.inner.read(&mut chunk) {
            Ok(0) => self.is_at_end = true,
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait_for(&self.inner, PollFlags::IN, end)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // An endless line is always readable, so that the bound has to be looked at here as well.
        if Instant::now() >= end && !self.is_at_end {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

/// Only our end is affected: the other one is an open file of its own.
fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?;
    Ok(())
}

fn wait_for(pipe: &impl AsFd, what: PollFlags, end: Instant) -> io::Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(pipe, what)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
