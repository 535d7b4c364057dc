//! The log of `ostler run --log`: a thread of the guardian reads the server's stderr and writes it to a log.
//!
//! The guardian holds the read end, because it outlives a killed owner: a server that is being stopped can still write, and
//! its last lines are kept. A file system may block a writer for long, so the guardian itself never writes; it shares
//! nothing with the thread but the pipe that asks for its end. A log that can't be written makes no difference to the
//! server: its stderr is read all the same.
//!
//! The thread is started before the server, so that a failure refuses the start. The fork then copies the state of all
//! locks, so the guardian waits until the thread only polls, and holds none.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::id::InstanceId;
use crate::logs::{LogWriter, Recorder};

/// Size of a read, in bytes: the default capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// Most reads of what is left in the pipe, at the end: the largest capacity that a user can set.
const LAST_READS: usize = 16;
/// Time limit for the last lines, once no process of the server is left.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// The guardian's side of the thread.
#[derive(Debug)]
pub(super) struct StderrLog {
    /// Takes the last note; its end asks the thread to finish.
    end: io::PipeWriter,
    /// Disconnected when the thread has finished.
    finished: Receiver<()>,
    /// Why the server exited by itself, or was not started.
    note: Option<String>,
}

/// The thread's side.
struct LogThread {
    /// Read end of the server's stderr.
    stderr: io::PipeReader,
    recorder: Recorder,
    writer: LogWriter,
}

impl StderrLog {
    /// Starts the thread, and returns the write end for the server. The log itself is created with its first line.
    pub(super) fn begin(log: PathBuf, instance: InstanceId) -> io::Result<(Self, OwnedFd)> {
        let (stderr, server) = io::pipe()?;
        fcntl_setfl(&stderr, OFlags::NONBLOCK)?;
        let mut recorder = Recorder::new(None);
        recorder.identify(instance);
        let log_thread = LogThread { stderr, recorder, writer: LogWriter::new(log) };
        let (ask, end) = io::pipe()?;
        let (mut waiting, ready) = io::pipe()?;
        let (sender, finished) = channel::<()>();
        let work = move || {
            let _finished: Sender<()> = sender;
            drop(ready);
            log_thread.work(ask);
        };
        thread::Builder::new().name("ostler-log".into()).spawn(work)?;
        waiting.read_to_end(&mut Vec::new())?;
        Ok((Self { end, finished, note: None }, server.into()))
    }

    /// The server exited by itself.
    pub(super) fn exited(&mut self, status: i32) {
        self.note = Some(format!("it has exited ({})", ExitStatus::from_raw(status)));
    }

    /// The server could not be started.
    pub(super) fn refused(mut self, reason: &str) {
        self.note = Some(format!("it could not be started: {reason}"));
        self.finish();
    }

    /// Has the last lines written, for at most [`LAST_WRITE`]. A process outside of the tree may hold the pipe open, so its
    /// end is not waited for.
    pub(super) fn finish(mut self) {
        if let Some(note) = self.note {
            // Short enough for the pipe, which the thread holds open.
            let _ = self.end.write_all(note.as_bytes());
        }
        drop(self.end);
        let _ = self.finished.recv_timeout(LAST_WRITE);
    }
}

impl LogThread {
    /// Writes stderr until `ask` is readable or ends, then what is left of it and the last note.
    fn work(mut self, mut ask: io::PipeReader) {
        let mut is_open = true;
        while self.wait(is_open, &ask) {
            is_open = self.drain(1);
        }
        self.drain(LAST_READS);
        let mut note = String::new();
        let _ = ask.read_to_string(&mut note);
        let mut block = Vec::new();
        if note.is_empty() {
            self.recorder.finish(SystemTime::now(), &mut block);
        } else {
            self.recorder.note(SystemTime::now(), &note, &mut block);
        }
        self.writer.append(&block);
    }

    /// Waits for stderr, if it is open. Returns false when `ask` is readable or has ended. Allocates nothing, see the top.
    fn wait(&self, is_open: bool, ask: &io::PipeReader) -> bool {
        let mut fds = [ask, &self.stderr].map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let watched = if is_open { &mut fds[..] } else { &mut fds[..1] };
        // After an interruption there is nothing to read, and the next call waits again.
        let _ = poll(watched, None);
        fds[0].revents().is_empty()
    }

    /// Reads up to this many times, without waiting. Returns false if all processes of the server have closed stderr.
    fn drain(&mut self, reads: usize) -> bool {
        let mut chunk = vec![0; CHUNK];
        for _ in 0..reads {
            let read = match self.stderr.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => read,
                // Nothing is there yet.
                Err(_) => return true,
            };
            let mut block = Vec::new();
            self.recorder.write(SystemTime::now(), &chunk[..read], &mut block);
            self.writer.append(&block);
        }
        true
    }
}
