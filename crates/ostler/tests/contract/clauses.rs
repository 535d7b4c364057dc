//! The contract of backends, as tests.
//!
//! Each clause is a function over a [`Candidate`]. A backend to which a clause does not apply lists it in
//! [`Candidate::absent`] with the reason, and the test prints that.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use ostler::backend::{
    Backend, Hold, Input, Output, Role, StartOrder, Started, Target, Whereabouts,
};
use ostler::ledger::{Book, End};
use ostler::sweep::books;
use ostler::{Event, InstanceId, Outcome, Owner, Places, Step, Terms};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A backend with targets to test it on.
pub(crate) struct Candidate {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) terms: Terms,
    /// Answers each line until its stdin ends or it is told to stop.
    pub(crate) polite: Target,
    /// A line to the server and its answer.
    pub(crate) line: (&'static str, &'static str),
    /// Answers each line, and ignores the end of stdin and TERM.
    pub(crate) stubborn: Target,
    /// Cannot be started.
    pub(crate) missing: Target,
    /// A target of another backend.
    pub(crate) foreign: Target,
    /// Kills the guardian of an instance, or its equivalent.
    pub(crate) unhold: Box<dyn Fn(&Whereabouts)>,
    /// Clauses that do not apply to it, with the reason.
    pub(crate) absent: &'static [(&'static str, &'static str)],
}

/// An owner with its own ledger.
pub(crate) struct Stage {
    pub(crate) owner: Owner,
    places: Places,
    _directory: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let places = Places::new([directory.path().to_owned()]);
        let owner = Owner::new(places.clone(), "contract").unwrap();
        Self { owner, places, _directory: directory }
    }

    /// The owner's ledger with the open entries of this backend.
    fn books(&self, of: &Candidate) -> Vec<Book> {
        let own = books(&self.places).into_iter().map(|book| book.open_of(of.backend.name()));
        own.filter(|book| !book.entries.is_empty()).collect()
    }

    pub(crate) async fn expect_settled(&self) {
        until("the ledger is settled", || books(&self.places).is_empty()).await;
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            sleep(BETWEEN_LOOKS).await;
        }
    };
    assert!(timeout(PATIENCE, look).await.is_ok(), "not in time: {what}");
}

/// An instance under test.
struct Running {
    id: InstanceId,
    hold: Box<dyn Hold>,
    stdin: Option<Input>,
    stdout: Output,
    whereabouts: Whereabouts,
}

async fn start(of: &Candidate, stage: &Stage, target: &Target) -> Running {
    let Started { id, mut hold, stdin, stdout, .. } =
        of.backend.start(order(of, stage, target)).await.unwrap();
    let event = next(&mut *hold).await;
    let Event::Started { whereabouts, .. } = event else { panic!("not expected: {event:?}") };
    Running { id, hold, stdin: Some(stdin), stdout, whereabouts }
}

fn order(of: &Candidate, stage: &Stage, target: &Target) -> StartOrder {
    let (target, terms, owner) = (target.clone(), of.terms.clone(), stage.owner.clone());
    StartOrder { target, terms, containers: 0, owner }
}

async fn next(hold: &mut dyn Hold) -> Event {
    timeout(PATIENCE, poll_fn(|cx| hold.poll_event(cx))).await.expect("an event in time")
}

impl Running {
    async fn exchange(&mut self, (said, expected): (&str, &str)) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(said.as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
        let mut answer = vec![0; expected.len()];
        timeout(PATIENCE, self.stdout.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }

    /// Reads the rest of its output, which must end.
    async fn expect_silence(&mut self) {
        let mut rest = Vec::new();
        // A broken connection counts as the end.
        let _ = timeout(PATIENCE, self.stdout.read_to_end(&mut rest)).await.unwrap();
    }

    /// Stops it from `step` on and waits for the proof.
    async fn end(mut self, step: Step) -> Output {
        drop(self.stdin.take());
        self.hold.stop(step);
        while !matches!(next(&mut *self.hold).await, Event::Empty(_)) {}
        timeout(PATIENCE, self.hold.part()).await.unwrap();
        self.stdout
    }
}

pub(crate) async fn its_streams_carry_bytes_both_ways(of: &Candidate, stage: &Stage) {
    let mut running = start(of, stage, &of.polite).await;
    running.exchange(of.line).await;
    running.exchange(of.line).await;
    running.end(Step::Closing).await;
}

pub(crate) async fn a_stubborn_one_is_ended_with_proof(of: &Candidate, stage: &Stage) {
    let mut running = start(of, stage, &of.stubborn).await;
    running.exchange(of.line).await;
    let mut stdout = running.end(Step::Closing).await;
    let rest = timeout(PATIENCE, stdout.read_to_end(&mut Vec::new())).await;
    assert!(rest.is_ok(), "its output is still open");
}

pub(crate) async fn it_can_be_ended_at_once(of: &Candidate, stage: &Stage) {
    start(of, stage, &of.stubborn).await.end(Step::Ending).await;
}

pub(crate) async fn a_missing_program_is_refused(of: &Candidate, stage: &Stage) {
    if let Ok(mut started) = of.backend.start(order(of, stage, &of.missing)).await {
        let event = next(&mut *started.hold).await;
        assert!(matches!(event, Event::Refused(_)), "{event:?}");
    }
}

pub(crate) async fn a_target_of_another_kind_is_refused(of: &Candidate, stage: &Stage) {
    let refused = of.backend.start(order(of, stage, &of.foreign)).await.unwrap_err();
    assert!(refused.to_string().contains(of.backend.name()), "{refused}");
}

pub(crate) async fn dropping_its_hold_ends_it(of: &Candidate, stage: &Stage) {
    let mut running = start(of, stage, &of.stubborn).await;
    running.exchange(of.line).await;
    let Running { id, hold, stdin, stdout, whereabouts } = running;
    drop((hold, stdin));
    let hold: Box<dyn Hold> = Box::new(Nothing);
    Running { id, hold, stdin: None, stdout, whereabouts }.expect_silence().await;
}

pub(crate) async fn the_end_of_one_leaves_others_alone(of: &Candidate, stage: &Stage) {
    let (one, mut other) = (start(of, stage, &of.polite).await, start(of, stage, &of.polite).await);
    assert_ne!(one.id, other.id);
    one.end(Step::Ending).await;
    other.exchange(of.line).await;
    other.end(Step::Closing).await;
}

pub(crate) async fn its_entry_names_its_backend_until_its_end(of: &Candidate, stage: &Stage) {
    let running = start(of, stage, &of.polite).await;
    let id = running.id;
    let books = stage.books(of);
    let entry = &books[0].entries[&id];
    assert_eq!(entry.intent.backend, of.backend.name());
    let start = entry.start.as_ref().expect("its start is on record");
    assert_eq!(start.whereabouts, running.whereabouts);
    let views = of.backend.describe(books).await;
    assert_eq!((views.len(), views[0].instance), (1, id));
    assert_eq!(views[0].backend, of.backend.name());
    running.end(Step::Closing).await;
    assert!(stage.books(of).is_empty());
}

pub(crate) async fn its_backend_knows_its_parts_by_name(of: &Candidate, stage: &Stage) {
    let (one, other) = (start(of, stage, &of.polite).await, start(of, stage, &of.polite).await);
    for view in of.backend.describe(stage.books(of)).await {
        assert_eq!(view.entry.intent.instance, view.instance);
        let handle = view.handle.expect("the server has a name where it runs");
        let part = of.backend.part(&view.entry, &handle).expect("it is a part of itself");
        assert_eq!(part.role, Role::Server, "{part:?}");
        assert!(part.title.contains(&handle), "{part:?}");
        assert_eq!(of.backend.part(&view.entry, "no-such-part"), None);
        let others = stage.books(of).remove(0).entries;
        let mut others = others.values().filter(|entry| entry.intent.instance != view.instance);
        assert_eq!(of.backend.part(others.next().unwrap(), &handle), None);
    }
    one.end(Step::Closing).await;
    other.end(Step::Closing).await;
}

pub(crate) async fn another_process_can_ask_it_to_end(of: &Candidate, stage: &Stage) {
    let mut running = start(of, stage, &of.polite).await;
    assert!(of.backend.ask(&stage.books(of)[0].entries[&running.id]));
    while !matches!(next(&mut *running.hold).await, Event::Empty(_)) {}
    running.hold.part().await;
}

pub(crate) async fn an_instance_without_a_holder_is_listed_and_ended(
    of: &Candidate,
    stage: &Stage,
) {
    let mut running = start(of, stage, &of.stubborn).await;
    running.exchange(of.line).await;
    let Running { id, hold, stdin, stdout, whereabouts } = running;
    // Leaks the hold, as a killed owner would.
    std::mem::forget(hold);
    (of.unhold)(&whereabouts);
    let book = stage.books(of).remove(0);
    let listed = timeout(PATIENCE, async {
        loop {
            let listed = of.backend.list(book.clone()).await;
            if listed.get(&id).is_some_and(|evidence| !evidence.traces.is_tended) {
                return listed;
            }
            sleep(BETWEEN_LOOKS).await;
        }
    });
    let listed = listed.await.expect("the guardian is gone");
    assert_eq!(listed[&id].entry.intent.instance, id);
    let traces = &listed[&id].traces;
    assert!(!traces.lines.is_empty() && !traces.fields.is_empty(), "{traces:?}");
    let ended = of.backend.end(book, PATIENCE).await;
    assert!(End::from(&ended[&id]).is_settled(), "{ended:?}");
    drop(stdin);
    let hold: Box<dyn Hold> = Box::new(Nothing);
    Running { id, hold, stdin: None, stdout, whereabouts }.expect_silence().await;
    let end = End::from(&ended[&id]);
    stage.owner.note(&ostler::ledger::Record::Ended { instance: id, end });
}

pub(crate) async fn an_instance_that_loses_its_guardian_is_rescued(of: &Candidate, stage: &Stage) {
    let mut running = start(of, stage, &of.stubborn).await;
    running.exchange(of.line).await;
    (of.unhold)(&running.whereabouts);
    while !matches!(next(&mut *running.hold).await, Event::GuardianLost) {}
    let hold = std::mem::replace(&mut running.hold, Box::new(Nothing));
    let outcome = timeout(PATIENCE, hold.rescue()).await.unwrap();
    assert!(End::from(&outcome).is_settled(), "{outcome:?}");
    running.expect_silence().await;
}

/// Holds nothing.
struct Nothing;

impl Hold for Nothing {
    fn poll_event(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Event> {
        std::task::Poll::Pending
    }

    fn stop(&mut self, _: Step) {}

    fn rescue(self: Box<Self>) -> ostler::backend::BoxFuture<Outcome> {
        Box::pin(std::future::pending())
    }

    fn part(self: Box<Self>) -> ostler::backend::BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

impl Candidate {
    /// Prints why a clause does not apply, to the real stderr: the output of passing tests is captured.
    pub(crate) fn is_absent(&self, backend: &str, clause: &str) -> bool {
        let absent = self.absent.iter().find(|(absent, _)| *absent == clause);
        if let Some((_, reason)) = absent {
            #[expect(clippy::disallowed_methods, reason = "it prints nothing from outside")]
            let mut stderr = std::io::stderr();
            let said = format!("absent: {backend}::{clause}: {reason}\n");
            std::io::Write::write_all(&mut stderr, said.as_bytes()).unwrap();
        }
        absent.is_some()
    }
}

/// Defines a test for each clause, for the backend that the function of the same name creates.
macro_rules! contract {
    ($backend:ident: $($clause:ident)*) => {
        mod $backend {
            $(#[tokio::test]
            async fn $clause() {
                let candidate = super::$backend();
                if candidate.is_absent(stringify!($backend), stringify!($clause)) {
                    return;
                }
                let stage = super::clauses::Stage::new();
                super::clauses::$clause(&candidate, &stage).await;
                stage.expect_settled().await;
            })*

            /// Catches misspelled names of clauses.
            #[test]
            fn every_absent_name_is_a_clause() {
                let clauses = [$(stringify!($clause)),*];
                for (absent, reason) in super::$backend().absent {
                    assert!(clauses.contains(absent) && !reason.is_empty(), "{absent}");
                }
            }
        }
    };
    ($backend:ident) => {
        contract! { $backend:
            its_streams_carry_bytes_both_ways
            a_stubborn_one_is_ended_with_proof
            it_can_be_ended_at_once
            a_missing_program_is_refused
            a_target_of_another_kind_is_refused
            dropping_its_hold_ends_it
            the_end_of_one_leaves_others_alone
            its_entry_names_its_backend_until_its_end
            its_backend_knows_its_parts_by_name
            another_process_can_ask_it_to_end
            an_instance_without_a_holder_is_listed_and_ended
            an_instance_that_loses_its_guardian_is_rescued
        }
    };
}
pub(crate) use contract;
