//! Who has to go so that others have a place.

use std::time::Duration;

use super::{Cause, Desk, Manner, Sharing, caps, few, server};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_was_idle_for_the_longest_time_goes_first() {
    let mut desk = Desk::new(caps(2), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..3).map(|_| desk.session()).collect();
    let first = desk.instance("session", &callers[0]);
    let second = desk.instance("session", &callers[1]);
    desk.pass(SECOND);
    // The first was used after the second.
    desk.uses(second);
    desk.ends_use(second);
    desk.pass(SECOND);
    desk.uses(first);
    desk.ends_use(first);
    desk.queue("session", &callers[2]);
    assert_eq!(desk.ended(), [(second, Cause::Evicted, Manner::Now)]);
    desk.ends(second, Cause::Evicted);
    assert_eq!(desk.started().len(), 1);
}

#[test]
fn one_goes_for_one_who_waits() {
    let mut desk = Desk::new(caps(2), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..4).map(|_| desk.session()).collect();
    for caller in &callers[..2] {
        desk.instance("session", caller);
    }
    desk.pass(SECOND);
    desk.queue("session", &callers[2]);
    assert_eq!(desk.ended().len(), 1);
    desk.queue("session", &callers[3]);
    assert_eq!(desk.ended().len(), 1);
}

#[test]
fn what_is_in_use_or_never_idle_stays() {
    let mut never = server(Sharing::Session);
    never.limits.idle = None;
    let mut desk = Desk::new(caps(2), [("busy", server(Sharing::Session)), ("never", never)]);
    let (holder, waiter) = (desk.session(), desk.session());
    let busy = desk.instance("busy", &holder);
    desk.instance("never", &holder);
    desk.uses(busy);
    desk.pass(SECOND);
    desk.queue("busy", &waiter);
    assert!(desk.ended().is_empty());
    desk.ends_use(busy);
    desk.pass(Duration::ZERO);
    assert_eq!(desk.ended(), [(busy, Cause::Evicted, Manner::Now)]);
}

#[test]
fn who_has_waited_for_an_instance_has_some_time_to_use_it() {
    let mut desk = Desk::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, waiter) = (desk.session(), desk.session());
    let number = desk.instance("session", &holder);
    desk.queue("session", &waiter);
    assert!(desk.ended().is_empty());
    let wake = desk.plan.next_wake().unwrap();
    desk.pass(wake - desk.now);
    assert_eq!(desk.ended(), [(number, Cause::Evicted, Manner::Now)]);
}

#[test]
fn an_idle_one_of_the_server_goes_for_its_cap() {
    let mut capped = server(Sharing::Session);
    capped.cap = Some(few(1));
    let mut desk = Desk::new(caps(8), [("capped", capped), ("other", server(Sharing::All))]);
    let (holder, waiter) = (desk.session(), desk.session());
    desk.instance("other", &holder);
    let held = desk.instance("capped", &holder);
    desk.pass(SECOND);
    desk.queue("capped", &waiter);
    assert_eq!(desk.ended(), [(held, Cause::Evicted, Manner::Now)]);
}

#[test]
fn servers_of_one_name_have_one_cap() {
    let variant = || {
        let mut server = server(Sharing::Call);
        server.cap = Some(few(1));
        server.spec_mut().unwrap().name = "one".into();
        server
    };
    let mut desk = Desk::new(caps(8), [("one#1", variant()), ("one#2", variant())]);
    let (first, second) = (desk.session(), desk.session());
    let held = desk.instance("one#1", &first);
    desk.uses(held);
    desk.queue("one#2", &second);
    assert_eq!(desk.started(), [0; 0]);
    desk.ends(held, Cause::Returned);
    assert_eq!(desk.started().len(), 1);
}
