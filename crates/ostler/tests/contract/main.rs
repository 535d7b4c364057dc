//! Runs the contract against the process backend, the remote backend and a third one defined in this test. The
//! simulated backend is tested beside the simulation (`keeper/sim/contract.rs`).
//!
//! `tests/sweeps.rs` of the command line shows with really killed owners that a sweep finds their processes.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]

mod clauses;
mod others;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use ostler::backend::{Conversation, Processes, Remote, RemoteEnds, Remotes, Target};
use ostler::keeper::Fingerprint;
use ostler::{GuardianProgram, Limits, ServerSpec, Terms};
use ostler_testkit::binary;
use rustix::process::{Pid, Signal, kill_process};
use threads::Threads;

use crate::clauses::{Candidate, contract};

contract! { processes }
contract! { remote_servers }
contract! { threads_of_this_process }

fn spec(program: &str, args: &[&str]) -> ServerSpec {
    ServerSpec {
        name: "it".into(),
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        env: std::env::vars_os().collect(),
        cwd: None,
    }
}

fn terms() -> Terms {
    let limits = Limits { grace: Duration::from_millis(200), ..Limits::default() };
    let guardian = GuardianProgram::At(binary("ostler-host"));
    Terms { limits, guardian, ..Terms::default() }
}

fn processes() -> Candidate {
    let shell = |script: &str| Target::Run(spec("sh", &["-c", script]));
    Candidate {
        backend: Arc::new(Processes::default()),
        terms: terms(),
        polite: shell("exec cat"),
        line: ("hello\n", "hello\n"),
        stubborn: shell("trap '' TERM; cat; while :; do sleep 3600; done"),
        missing: Target::Run(spec("no-such-command", &[])),
        foreign: Target::Reach(Arc::new(Far { is_stubborn: false })),
        unhold: Box::new(|whereabouts| {
            let guardian = whereabouts.guardian().and_then(|guardian| Pid::from_raw(guardian.pid));
            kill_process(guardian.unwrap(), Signal::KILL).unwrap();
        }),
        absent: &[],
    }
}

/// A remote server that echoes each line.
#[derive(Debug)]
struct Far {
    is_stubborn: bool,
}

impl Remote for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn place(&self) -> String {
        "https://far.invalid".to_owned()
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_text("far")
    }

    fn speak(&self, mut ends: RemoteEnds) -> Conversation {
        let is_stubborn = self.is_stubborn;
        Box::pin(async move {
            tokio::select! {
                _ = tokio::io::copy(&mut ends.input, &mut ends.output) => {}
                () = ends.leave.cancelled(), if !is_stubborn => {}
            }
            if is_stubborn {
                std::future::pending::<()>().await;
            }
            "it was left".to_owned()
        })
    }
}

fn remote_servers() -> Candidate {
    let far = |is_stubborn| Target::Reach(Arc::new(Far { is_stubborn }));
    Candidate {
        backend: Arc::new(Remotes),
        terms: terms(),
        polite: far(false),
        line: ("hello\n", "hello\n"),
        stubborn: far(true),
        missing: far(false),
        foreign: Target::Run(spec("cat", &[])),
        unhold: Box::new(|_| {}),
        absent: &[
            ("a_missing_program_is_refused", "that it is not there shows when it is spoken with"),
            (
                "its_entry_names_its_backend_until_its_end",
                "its connections end with their owner: nothing is on record",
            ),
            (
                "its_backend_knows_its_parts_by_name",
                "nothing is on record, so that only its keeper knows it",
            ),
            (
                "another_process_can_ask_it_to_end",
                "nothing is on record, so that only its owner can be asked",
            ),
            (
                "an_instance_without_a_holder_is_listed_and_ended",
                "its connections end with their owner: nothing is left",
            ),
            ("an_instance_that_loses_its_guardian_is_rescued", "its keeper itself holds it"),
        ],
    }
}

fn threads_of_this_process() -> Candidate {
    let thread = |program| Target::On { backend: threads::NAME.into(), spec: spec(program, &[]) };
    Candidate {
        backend: Arc::new(Threads::default()),
        terms: terms(),
        polite: thread("echo"),
        line: ("hello\n", "hello\n"),
        stubborn: thread("stubborn"),
        missing: thread("no-such-thread"),
        foreign: Target::Run(spec("cat", &[])),
        unhold: Box::new(|_| {}),
        absent: &[("an_instance_that_loses_its_guardian_is_rescued", "its keeper itself holds it")],
    }
}
