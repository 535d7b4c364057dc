//! What one principal causes is not another's to bear.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AcquireError, Asked, Caller, Caps, Cause, Desk, Principal, Purpose, Sharing, caps, few, server,
};
use crate::keeper::cause::Fault;

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

/// For whom instances were started, in order.
fn started_by(desk: &mut Desk) -> Vec<Principal> {
    let started = desk.started();
    started.iter().map(|number| desk.plan.member(*number).unwrap().principal().clone()).collect()
}

/// Sessions of a principal that each ask for an instance of their own.
fn crowd(desk: &mut Desk, principal: &Principal, count: usize) -> Vec<Arc<Caller>> {
    let callers: Vec<_> = (0..count).map(|_| desk.session_by(principal)).collect();
    for caller in &callers {
        let _ = desk.ask("session", caller);
    }
    callers
}

#[test]
fn a_failed_start_delays_its_own_principal_and_no_other() {
    for cause in [refusal(), Cause::Exited, Cause::NotStarted("no such program".into())] {
        let mut desk = Desk::new(caps(8), [("session", server(Sharing::Session))]);
        let (hostile, victim) = (desk.session_by(&red()), desk.session_by(&blue()));
        desk.queue("session", &hostile);
        let number = desk.started()[0];
        desk.ends(number, cause);
        desk.queue("session", &hostile);
        assert!(desk.started().is_empty());
        desk.queue("session", &victim);
        assert_eq!(started_by(&mut desk), [blue()]);
    }
}

#[test]
fn failures_count_over_all_profiles_that_a_principal_sends() {
    let short = Caps { queue_timeout: Duration::from_millis(100), ..Caps::default() };
    let mut desk = Desk::new(short, [("session", server(Sharing::Session))]);
    let mut starts = 0;
    for number in 0..100 {
        let caller = desk.session_by(&red());
        match desk.ask_with("session", &caller, &format!("{{\"profile\":{number}}}")) {
            Ok(Asked::Waiting { .. }) => {}
            Err(AcquireError::BackingOff { failures, .. }) => assert_eq!(failures, starts),
            other => panic!("{other:?}"),
        }
        desk.pass(SECOND / 10);
        for number in desk.started() {
            starts += 1;
            desk.ends(number, refusal());
        }
    }
    // Ten seconds with waits of half a second, one, two, four.
    assert!((3..=6).contains(&starts), "{starts} starts");
}

#[test]
fn callers_of_other_principals_get_another_start_when_a_shared_one_fails() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let (first, second) = (desk.session_by(&red()), desk.session_by(&blue()));
    let refused = [desk.queue("all", &first), desk.queue("all", &first)];
    let waiting = desk.queue("all", &second);
    let number = desk.started()[0];
    desk.leaves(number, refusal());
    let told: Vec<u64> = desk.refused().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(told, refused);
    let again = desk.started();
    assert_eq!(again.len(), 1);
    assert_eq!(*desk.plan.member(again[0]).unwrap().principal(), blue());
    // The first may wait for what the other starts, although it may not start anything itself.
    let joined = desk.queue("all", &first);
    desk.ready(again[0]);
    assert_eq!(desk.granted(), [(waiting, again[0]), (joined, again[0])]);
}

#[test]
fn a_broken_server_is_started_once_for_each_principal_that_waits() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let callers = [desk.session_by(&red()), desk.session_by(&blue()), desk.session()];
    for caller in callers.iter().chain(&callers) {
        desk.queue("all", caller);
    }
    for expected in [red(), blue(), Principal::default()] {
        let number = desk.started()[0];
        assert_eq!(*desk.plan.member(number).unwrap().principal(), expected);
        desk.ends(number, Cause::Exited);
        assert_eq!(desk.refused().len(), 2);
    }
    assert!(desk.started().is_empty());
}

#[test]
fn principals_take_turns() {
    let one = Caps { starting: 1, ..Caps::default() };
    let mut desk = Desk::new(one, [("session", server(Sharing::Session))]);
    crowd(&mut desk, &red(), 5);
    crowd(&mut desk, &blue(), 2);
    let mut order = Vec::new();
    while let Some(number) = desk.started().pop() {
        order.push(desk.plan.member(number).unwrap().principal().clone());
        desk.ready(number);
    }
    assert_eq!(order, [red(), blue(), red(), blue(), red(), red(), red()]);
}

#[test]
fn a_principal_leaves_starts_and_places_for_others() {
    let both = Caps { starting: 8, instances: 16, ..Caps::default() };
    let mut desk = Desk::new(both, [("session", server(Sharing::Session))]);
    let held = crowd(&mut desk, &red(), 20);
    let first = desk.started();
    assert_eq!(first.len(), 6);
    crowd(&mut desk, &blue(), 1);
    assert_eq!(started_by(&mut desk), [blue()]);
    // All are in use as soon as they can be.
    let mut starting = first;
    while let Some(number) = starting.pop() {
        desk.ready(number);
        desk.uses(number);
        starting.extend(desk.started());
    }
    let of_red = |desk: &Desk| {
        let members = desk.plan.members();
        members.filter(|(_, member)| *member.principal() == red()).count()
    };
    assert_eq!(of_red(&desk), 12);
    let error = desk.plan.obstacle(&key(&desk, &held[19]), &red(), Purpose::Call, desk.now);
    assert!(error.unwrap().to_string().contains("its principal has used its share"));
    crowd(&mut desk, &blue(), 1);
    assert_eq!(started_by(&mut desk), [blue()]);
}

fn key(desk: &Desk, caller: &Caller) -> crate::keeper::key::Key {
    let whose = caller.whose(Sharing::Session, 0);
    desk.plan.queued(desk.now).into_iter().find(|one| one.key.whose == whose).unwrap().key
}

#[test]
fn a_single_user_has_everything() {
    let all = Caps { starting: 8, instances: 8, ..Caps::default() };
    let mut desk = Desk::new(all, [("session", server(Sharing::Session))]);
    crowd(&mut desk, &Principal::default(), 8);
    assert_eq!(desk.started().len(), 8);
}

#[test]
fn a_full_queue_has_room_for_a_principal_that_waits_less() {
    let full = Caps { starting: 1, queue: 4, ..Caps::default() };
    let mut desk = Desk::new(full, [("session", server(Sharing::Session))]);
    let red_ones = crowd(&mut desk, &red(), 5);
    let late = desk.session_by(&red());
    assert!(matches!(desk.ask("session", &late), Err(AcquireError::QueueFull { .. })));
    let victims = [desk.session_by(&blue()), desk.session_by(&blue()), desk.session_by(&blue())];
    desk.queue("session", &victims[0]);
    assert!(desk.refused()[0].1.contains("the queue is full"));
    let last = desk.plan.queued(desk.now);
    assert!(!last.iter().any(|one| one.key.whose == red_ones[4].whose(Sharing::Session, 0)));
    desk.queue("session", &victims[1]);
    assert!(matches!(desk.ask("session", &victims[2]), Err(AcquireError::QueueFull { .. })));
}

#[test]
fn the_principal_that_has_most_makes_room() {
    let mut desk = Desk::new(caps(4), [("session", server(Sharing::Session))]);
    let of_blue = desk.session_by(&blue());
    let only = desk.instance("session", &of_blue);
    desk.pass(SECOND * 2);
    let callers: Vec<_> = (0..3).map(|_| desk.session_by(&red())).collect();
    let all: Vec<u64> = callers.iter().map(|caller| desk.instance("session", caller)).collect();
    desk.pass(SECOND * 2);
    let third = desk.session();
    desk.queue("session", &third);
    let ended: Vec<u64> = desk.ended().into_iter().map(|(number, ..)| number).collect();
    assert_eq!((ended, desk.state(only).is_some()), (vec![all[0]], true));
}

#[test]
fn a_named_principal_does_not_read_of_others() {
    let mut desk = Desk::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, other, local) =
        (desk.session_by(&red()), desk.session_by(&blue()), desk.session());
    let held = desk.instance("session", &holder);
    desk.uses(held);
    desk.queue("session", &other);
    desk.queue("session", &local);
    desk.pass(Caps::default().queue_timeout);
    let texts: Vec<String> = desk.refused().into_iter().map(|(_, text)| text).collect();
    assert!(texts[0].ends_with("held by 1 instances of others"), "{texts:?}");
    assert!(texts[1].contains("of red"), "{texts:?}");
}

#[test]
fn failures_are_forgotten_when_an_instance_lasts_or_its_server_goes() {
    let mut desk = Desk::new(caps(8), [("session", server(Sharing::Session))]);
    for principal in [red(), blue()] {
        let caller = desk.session_by(&principal);
        desk.queue("session", &caller);
        let number = desk.started()[0];
        desk.ends(number, Cause::Exited);
    }
    desk.pass(SECOND);
    let caller = desk.session_by(&red());
    let number = desk.instance("session", &caller);
    desk.pass(SECOND * 60);
    desk.ends(number, Cause::Idle);
    assert_eq!(desk.plan.failures.count(), 1);
    desk.change("session", |server| server.spec_mut().unwrap().args = vec!["other".into()]);
    assert_eq!(desk.plan.failures.count(), 0);
}

#[test]
fn only_so_many_failures_are_remembered() {
    let mut capped = server(Sharing::Session);
    capped.cap = Some(few(1));
    let mut desk = Desk::new(caps(8), [("session", capped)]);
    for number in 0..1000 {
        let caller = desk.session_by(&Principal::named(&number.to_string()));
        desk.queue("session", &caller);
        let number = desk.started()[0];
        desk.ends(number, Cause::Exited);
    }
    assert!(desk.plan.failures.count() <= 256);
}
