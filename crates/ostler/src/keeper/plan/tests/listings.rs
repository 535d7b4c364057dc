//! Listings.

use std::time::Duration;

use super::{
    AcquireDecision, AcquireError, Caps, Cause, Demand, Fixture, Manner, Purpose, Sharing, caps,
    server,
};
use crate::keeper::cause::Fault;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn many(caps: Caps) -> Fixture {
    Fixture::new(caps, NAMES.map(|name| (name, server(Sharing::Session))))
}

#[test]
fn a_listing_is_finished_although_its_session_has_left_and_then_its_instance_ends() {
    for sharing in [Sharing::All, Sharing::Session, Sharing::Call] {
        let mut fixture = Fixture::new(caps(8), [("it", server(sharing))]);
        let session = fixture.session();
        let ticket = fixture.list("it", &session);
        let number = fixture.started()[0];
        fixture.close(&session);
        assert!(fixture.refused().is_empty() && fixture.ended().is_empty(), "{sharing}");
        fixture.ready(number);
        assert_eq!(fixture.granted(), [(ticket, number)], "{sharing}");
        fixture.plan.release(number, ticket, fixture.now);
        fixture.look();
        assert_eq!(fixture.ended(), [(number, Cause::Listed, Manner::Now)], "{sharing}");
    }
}

#[test]
fn an_open_session_keeps_the_instance_that_was_listed_for_it() {
    let mut fixture = Fixture::new(caps(8), [("it", server(Sharing::Session))]);
    let session = fixture.session();
    let ticket = fixture.list("it", &session);
    let number = fixture.started()[0];
    fixture.ready(number);
    fixture.plan.release(number, ticket, fixture.now);
    fixture.look();
    assert!(fixture.ended().is_empty());
    // The first call needs no second start.
    assert!(
        matches!(fixture.acquire("it", &session), Ok(AcquireDecision::Granted { number: n, .. }) if n == number)
    );
    fixture.close(&session);
    assert_eq!(fixture.ended(), [(number, Cause::ScopeClosed, Manner::Now)]);
}

#[test]
fn a_session_that_closes_after_the_listing_has_its_lease_still_ends_its_instance() {
    let mut fixture = Fixture::new(caps(8), [("it", server(Sharing::Session))]);
    let session = fixture.session();
    let ticket = fixture.list("it", &session);
    let number = fixture.started()[0];
    fixture.ready(number);
    fixture.close(&session);
    assert!(fixture.ended().is_empty());
    fixture.plan.release(number, ticket, fixture.now);
    fixture.look();
    assert_eq!(fixture.ended(), [(number, Cause::Listed, Manner::Now)]);
}

#[test]
fn another_session_of_the_agent_takes_over_an_instance_that_is_being_listed() {
    let mut fixture = Fixture::new(caps(8), [("it", server(Sharing::Agent))]);
    let agent = fixture.agent("ann");
    let (first, second) = (fixture.session_of(&agent), fixture.session_of(&agent));
    let ticket = fixture.list("it", &first);
    let number = fixture.started()[0];
    fixture.ready(number);
    fixture.close(&first);
    assert!(
        matches!(fixture.acquire("it", &second), Ok(AcquireDecision::Granted { number: n, .. }) if n == number)
    );
    fixture.plan.release(number, ticket, fixture.now);
    fixture.look();
    assert!(fixture.ended().is_empty());
}

#[test]
fn a_listing_does_not_make_its_instance_busy() {
    let mut one_at_a_time = server(Sharing::Session);
    one_at_a_time.max_concurrency = Some(super::few(1));
    let mut fixture = Fixture::new(caps(8), [("it", one_at_a_time)]);
    let session = fixture.session();
    fixture.list("it", &session);
    let number = fixture.started()[0];
    fixture.ready(number);
    assert!(
        matches!(fixture.acquire("it", &session), Ok(AcquireDecision::Granted { number: n, .. }) if n == number)
    );
    assert!(fixture.started().is_empty());
}

#[test]
fn callers_come_before_listings_and_listings_get_half_of_the_starts() {
    let mut fixture = many(Caps { starting: 4, ..caps(64) });
    let session = fixture.session();
    let listings: Vec<u64> = NAMES[..8].iter().map(|name| fixture.list(name, &session)).collect();
    assert_eq!(fixture.started().len(), 2);
    fixture.queue("l", &session);
    let called = fixture.started();
    assert_eq!(called.len(), 1, "a call is started beside listings that never end");
    fixture.queue("k", &session);
    fixture.queue("j", &session);
    assert_eq!(fixture.started().len(), 1);
    // The next slot goes to the waiting caller, not to a listing that has waited longer.
    fixture.ends(called[0], Cause::Unhealthy(Fault::OutputClosed));
    let next = fixture.started();
    let key = fixture.plan.member(next[0]).unwrap().key.server.to_string();
    assert_eq!((next.len(), &*key), (1, "j"));
    assert_eq!(listings.len(), 8);
}

#[test]
fn listings_may_use_the_only_start_slot() {
    let mut fixture = many(Caps { starting: 1, ..caps(64) });
    let session = fixture.session();
    fixture.list("a", &session);
    assert_eq!(fixture.started().len(), 1);
}

#[test]
fn listings_never_take_the_last_quarter_of_the_instances() {
    let mut fixture = many(Caps { starting: 64, ..caps(8) });
    let session = fixture.session();
    for name in NAMES {
        fixture.list(name, &session);
    }
    assert_eq!(fixture.started().len(), 6);
    fixture.queue("k", &session);
    fixture.queue("l", &session);
    assert_eq!(fixture.started().len(), 2);
}

#[test]
fn a_listing_waits_without_a_deadline_and_a_caller_takes_its_place_in_a_full_queue() {
    let mut fixture = many(Caps { starting: 1, queue: 2, ..caps(64) });
    let session = fixture.session();
    let first = fixture.list("a", &session);
    let second = fixture.list("b", &session);
    let third = fixture.list("c", &session);
    fixture.pass(Duration::from_hours(1));
    assert!(fixture.refused().is_empty());
    fixture.queue("d", &session);
    assert!(matches!(&fixture.refused()[..], [(ticket, _)] if *ticket == third));
    assert!(first < second);
}

#[test]
fn a_listing_does_not_wait_for_a_server_that_backs_off() {
    let mut fixture = many(caps(8));
    let session = fixture.session();
    fixture.list("a", &session);
    let number = fixture.started()[0];
    fixture.ends(number, Cause::Unhealthy(Fault::OutputClosed));
    let again = fixture.acquire_for(Purpose::Listing, "a", &session, "");
    assert!(matches!(again, Err(AcquireError::BackingOff { .. })), "{again:?}");
    assert_eq!(fixture.state(number), None);
}

/// The host may know a part of the profile only after the listing.
#[test]
fn the_first_caller_with_the_complete_profile_gets_the_listed_instance() {
    let settled =
        |profile: &str| Demand { unsettled: Some("some".into()), ..Demand::profile(profile) };
    for is_ready in [true, false] {
        let mut fixture = Fixture::new(caps(8), [("it", server(Sharing::Agent))]);
        let agent = fixture.agent("a");
        let session = fixture.session_of(&agent);
        let listed = fixture.acquire_for(Purpose::Listing, "it", &session, "some");
        let Ok(AcquireDecision::Queued { ticket: listing }) = listed else { panic!("{listed:?}") };
        let number = fixture.started()[0];
        if is_ready {
            fixture.ready(number);
        }
        let decision =
            fixture.acquire_demanding(&settled("some, a"), Purpose::Call, "it", &session);
        if is_ready {
            assert!(
                matches!(decision, Ok(AcquireDecision::Granted { number: n, .. }) if n == number)
            );
            assert_eq!(fixture.granted(), [(listing, number)]);
        } else {
            let Ok(AcquireDecision::Queued { ticket }) = decision else { panic!("{decision:?}") };
            fixture.ready(number);
            let mut granted = fixture.granted();
            granted.sort_unstable();
            assert_eq!(granted, [(listing, number), (ticket, number)]);
        }
        assert!(fixture.started().is_empty(), "nothing is started twice");
        // A client with other roots gets an instance of its own.
        let decision =
            fixture.acquire_demanding(&settled("some, b"), Purpose::Call, "it", &session);
        assert!(matches!(decision, Ok(AcquireDecision::Queued { .. })), "{decision:?}");
        assert_eq!(fixture.started().len(), 1);
    }
}

#[test]
fn a_session_that_demands_to_be_alone_has_its_own_instance_and_stops_it_on_close() {
    let mut fixture = Fixture::new(caps(8), [("it", server(Sharing::Agent))]);
    let agent = fixture.agent("a");
    let sessions = [fixture.session_of(&agent), fixture.session_of(&agent)];
    let alone = Demand { is_alone: true, ..Demand::default() };
    for session in &sessions {
        let decision = fixture.acquire_demanding(&alone, Purpose::Call, "it", session);
        assert!(matches!(decision, Ok(AcquireDecision::Queued { .. })), "{decision:?}");
    }
    let started = fixture.started();
    assert_eq!(started.len(), 2);
    for number in &started {
        fixture.ready(*number);
    }
    fixture.close(&sessions[0]);
    assert_eq!(fixture.ended(), [(started[0], Cause::ScopeClosed, Manner::Now)]);
}
