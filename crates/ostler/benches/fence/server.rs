//! Servers for the benchmarks.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::str::FromStr;
use std::time::Duration;

use ostler::backend::Whereabouts;
use ostler::{Event, Instance, Outcome, Owner, ServerSpec, ServerStdio, Step, Terms};
use ostler_testkit::binary;

use crate::Result;

/// A minimal server that runs until its stdin ends.
pub(crate) const CAT: &str = "/bin/cat";

/// The first request; `cat` repeats it, the stub answers it.
const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Limit far beyond the duration of anything here, so that a hang becomes an error.
const PATIENCE: Duration = Duration::from_mins(1);

/// The gentlest step that makes a stub exit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heeds {
    EndOfInput,
    Term,
    Nothing,
}

impl Heeds {
    pub(crate) const ALL: [(Self, &'static str); 3] =
        [(Self::EndOfInput, "end of input"), (Self::Term, "TERM"), (Self::Nothing, "nothing")];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(heeds, _)| *heeds == self).map_or("", |(_, name)| name)
    }

    fn switches(self) -> &'static [&'static str] {
        match self {
            Self::EndOfInput => &[],
            Self::Term => &["--ignore-eof"],
            Self::Nothing => &["--ignore-eof", "--ignore-term"],
        }
    }
}

impl FromStr for Heeds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(heeds, _)| *heeds).ok_or_else(|| format!("nothing heeds '{text}'"))
    }
}

pub(crate) fn cat() -> ServerSpec {
    spec(CAT.into(), &[])
}

/// A shell with a script.
pub(crate) fn shell(script: &str) -> ServerSpec {
    spec("/bin/sh".into(), &["-c", script])
}

pub(crate) fn stub(heeds: Heeds) -> ServerSpec {
    spec(binary("ostler-stub").into(), heeds.switches())
}

fn spec(program: std::ffi::OsString, switches: &[&str]) -> ServerSpec {
    ServerSpec {
        name: "bench".into(),
        program,
        args: switches.iter().map(Into::into).collect(),
        // The whole environment: it contains the mark by which the oracle finds survivors.
        env: std::env::vars_os().collect(),
        cwd: None,
    }
}

/// The benchmark's ends of a server's pipes.
pub(crate) struct Ends {
    /// Held open, because dropping it ends the server's stdin.
    _input: PipeWriter,
    output: PipeReader,
}

impl Ends {
    /// Writes the first request before the server starts: its response shows that the server runs and is
    /// set up.
    pub(crate) fn open() -> io::Result<(Self, ServerStdio)> {
        let (stdin, mut input) = io::pipe()?;
        let (output, stdout) = io::pipe()?;
        input.write_all(PING)?;
        let null: File = OpenOptions::new().write(true).open("/dev/null")?;
        let server =
            ServerStdio { stdin: stdin.into(), stdout: stdout.into(), stderr: null.into() };
        Ok((Self { _input: input, output }, server))
    }

    pub(crate) fn await_first_byte(&mut self) -> io::Result<()> {
        self.output.read_exact(&mut [0])
    }

    /// Reads the first line and nothing more.
    pub(crate) fn first_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        BufReader::new(&self.output).read_line(&mut line)?;
        Ok(line)
    }
}

/// A server that has answered.
pub(crate) struct Running {
    pub(crate) instance: Instance,
    pub(crate) ends: Ends,
    pub(crate) guardian: i32,
    pub(crate) pid: i32,
}

impl Running {
    pub(crate) fn many(
        owner: &Owner,
        count: usize,
        spec: &ServerSpec,
        terms: &Terms,
    ) -> Result<Vec<Self>> {
        let start = |_| {
            let (ends, stdio) = Ends::open()?;
            Ok((owner.start(spec.clone(), stdio, terms)?, ends))
        };
        let started = (0..count).map(start).collect::<Result<Vec<_>>>()?;
        started.into_iter().map(|(instance, ends)| Self::answered(instance, ends)).collect()
    }

    fn answered(mut instance: Instance, mut ends: Ends) -> Result<Self> {
        ends.await_first_byte()?;
        match instance.wait_event(PATIENCE)? {
            Some(Event::Started {
                whereabouts: Whereabouts::Process { guardian, server }, ..
            }) => Ok(Self { instance, ends, guardian: guardian.pid, pid: server.pid }),
            other => Err(format!("expected a start, not {other:?}").into()),
        }
    }

    pub(crate) fn end(self) -> Result<()> {
        drop(self.ends);
        proven_gone(self.instance)
    }
}

/// Stops an instance whose stdin is closed.
pub(crate) fn proven_gone(instance: Instance) -> Result<()> {
    match instance.close(Step::Closing)? {
        Outcome::Gone(_) => Ok(()),
        Outcome::Unverified(residue) => Err(format!("left over: {residue}").into()),
    }
}
