//! Fairness between principals.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AcquireDecision, AcquireError, Caller, Caps, Cause, Fixture, Principal, Purpose, Sharing, caps,
    few, server,
};
use crate::keeper::cause::{Fault, NotStarted};

const SECOND: Duration = Duration::from_secs(1);

fn red() -> Principal {
    Principal::named("red")
}

fn blue() -> Principal {
    Principal::named("blue")
}

fn refusal() -> Cause {
    Cause::Unhealthy(Fault::Handshake("it refused".into()))
}

/// Principals of the started instances, in order.
fn started_by(fixture: &mut Fixture) -> Vec<Principal> {
    let started = fixture.started();
    started.iter().map(|number| fixture.plan.member(*number).unwrap().principal().clone()).collect()
}

/// Sessions of a principal that each request an instance of their own.
fn crowd(fixture: &mut Fixture, principal: &Principal, count: usize) -> Vec<Arc<Caller>> {
    let callers: Vec<_> = (0..count).map(|_| fixture.session_by(principal)).collect();
    for caller in &callers {
        let _ = fixture.acquire("session", caller);
    }
    callers
}

#[test]
fn a_failed_start_delays_its_own_principal_and_no_other() {
    let not_started = Cause::NotStarted(NotStarted::Failed("no such program".into()));
    for cause in [refusal(), Cause::Exited, not_started] {
        let mut fixture = Fixture::new(caps(8), [("session", server(Sharing::Session))]);
        let (hostile, victim) = (fixture.session_by(&red()), fixture.session_by(&blue()));
        fixture.queue("session", &hostile);
        let number = fixture.started()[0];
        fixture.ends(number, cause);
        fixture.queue("session", &hostile);
        assert!(fixture.started().is_empty());
        fixture.queue("session", &victim);
        assert_eq!(started_by(&mut fixture), [blue()]);
    }
}

#[test]
fn failures_count_over_all_profiles_that_a_principal_sends() {
    let short = Caps { queue_timeout: Duration::from_millis(100), ..Caps::default() };
    let mut fixture = Fixture::new(short, [("session", server(Sharing::Session))]);
    let mut starts = 0;
    for number in 0..100 {
        let caller = fixture.session_by(&red());
        match fixture.acquire_with("session", &caller, &format!("{{\"profile\":{number}}}")) {
            Ok(AcquireDecision::Queued { .. }) => {}
            Err(AcquireError::BackingOff { failures, .. }) => assert_eq!(failures, starts),
            other => panic!("{other:?}"),
        }
        fixture.pass(SECOND / 10);
        for number in fixture.started() {
            starts += 1;
            fixture.ends(number, refusal());
        }
    }
    // Ten seconds with delays of 0.5, 1, 2 and 4 seconds.
    assert!((3..=6).contains(&starts), "{starts} starts");
}

#[test]
fn callers_of_other_principals_get_another_start_when_a_shared_one_fails() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let (first, second) = (fixture.session_by(&red()), fixture.session_by(&blue()));
    let refused = [fixture.queue("all", &first), fixture.queue("all", &first)];
    let waiting = fixture.queue("all", &second);
    let number = fixture.started()[0];
    fixture.leaves(number, refusal());
    let told: Vec<u64> = fixture.refused().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(told, refused);
    let again = fixture.started();
    assert_eq!(again.len(), 1);
    assert_eq!(*fixture.plan.member(again[0]).unwrap().principal(), blue());
    // The first may wait for the other's start, although its own backoff is not over.
    let joined = fixture.queue("all", &first);
    fixture.ready(again[0]);
    assert_eq!(fixture.granted(), [(waiting, again[0]), (joined, again[0])]);
}

#[test]
fn a_broken_server_is_started_once_for_each_principal_that_waits() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let callers = [fixture.session_by(&red()), fixture.session_by(&blue()), fixture.session()];
    for caller in callers.iter().chain(&callers) {
        fixture.queue("all", caller);
    }
    for expected in [red(), blue(), Principal::default()] {
        let number = fixture.started()[0];
        assert_eq!(*fixture.plan.member(number).unwrap().principal(), expected);
        fixture.ends(number, Cause::Exited);
        assert_eq!(fixture.refused().len(), 2);
    }
    assert!(fixture.started().is_empty());
}

#[test]
fn principals_take_turns() {
    let one = Caps { starting: 1, ..Caps::default() };
    let mut fixture = Fixture::new(one, [("session", server(Sharing::Session))]);
    crowd(&mut fixture, &red(), 5);
    crowd(&mut fixture, &blue(), 2);
    let mut order = Vec::new();
    while let Some(number) = fixture.started().pop() {
        order.push(fixture.plan.member(number).unwrap().principal().clone());
        fixture.ready(number);
    }
    assert_eq!(order, [red(), blue(), red(), blue(), red(), red(), red()]);
}

#[test]
fn a_principal_leaves_starts_and_slots_for_others() {
    let both = Caps { starting: 8, instances: 16, ..Caps::default() };
    let mut fixture = Fixture::new(both, [("session", server(Sharing::Session))]);
    let held = crowd(&mut fixture, &red(), 20);
    let first = fixture.started();
    assert_eq!(first.len(), 6);
    crowd(&mut fixture, &blue(), 1);
    assert_eq!(started_by(&mut fixture), [blue()]);
    // Each instance is used as soon as it is ready.
    let mut starting = first;
    while let Some(number) = starting.pop() {
        fixture.ready(number);
        fixture.uses(number);
        starting.extend(fixture.started());
    }
    let of_red = |fixture: &Fixture| {
        let members = fixture.plan.members();
        members.filter(|(_, member)| *member.principal() == red()).count()
    };
    assert_eq!(of_red(&fixture), 12);
    let error =
        fixture.plan.obstacle(&key(&fixture, &held[19]), &red(), Purpose::Call, fixture.now);
    assert!(error.unwrap().to_string().contains("its principal has used its share"));
    crowd(&mut fixture, &blue(), 1);
    assert_eq!(started_by(&mut fixture), [blue()]);
}

fn key(fixture: &Fixture, caller: &Caller) -> crate::keeper::key::Key {
    let whose = caller.whose(Sharing::Session, 0);
    fixture.plan.queued(fixture.now).into_iter().find(|one| one.key.whose == whose).unwrap().key
}

#[test]
fn a_single_principal_may_fill_every_cap() {
    let all = Caps { starting: 8, instances: 8, ..Caps::default() };
    let mut fixture = Fixture::new(all, [("session", server(Sharing::Session))]);
    crowd(&mut fixture, &Principal::default(), 8);
    assert_eq!(fixture.started().len(), 8);
}

#[test]
fn a_full_queue_displaces_the_principal_with_the_most_waiters() {
    let full = Caps { starting: 1, queue: 4, ..Caps::default() };
    let mut fixture = Fixture::new(full, [("session", server(Sharing::Session))]);
    let red_ones = crowd(&mut fixture, &red(), 5);
    let late = fixture.session_by(&red());
    assert!(matches!(fixture.acquire("session", &late), Err(AcquireError::QueueFull { .. })));
    let victims =
        [fixture.session_by(&blue()), fixture.session_by(&blue()), fixture.session_by(&blue())];
    fixture.queue("session", &victims[0]);
    assert!(fixture.refused()[0].1.contains("the queue is full"));
    let last = fixture.plan.queued(fixture.now);
    assert!(!last.iter().any(|one| one.key.whose == red_ones[4].whose(Sharing::Session, 0)));
    fixture.queue("session", &victims[1]);
    assert!(matches!(fixture.acquire("session", &victims[2]), Err(AcquireError::QueueFull { .. })));
}

#[test]
fn the_principal_with_the_most_instances_makes_room() {
    let mut fixture = Fixture::new(caps(4), [("session", server(Sharing::Session))]);
    let of_blue = fixture.session_by(&blue());
    let only = fixture.instance("session", &of_blue);
    fixture.pass(SECOND * 2);
    let callers: Vec<_> = (0..3).map(|_| fixture.session_by(&red())).collect();
    let all: Vec<u64> = callers.iter().map(|caller| fixture.instance("session", caller)).collect();
    fixture.pass(SECOND * 2);
    let third = fixture.session();
    fixture.queue("session", &third);
    let ended: Vec<u64> = fixture.ended().into_iter().map(|(number, ..)| number).collect();
    assert_eq!((ended, fixture.state(only).is_some()), (vec![all[0]], true));
}

#[test]
fn error_messages_hide_other_principals_from_a_named_one() {
    let mut fixture = Fixture::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, other, local) =
        (fixture.session_by(&red()), fixture.session_by(&blue()), fixture.session());
    let held = fixture.instance("session", &holder);
    fixture.uses(held);
    fixture.queue("session", &other);
    fixture.queue("session", &local);
    fixture.pass(Caps::default().queue_timeout);
    let texts: Vec<String> = fixture.refused().into_iter().map(|(_, text)| text).collect();
    assert!(texts[0].ends_with("held by 1 instances of other principals"), "{texts:?}");
    assert!(texts[1].contains("of red"), "{texts:?}");
}

#[test]
fn failures_are_forgotten_when_an_instance_lasts_or_its_server_goes() {
    let mut fixture = Fixture::new(caps(8), [("session", server(Sharing::Session))]);
    for principal in [red(), blue()] {
        let caller = fixture.session_by(&principal);
        fixture.queue("session", &caller);
        let number = fixture.started()[0];
        fixture.ends(number, Cause::Exited);
    }
    fixture.pass(SECOND);
    let caller = fixture.session_by(&red());
    let number = fixture.instance("session", &caller);
    fixture.pass(SECOND * 60);
    fixture.ends(number, Cause::Idle);
    assert_eq!(fixture.plan.failures.count(), 1);
    fixture.change("session", |server| server.spec_mut().unwrap().args = vec!["other".into()]);
    assert_eq!(fixture.plan.failures.count(), 0);
}

#[test]
fn the_number_of_failure_records_is_bounded() {
    let mut capped = server(Sharing::Session);
    capped.cap = Some(few(1));
    let mut fixture = Fixture::new(caps(8), [("session", capped)]);
    for number in 0..1000 {
        let caller = fixture.session_by(&Principal::named(&number.to_string()));
        fixture.queue("session", &caller);
        let number = fixture.started()[0];
        fixture.ends(number, Cause::Exited);
    }
    assert!(fixture.plan.failures.count() <= 256);
}
