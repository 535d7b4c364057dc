//! Lines from a pipe, with waits that a deadline or a signal ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::ClientError;
use crate::requests::Requests;

const CHUNK: usize = 64 << 10;
/// Longest message, in bytes; the gateway passes on at most 64 MiB.
const LONGEST: usize = 65 << 20;
/// A wait reports silence this often.
const TICK: Duration = Duration::from_millis(200);

/// What ends a wait.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    pub(crate) deadline: Option<Instant>,
    pub(crate) signals: Option<Requests>,
}

impl Patience {
    /// A deadline that is this far away, and no signal.
    pub(super) fn for_at_most(limit: Duration) -> Self {
        Self { deadline: Some(Instant::now() + limit), signals: None }
    }
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Ready,
    Tick,
}

/// Lines that arrive in pieces.
#[derive(Debug)]
pub(super) struct Lines {
    pipe: File,
    whole: VecDeque<Vec<u8>>,
    /// Start of the next line.
    partial: Vec<u8>,
}

impl Lines {
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self { pipe: pipe.into(), whole: VecDeque::new(), partial: Vec::new() }
    }

    /// Waits for the next line; `None` after a while of silence.
    pub(super) fn next(&mut self, patience: &Patience) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(line) = self.whole.pop_front() {
                return Ok(Some(line));
            }
            match wait(&self.pipe, PollFlags::IN, patience)? {
                Woken::Ready => self.fill()?,
                Woken::Tick => return Ok(None),
            }
        }
    }

    fn fill(&mut self) -> Result<(), ClientError> {
        let mut chunk = vec![0; CHUNK];
        let count = self.pipe.read(&mut chunk)?;
        if count == 0 {
            return Err(ClientError::Closed);
        }
        for piece in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.whole.push_back(std::mem::take(&mut self.partial));
            }
        }
        if self.partial.len() > LONGEST { Err(ClientError::Long(LONGEST)) } else { Ok(()) }
    }
}

/// Waits for a descriptor, for at most [`TICK`].
pub(super) fn wait(
    descriptor: &impl AsFd,
    what: PollFlags,
    Patience { deadline, signals }: &Patience,
) -> Result<Woken, ClientError> {
    let rest = deadline.map(|end| end.saturating_duration_since(Instant::now()));
    if rest.is_some_and(|rest| rest.is_zero()) {
        return Err(ClientError::TimedOut);
    }
    let limit = Timespec::try_from(rest.map_or(TICK, |rest| rest.min(TICK)));
    let mut fds = vec![PollFd::new(descriptor, what)];
    fds.extend(signals.iter().map(Requests::poll_fd));
    match poll(&mut fds, limit.ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(ClientError::Failed(error.into())),
    }
    if let Some(signal) = signals.as_ref().and_then(Requests::last) {
        return Err(ClientError::Interrupted(signal));
    }
    let is_ready = !fds[0].revents().is_empty();
    Ok(if is_ready { Woken::Ready } else { Woken::Tick })
}
