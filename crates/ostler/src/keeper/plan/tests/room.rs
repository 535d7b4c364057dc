//! Eviction of idle instances.

use std::time::Duration;

use super::{Cause, Fixture, Manner, Sharing, caps, few, server};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_least_recently_used_instance_is_evicted_first() {
    let mut fixture = Fixture::new(caps(2), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..3).map(|_| fixture.session()).collect();
    let first = fixture.instance("session", &callers[0]);
    let second = fixture.instance("session", &callers[1]);
    fixture.pass(SECOND);
    // The first was used after the second.
    fixture.uses(second);
    fixture.ends_use(second);
    fixture.pass(SECOND);
    fixture.uses(first);
    fixture.ends_use(first);
    fixture.queue("session", &callers[2]);
    assert_eq!(fixture.ended(), [(second, Cause::Evicted, Manner::Now)]);
    fixture.ends(second, Cause::Evicted);
    assert_eq!(fixture.started().len(), 1);
}

#[test]
fn one_waiter_evicts_one_instance() {
    let mut fixture = Fixture::new(caps(2), [("session", server(Sharing::Session))]);
    let callers: Vec<_> = (0..4).map(|_| fixture.session()).collect();
    for caller in &callers[..2] {
        fixture.instance("session", caller);
    }
    fixture.pass(SECOND);
    fixture.queue("session", &callers[2]);
    assert_eq!(fixture.ended().len(), 1);
    fixture.queue("session", &callers[3]);
    assert_eq!(fixture.ended().len(), 1);
}

#[test]
fn instances_in_use_or_without_an_idle_limit_are_not_evicted() {
    let mut never = server(Sharing::Session);
    never.limits.idle = None;
    let mut fixture = Fixture::new(caps(2), [("busy", server(Sharing::Session)), ("never", never)]);
    let (holder, waiter) = (fixture.session(), fixture.session());
    let busy = fixture.instance("busy", &holder);
    fixture.instance("never", &holder);
    fixture.uses(busy);
    fixture.pass(SECOND);
    fixture.queue("busy", &waiter);
    assert!(fixture.ended().is_empty());
    fixture.ends_use(busy);
    fixture.pass(Duration::ZERO);
    assert_eq!(fixture.ended(), [(busy, Cause::Evicted, Manner::Now)]);
}

#[test]
fn a_new_lease_protects_its_instance_for_a_while() {
    let mut fixture = Fixture::new(caps(1), [("session", server(Sharing::Session))]);
    let (holder, waiter) = (fixture.session(), fixture.session());
    let number = fixture.instance("session", &holder);
    fixture.queue("session", &waiter);
    assert!(fixture.ended().is_empty());
    let wake = fixture.plan.next_wake().unwrap();
    fixture.pass(wake - fixture.now);
    assert_eq!(fixture.ended(), [(number, Cause::Evicted, Manner::Now)]);
}

#[test]
fn a_server_cap_evicts_an_idle_instance_of_that_server() {
    let mut capped = server(Sharing::Session);
    capped.cap = Some(few(1));
    let mut fixture = Fixture::new(caps(8), [("capped", capped), ("other", server(Sharing::All))]);
    let (holder, waiter) = (fixture.session(), fixture.session());
    fixture.instance("other", &holder);
    let held = fixture.instance("capped", &holder);
    fixture.pass(SECOND);
    fixture.queue("capped", &waiter);
    assert_eq!(fixture.ended(), [(held, Cause::Evicted, Manner::Now)]);
}

#[test]
fn servers_with_one_name_share_one_cap() {
    let variant = || {
        let mut server = server(Sharing::Call);
        server.cap = Some(few(1));
        server.spec_mut().unwrap().name = "one".into();
        server
    };
    let mut fixture = Fixture::new(caps(8), [("one#1", variant()), ("one#2", variant())]);
    let (first, second) = (fixture.session(), fixture.session());
    let held = fixture.instance("one#1", &first);
    fixture.uses(held);
    fixture.queue("one#2", &second);
    assert_eq!(fixture.started(), [0; 0]);
    fixture.ends(held, Cause::Returned);
    assert_eq!(fixture.started().len(), 1);
}
