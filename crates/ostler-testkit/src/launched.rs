//! A started program with its pipes, as a client has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::pipes::{BoundedWriter, LineReader};
use crate::wait::wait_until;

/// How long a request of [`Launched::request`] may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// A child process with pipes as stdin and stdout. Killed and reaped on drop.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    stdin: Option<BoundedWriter<ChildStdin>>,
    stdout: Option<LineReader<ChildStdout>>,
    /// A file, so that stderr never fills up and may be read at any time.
    stderr: File,
    next_id: u64,
}

impl Launched {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let stderr = tempfile::tempfile().expect("a file for stderr");
        let copy = stderr.try_clone().expect("a descriptor for stderr");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(copy)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        // The command would keep a copy of the descriptor of stderr for as long as the test keeps the command.
        command.stderr(Stdio::null());
        let stdin = child.stdin.take().map(|pipe| BoundedWriter::new(pipe).expect("stdin"));
        let stdout = child.stdout.take().map(|pipe| LineReader::new(pipe).expect("stdout"));
        Self { child, stdin, stdout, stderr, next_id: 1 }
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes to its stdin; `TimedOut` if it does not take them.
    pub fn write(&mut self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        self.stdin.as_mut().expect("stdin is open").write_all(bytes, limit)
    }

    /// Writes one message; panics if it is not taken.
    pub fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes(), REQUEST_LIMIT)
            .unwrap_or_else(|error| panic!("{message} was not taken: {error}; {}", self.scene()));
    }

    /// The next line of its stdout; `None` at the end, `TimedOut` if neither comes.
    pub fn line(&mut self, limit: Duration) -> io::Result<Option<Vec<u8>>> {
        self.stdout.as_mut().expect("stdout is open").line(limit)
    }

    /// The next line as JSON; panics if there is none.
    pub fn message(&mut self, limit: Duration) -> Value {
        match self.line(limit) {
            Ok(Some(line)) => serde_json::from_slice(&line).unwrap_or_else(|error| {
                panic!("not JSON ({error}): {}", String::from_utf8_lossy(&line))
            }),
            Ok(None) => panic!("stdout ended; {}", self.scene()),
            Err(error) => panic!("no message: {error}; {}", self.scene()),
        }
    }

    /// Sends a request and returns the answer with the same id; other messages are dropped. Panics if there is none.
    pub fn request(&mut self, request: &Value) -> Value {
        self.send(request);
        let end = Instant::now() + REQUEST_LIMIT;
        loop {
            let answer = self.message(end.saturating_duration_since(Instant::now()));
            if answer.get("id") == request.get("id") && answer.get("method").is_none() {
                return answer;
            }
        }
    }

    /// A request by method and parameters, with an id of its own.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.request(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// The handshake; returns the answer to `initialize`.
    pub fn initialize(&mut self) -> Value {
        let client = json!({"name": "ostler-testkit", "version": "0"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = self.call("initialize", &params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Ends its stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes our end of its stdout.
    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Sends it a signal. It is our child and not reaped, so the pid is still its own.
    pub fn signal(&mut self, signal: Signal) {
        let has_ended = self.child.try_wait().expect("wait").is_some();
        assert!(!has_ended, "it has ended before the signal; {}", self.scene());
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("kill");
    }

    /// Its status, if it has ended.
    pub fn try_exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait")
    }

    /// Waits for its end; stdin stays as it is. Panics if it does not end.
    pub fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        wait_until(&what, limit, || self.try_exit())
    }

    /// The stderr of the process and its descendants so far.
    pub fn stderr(&self) -> String {
        let size = self.stderr.metadata().expect("the size of stderr").len();
        let mut bytes = vec![0; usize::try_from(size).expect("a size")];
        // At an offset, because the position is shared with the process that writes.
        self.stderr.read_exact_at(&mut bytes, 0).expect("stderr");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn scene(&mut self) -> String {
        format!("status {:?}, stderr: {}", self.child.try_wait(), self.stderr())
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
