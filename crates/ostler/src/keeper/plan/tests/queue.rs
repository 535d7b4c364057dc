//! The queue: order, deadlines, backoff.

use std::sync::Arc;
use std::time::Duration;

use super::{AcquireError, Caps, Cause, Fixture, Manner, Sharing, caps, few, server};
use crate::keeper::cause::Fault;
use crate::outcome::{Outcome, Proof, Residue};

#[test]
fn slots_go_to_the_caller_that_has_waited_longest() {
    let mut fixture = Fixture::new(caps(1), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..3).map(|_| fixture.session()).collect();
    let mut last = fixture.instance("session", &callers[0]);
    fixture.uses(last);
    for caller in &callers[1..] {
        fixture.queue("session", caller);
    }
    for caller in &callers[1..] {
        fixture.ends(last, Cause::Operator);
        last = fixture.started()[0];
        assert_eq!(fixture.plan.member(last).unwrap().by.number, caller.number);
        fixture.ready(last);
        fixture.uses(last);
    }
}

#[test]
fn a_caller_whose_start_was_lost_keeps_its_place() {
    let one = Caps { starting: 1, ..Caps::default() };
    let mut fixture = Fixture::new(one, [("a", server(Sharing::All)), ("b", server(Sharing::All))]);
    let caller = fixture.session();
    fixture.queue("a", &caller);
    fixture.queue("b", &caller);
    assert_eq!(fixture.started().len(), 1);
    fixture.plan.stop(|_, key| &*key.server == "a", fixture.now);
    fixture.look();
    let again = fixture.started()[0];
    assert_eq!(&*fixture.plan.member(again).unwrap().key.server, "a");
}

#[test]
fn a_full_queue_names_the_holders() {
    let full = Caps { instances: 1, queue: 1, ..Caps::default() };
    let mut fixture = Fixture::new(full, [("session", server(Sharing::Session))]);
    let (holder, waiter, late) = (fixture.session(), fixture.session(), fixture.session());
    let held = fixture.instance("session", &holder);
    fixture.uses(held);
    fixture.queue("session", &waiter);
    let error = fixture.acquire("session", &late).unwrap_err();
    let AcquireError::QueueFull { waiting: 1, holders, .. } = error else { panic!("{error}") };
    let name = format!("session for session {0}, used by session {0}", holder.number);
    assert_eq!(holders.named, [name]);
}

#[test]
fn a_caller_that_times_out_is_told_the_obstacle() {
    let mut fixture = Fixture::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, waiter) = (fixture.session(), fixture.session());
    let held = fixture.instance("session", &holder);
    fixture.uses(held);
    let ticket = fixture.queue("session", &waiter);
    fixture.pass(Caps::default().queue_timeout);
    let refused = fixture.refused();
    assert_eq!(refused[0].0, ticket);
    assert!(refused[0].1.contains("the cap on instances is reached"), "{}", refused[0].1);
}

#[test]
fn a_failed_start_refuses_all_its_waiters() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let caller = fixture.session();
    let tickets = [fixture.queue("all", &caller), fixture.queue("all", &caller)];
    let number = fixture.started()[0];
    fixture.leaves(number, Cause::Unhealthy(Fault::Handshake("no".into())));
    let refused: Vec<u64> = fixture.refused().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(refused, tickets);
}

#[test]
fn a_failed_server_starts_again_after_its_backoff_and_not_before() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let caller = fixture.session();
    fixture.queue("all", &caller);
    let number = fixture.started()[0];
    fixture.ends(number, Cause::Exited);
    fixture.queue("all", &caller);
    assert!(fixture.started().is_empty());
    let wake = fixture.plan.next_wake().unwrap();
    let wait = wake - fixture.now;
    assert!(wait > Duration::from_millis(370) && wait < Duration::from_millis(630), "{wait:?}");
    fixture.pass(wait);
    assert_eq!(fixture.started().len(), 1);
}

#[test]
fn a_caller_is_refused_at_once_if_the_backoff_outlasts_its_deadline() {
    let short = Caps { queue_timeout: Duration::from_millis(300), ..Caps::default() };
    let mut fixture = Fixture::new(short, [("all", server(Sharing::All))]);
    let caller = fixture.session();
    fixture.queue("all", &caller);
    let number = fixture.started()[0];
    fixture.ends(number, Cause::Exited);
    let error = fixture.acquire("all", &caller).unwrap_err();
    assert!(matches!(error, AcquireError::BackingOff { failures: 1, .. }), "{error}");
}

#[test]
fn a_start_without_waiters_is_stopped() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let caller = fixture.session();
    let (one, two) = (fixture.queue("all", &caller), fixture.queue("all", &caller));
    let number = fixture.started()[0];
    fixture.plan.withdraw(one, fixture.now);
    fixture.look();
    assert!(fixture.ended().is_empty());
    fixture.plan.withdraw(two, fixture.now);
    fixture.look();
    assert_eq!(fixture.ended(), [(number, Cause::Abandoned, Manner::Now)]);
}

#[test]
fn an_exclusive_key_waits_for_the_proof_that_its_predecessor_is_gone() {
    for (sharing, at_once) in [(Sharing::All, true), (Sharing::Agent, false)] {
        let mut fixture = Fixture::new(caps(8), [("it", server(sharing))]);
        let ann = fixture.agent("ann");
        let old = fixture.instance("it", &ann);
        fixture.plan.stop(|_, key| &*key.server == "it", fixture.now);
        fixture.look();
        fixture.queue("it", &ann);
        assert_eq!(fixture.started().len(), usize::from(at_once), "{sharing}");
        fixture.ends(old, Cause::Operator);
        assert_eq!(fixture.started().len(), usize::from(!at_once), "{sharing}");
    }
}

#[test]
fn a_successor_waits_for_known_residue_only() {
    for (residue, blocks) in [(Residue::Processes(Vec::new()), true), (Residue::Unwatched, false)] {
        let mut fixture = Fixture::new(caps(8), [("agent", server(Sharing::Agent))]);
        let ann = fixture.agent("ann");
        let old = fixture.instance("agent", &ann);
        fixture.leaves(old, Cause::Operator);
        fixture.settles(old, Cause::Operator, &Outcome::Unverified(residue));
        assert_eq!(fixture.plan.books().unverified, 1);
        fixture.queue("agent", &ann);
        assert_eq!(fixture.started().is_empty(), blocks);
        fixture.settles(old, Cause::Operator, &Outcome::Gone(Proof::NoChild));
        assert_eq!(fixture.started().is_empty(), !blocks);
    }
}

#[test]
fn a_start_that_lacks_a_container_or_server_slot_does_not_hold_up_others() {
    let capped = |change: fn(&mut super::Server)| {
        let mut server = server(Sharing::Session);
        server.limits.idle = None;
        change(&mut server);
        server
    };
    let containers = capped(|server| server.containers = 1);
    let of_server = capped(|server| server.cap = Some(few(1)));
    for short in [containers, of_server] {
        let caps = Caps { containers: 1, ..Caps::default() };
        let mut fixture = Fixture::new(caps, [("short", short), ("other", server(Sharing::All))]);
        let (holder, waiter) = (fixture.session(), fixture.session());
        fixture.instance("short", &holder);
        fixture.queue("short", &waiter);
        assert!(fixture.started().is_empty());
        fixture.queue("other", &waiter);
        assert_eq!(fixture.started().len(), 1);
    }
}

#[test]
fn simultaneous_starts_are_limited() {
    let two = Caps { starting: 2, ..Caps::default() };
    let mut fixture = Fixture::new(two, [("session", server(Sharing::Session))]);
    let callers: Vec<Arc<_>> = (0..4).map(|_| fixture.session()).collect();
    for caller in &callers {
        fixture.queue("session", caller);
    }
    let first = fixture.started();
    assert_eq!(first.len(), 2);
    fixture.ready(first[0]);
    assert_eq!(fixture.started().len(), 1);
}
