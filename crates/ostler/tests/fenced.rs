//! One server inside a fence, for a host without an async runtime.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use ostler::{
    Event, GuardianProgram, Instance, Limits, Outcome, Owner, Pipe, Places, Refusal, ServerSpec,
    ServerStdio, Step, Terms,
};
use ostler_testkit::{binary, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const PATIENCE: Duration = Duration::from_secs(30);

/// The servers that the tests start.
struct Candidate {
    /// Echoes its input until end of file.
    echo: ServerSpec,
    /// Prints `up`, and ignores both the end of its input and SIGTERM.
    stubborn: ServerSpec,
    /// Can't be started.
    missing: ServerSpec,
}

fn processes() -> Candidate {
    let shell = |name: &str, script: &str| ServerSpec {
        name: name.into(),
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        env: std::env::vars_os().collect(),
        cwd: None,
    };
    Candidate {
        echo: shell("echo", "exec cat"),
        stubborn: shell("stubborn", "trap '' TERM; echo up; while :; do sleep 3600; done"),
        missing: ServerSpec { program: "no-such-command".into(), ..shell("missing", "") },
    }
}

/// Runs each test with an owner, whose ledger must be empty afterwards.
macro_rules! fenced {
    ($backend:ident: $($clause:ident)*) => {
        mod $backend {
            $(#[test]
            fn $clause() {
                let directory = tempfile::tempdir().unwrap();
                let places = Places::new([directory.path().to_owned()]);
                let owner = super::Owner::new(places, "fenced").unwrap();
                super::$clause(&super::$backend(), &owner);
                super::wait_until("the ledger is settled", super::PATIENCE, || {
                    std::fs::read_dir(directory.path().join("owners")).unwrap().count() == 0
                });
            })*

            use super::Places;
        }
    };
}

fenced! { processes:
    it_says_that_it_has_started
    its_pipe_carries_bytes_both_ways
    it_leaves_when_its_input_ends
    a_stubborn_one_is_ended_with_proof
    a_missing_program_is_refused
    dropping_it_ends_it
    its_end_wakes_a_poll
    l55_a_server_that_has_gone_breaks_only_its_own_pipe
}

fn start(_: &Candidate, owner: &Owner, spec: &ServerSpec) -> (Instance, Pipe) {
    let limits = Limits { grace: Duration::from_millis(200), ..Limits::default() };
    let guardian = GuardianProgram::At(binary("ostler-host"));
    let terms = Terms { limits, guardian, ..Terms::default() };
    let (stdio, pipe) = ServerStdio::piped().unwrap();
    (owner.start(spec.clone(), stdio, &terms).unwrap(), pipe)
}

fn it_says_that_it_has_started(of: &Candidate, owner: &Owner) {
    let (mut instance, _pipe) = start(of, owner, &of.echo);
    assert!(instance.whereabouts().is_none());
    assert!(matches!(instance.wait_event(PATIENCE).unwrap(), Some(Event::Started { .. })));
    assert!(instance.whereabouts().is_some());
    assert!(matches!(instance.close(Step::Asking).unwrap(), Outcome::Gone(_)));
}

fn its_pipe_carries_bytes_both_ways(of: &Candidate, owner: &Owner) {
    let (instance, mut pipe) = start(of, owner, &of.echo);
    pipe.stdin.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    pipe.stdout.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
    drop(pipe.stdin);
    assert!(matches!(instance.close(Step::Closing).unwrap(), Outcome::Gone(_)));
}

fn it_leaves_when_its_input_ends(of: &Candidate, owner: &Owner) {
    let (mut instance, pipe) = start(of, owner, &of.echo);
    drop(pipe.stdin);
    let mut exited = false;
    loop {
        match instance.wait_event(PATIENCE).unwrap() {
            Some(Event::Exited(status)) => exited = status.success(),
            Some(Event::Empty(_)) => break,
            Some(Event::Started { .. }) => {}
            other => panic!("not expected: {other:?}"),
        }
    }
    assert!(exited);
    // An instance that has ended has no further events.
    assert!(instance.next_event().unwrap().is_none());
}

fn a_stubborn_one_is_ended_with_proof(of: &Candidate, owner: &Owner) {
    let (instance, mut pipe) = start(of, owner, &of.stubborn);
    pipe.stdout.read_exact(&mut [0; 3]).unwrap();
    drop(pipe.stdin);
    assert!(matches!(instance.close(Step::Closing).unwrap(), Outcome::Gone(_)));
    // No process holds its stdout any more.
    assert_eq!(pipe.stdout.read(&mut [0; 1]).unwrap(), 0);
}

fn a_missing_program_is_refused(of: &Candidate, owner: &Owner) {
    let (mut instance, _pipe) = start(of, owner, &of.missing);
    let event = instance.wait_event(PATIENCE).unwrap();
    assert!(matches!(event, Some(Event::Refused(Refusal::NotFound { .. }))), "{event:?}");
}

fn dropping_it_ends_it(of: &Candidate, owner: &Owner) {
    let (instance, mut pipe) = start(of, owner, &of.stubborn);
    pipe.stdout.read_exact(&mut [0; 3]).unwrap();
    drop(instance);
    // End of file on its stdout means that no process is left. The ledger is settled a moment later.
    assert_eq!(pipe.stdout.read(&mut [0; 1]).unwrap(), 0);
}

fn its_end_wakes_a_poll(of: &Candidate, owner: &Owner) {
    let (mut instance, pipe) = start(of, owner, &of.echo);
    while !matches!(instance.next_event().unwrap(), Some(Event::Started { .. })) {}
    drop(pipe.stdin);
    let descriptor = instance.as_fd();
    let limit = Timespec::try_from(PATIENCE).unwrap();
    assert_eq!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit)).unwrap(), 1);
    assert!(matches!(instance.close(Step::Closing).unwrap(), Outcome::Gone(_)));
}

fn l55_a_server_that_has_gone_breaks_only_its_own_pipe(of: &Candidate, owner: &Owner) {
    let (mut gone, mut broken) = start(of, owner, &of.echo);
    let (other, mut pipe) = start(of, owner, &of.echo);
    gone.stop(Step::Ending);
    while !matches!(gone.wait_event(PATIENCE).unwrap(), Some(Event::Empty(_))) {}
    let error = broken.stdin.write_all(b"anybody there?").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    pipe.stdin.write_all(b"hello").unwrap();
    pipe.stdout.read_exact(&mut [0; 5]).unwrap();
    assert!(matches!(other.close(Step::Asking).unwrap(), Outcome::Gone(_)));
}
