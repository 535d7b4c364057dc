//! Who waits, for what, and for how long.

use std::sync::Arc;
use std::time::Duration;

use super::{AcquireError, Caps, Cause, Desk, Manner, Sharing, caps, few, server};
use crate::keeper::cause::Fault;
use crate::outcome::{Outcome, Proof, Residue};

#[test]
fn places_go_to_who_has_waited_longest() {
    let mut desk = Desk::new(caps(1), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..3).map(|_| desk.session()).collect();
    let mut last = desk.instance("session", &callers[0]);
    desk.uses(last);
    for caller in &callers[1..] {
        desk.queue("session", caller);
    }
    for caller in &callers[1..] {
        desk.ends(last, Cause::Operator);
        last = desk.started()[0];
        assert_eq!(desk.plan.member(last).unwrap().by.number, caller.number);
        desk.ready(last);
        desk.uses(last);
    }
}

#[test]
fn who_lost_a_start_keeps_the_place_in_line() {
    let one = Caps { starting: 1, ..Caps::default() };
    let mut desk = Desk::new(one, [("a", server(Sharing::All)), ("b", server(Sharing::All))]);
    let caller = desk.session();
    desk.queue("a", &caller);
    desk.queue("b", &caller);
    assert_eq!(desk.started().len(), 1);
    desk.plan.stop(|_, key| &*key.server == "a", desk.now);
    desk.look();
    let again = desk.started()[0];
    assert_eq!(&*desk.plan.member(again).unwrap().key.server, "a");
}

#[test]
fn a_full_queue_names_who_holds_what_everybody_waits_for() {
    let full = Caps { instances: 1, queue: 1, ..Caps::default() };
    let mut desk = Desk::new(full, [("session", server(Sharing::Session))]);
    let (holder, waiter, late) = (desk.session(), desk.session(), desk.session());
    let held = desk.instance("session", &holder);
    desk.uses(held);
    desk.queue("session", &waiter);
    let error = desk.ask("session", &late).unwrap_err();
    let AcquireError::QueueFull { waiting: 1, holders, .. } = error else { panic!("{error}") };
    let name = format!("session for session {0}, used by session {0}", holder.number);
    assert_eq!(holders.named, [name]);
}

#[test]
fn who_waits_too_long_hears_what_was_in_the_way() {
    let mut desk = Desk::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, waiter) = (desk.session(), desk.session());
    let held = desk.instance("session", &holder);
    desk.uses(held);
    let ticket = desk.queue("session", &waiter);
    desk.pass(Caps::default().queue_timeout);
    let refused = desk.refused();
    assert_eq!(refused[0].0, ticket);
    assert!(refused[0].1.contains("the cap on instances is reached"), "{}", refused[0].1);
}

#[test]
fn everybody_who_waits_for_a_start_hears_that_it_failed() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let caller = desk.session();
    let tickets = [desk.queue("all", &caller), desk.queue("all", &caller)];
    let number = desk.started()[0];
    desk.leaves(number, Cause::Unhealthy(Fault::Handshake("no".into())));
    let refused: Vec<u64> = desk.refused().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(refused, tickets);
}

#[test]
fn what_failed_is_tried_again_after_its_time_and_not_before() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let caller = desk.session();
    desk.queue("all", &caller);
    let number = desk.started()[0];
    desk.ends(number, Cause::Exited);
    desk.queue("all", &caller);
    assert!(desk.started().is_empty());
    let wake = desk.plan.next_wake().unwrap();
    let wait = wake - desk.now;
    assert!(wait > Duration::from_millis(370) && wait < Duration::from_millis(630), "{wait:?}");
    desk.pass(wait);
    assert_eq!(desk.started().len(), 1);
}

#[test]
fn who_could_not_wait_for_the_next_try_is_refused_at_once() {
    let short = Caps { queue_timeout: Duration::from_millis(300), ..Caps::default() };
    let mut desk = Desk::new(short, [("all", server(Sharing::All))]);
    let caller = desk.session();
    desk.queue("all", &caller);
    let number = desk.started()[0];
    desk.ends(number, Cause::Exited);
    let error = desk.ask("all", &caller).unwrap_err();
    assert!(matches!(error, AcquireError::BackingOff { failures: 1, .. }), "{error}");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_started() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let caller = desk.session();
    let (one, two) = (desk.queue("all", &caller), desk.queue("all", &caller));
    let number = desk.started()[0];
    desk.plan.withdraw(one, desk.now);
    desk.look();
    assert!(desk.ended().is_empty());
    desk.plan.withdraw(two, desk.now);
    desk.look();
    assert_eq!(desk.ended(), [(number, Cause::Abandoned, Manner::Now)]);
}

#[test]
fn what_is_exclusive_waits_for_the_proof_that_its_predecessor_is_gone() {
    for (sharing, at_once) in [(Sharing::All, true), (Sharing::Agent, false)] {
        let mut desk = Desk::new(caps(8), [("it", server(sharing))]);
        let ann = desk.agent("ann");
        let old = desk.instance("it", &ann);
        desk.plan.stop(|_, key| &*key.server == "it", desk.now);
        desk.look();
        desk.queue("it", &ann);
        assert_eq!(desk.started().len(), usize::from(at_once), "{sharing}");
        desk.ends(old, Cause::Operator);
        assert_eq!(desk.started().len(), usize::from(!at_once), "{sharing}");
    }
}

#[test]
fn residue_that_is_seen_is_waited_for_and_no_other() {
    for (residue, blocks) in [(Residue::Processes(Vec::new()), true), (Residue::Unwatched, false)] {
        let mut desk = Desk::new(caps(8), [("agent", server(Sharing::Agent))]);
        let ann = desk.agent("ann");
        let old = desk.instance("agent", &ann);
        desk.leaves(old, Cause::Operator);
        desk.settles(old, Cause::Operator, &Outcome::Unverified(residue));
        assert_eq!(desk.plan.books().unverified, 1);
        desk.queue("agent", &ann);
        assert_eq!(desk.started().is_empty(), blocks);
        desk.settles(old, Cause::Operator, &Outcome::Gone(Proof::NoChild));
        assert_eq!(desk.started().is_empty(), !blocks);
    }
}

#[test]
fn who_waits_for_a_container_or_for_a_server_lets_others_pass() {
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
        let mut desk = Desk::new(caps, [("short", short), ("other", server(Sharing::All))]);
        let (holder, waiter) = (desk.session(), desk.session());
        desk.instance("short", &holder);
        desk.queue("short", &waiter);
        assert!(desk.started().is_empty());
        desk.queue("other", &waiter);
        assert_eq!(desk.started().len(), 1);
    }
}

#[test]
fn only_so_many_are_started_at_a_time() {
    let two = Caps { starting: 2, ..Caps::default() };
    let mut desk = Desk::new(two, [("session", server(Sharing::Session))]);
    let callers: Vec<Arc<_>> = (0..4).map(|_| desk.session()).collect();
    for caller in &callers {
        desk.queue("session", caller);
    }
    let first = desk.started();
    assert_eq!(first.len(), 2);
    desk.ready(first[0]);
    assert_eq!(desk.started().len(), 1);
}
