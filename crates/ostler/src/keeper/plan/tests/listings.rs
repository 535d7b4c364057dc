//! Instances that are started to learn what a server offers.

use std::time::Duration;

use super::{
    AcquireError, Asked, Caps, Cause, Demand, Desk, Manner, Purpose, Sharing, caps, server,
};
use crate::keeper::cause::Fault;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn many(caps: Caps) -> Desk {
    Desk::new(caps, NAMES.map(|name| (name, server(Sharing::Session))))
}

#[test]
fn a_listing_is_finished_although_its_session_has_left_and_then_its_instance_ends() {
    for sharing in [Sharing::All, Sharing::Session, Sharing::Call] {
        let mut desk = Desk::new(caps(8), [("it", server(sharing))]);
        let session = desk.session();
        let ticket = desk.list("it", &session);
        let number = desk.started()[0];
        desk.close(&session);
        assert!(desk.refused().is_empty() && desk.ended().is_empty(), "{sharing}");
        desk.ready(number);
        assert_eq!(desk.granted(), [(ticket, number)], "{sharing}");
        desk.plan.release(number, ticket, desk.now);
        desk.look();
        assert_eq!(desk.ended(), [(number, Cause::Listed, Manner::Now)], "{sharing}");
    }
}

#[test]
fn a_session_that_is_still_there_keeps_what_was_listed_for_it() {
    let mut desk = Desk::new(caps(8), [("it", server(Sharing::Session))]);
    let session = desk.session();
    let ticket = desk.list("it", &session);
    let number = desk.started()[0];
    desk.ready(number);
    desk.plan.release(number, ticket, desk.now);
    desk.look();
    assert!(desk.ended().is_empty());
    // The first call does not pay for a second start.
    assert!(
        matches!(desk.ask("it", &session), Ok(Asked::Granted { number: n, .. }) if n == number)
    );
    desk.close(&session);
    assert_eq!(desk.ended(), [(number, Cause::ScopeClosed, Manner::Now)]);
}

#[test]
fn a_session_that_closes_after_the_listing_has_its_lease_still_ends_its_instance() {
    let mut desk = Desk::new(caps(8), [("it", server(Sharing::Session))]);
    let session = desk.session();
    let ticket = desk.list("it", &session);
    let number = desk.started()[0];
    desk.ready(number);
    desk.close(&session);
    assert!(desk.ended().is_empty());
    desk.plan.release(number, ticket, desk.now);
    desk.look();
    assert_eq!(desk.ended(), [(number, Cause::Listed, Manner::Now)]);
}

#[test]
fn another_session_of_the_agent_takes_over_what_is_being_listed() {
    let mut desk = Desk::new(caps(8), [("it", server(Sharing::Agent))]);
    let agent = desk.agent("ann");
    let (first, second) = (desk.session_of(&agent), desk.session_of(&agent));
    let ticket = desk.list("it", &first);
    let number = desk.started()[0];
    desk.ready(number);
    desk.close(&first);
    assert!(matches!(desk.ask("it", &second), Ok(Asked::Granted { number: n, .. }) if n == number));
    desk.plan.release(number, ticket, desk.now);
    desk.look();
    assert!(desk.ended().is_empty());
}

#[test]
fn a_listing_is_no_use_that_makes_a_call_start_another_instance() {
    let mut one_at_a_time = server(Sharing::Session);
    one_at_a_time.max_concurrency = Some(super::few(1));
    let mut desk = Desk::new(caps(8), [("it", one_at_a_time)]);
    let session = desk.session();
    desk.list("it", &session);
    let number = desk.started()[0];
    desk.ready(number);
    assert!(
        matches!(desk.ask("it", &session), Ok(Asked::Granted { number: n, .. }) if n == number)
    );
    assert!(desk.started().is_empty());
}

#[test]
fn callers_come_before_listings_and_listings_get_half_of_the_starts() {
    let mut desk = many(Caps { starting: 4, ..caps(64) });
    let session = desk.session();
    let listings: Vec<u64> = NAMES[..8].iter().map(|name| desk.list(name, &session)).collect();
    assert_eq!(desk.started().len(), 2);
    desk.queue("l", &session);
    let called = desk.started();
    assert_eq!(called.len(), 1, "a call is started beside listings that never end");
    desk.queue("k", &session);
    desk.queue("j", &session);
    assert_eq!(desk.started().len(), 1);
    // The next place goes to the caller that waits, and not to a listing that has waited longer.
    desk.ends(called[0], Cause::Unhealthy(Fault::OutputClosed));
    let next = desk.started();
    let key = desk.plan.member(next[0]).unwrap().key.server.to_string();
    assert_eq!((next.len(), &*key), (1, "j"));
    assert_eq!(listings.len(), 8);
}

#[test]
fn one_start_at_a_time_is_enough_for_listings_if_there_is_only_one() {
    let mut desk = many(Caps { starting: 1, ..caps(64) });
    let session = desk.session();
    desk.list("a", &session);
    assert_eq!(desk.started().len(), 1);
}

#[test]
fn listings_never_take_the_last_quarter_of_the_instances() {
    let mut desk = many(Caps { starting: 64, ..caps(8) });
    let session = desk.session();
    for name in NAMES {
        desk.list(name, &session);
    }
    assert_eq!(desk.started().len(), 6);
    desk.queue("k", &session);
    desk.queue("l", &session);
    assert_eq!(desk.started().len(), 2);
}

#[test]
fn a_listing_waits_without_a_deadline_and_a_caller_takes_its_place_in_a_full_queue() {
    let mut desk = many(Caps { starting: 1, queue: 2, ..caps(64) });
    let session = desk.session();
    let first = desk.list("a", &session);
    let second = desk.list("b", &session);
    let third = desk.list("c", &session);
    desk.pass(Duration::from_hours(1));
    assert!(desk.refused().is_empty());
    desk.queue("d", &session);
    assert!(matches!(&desk.refused()[..], [(ticket, _)] if *ticket == third));
    assert!(first < second);
}

#[test]
fn a_listing_does_not_wait_for_a_server_that_backs_off() {
    let mut desk = many(caps(8));
    let session = desk.session();
    desk.list("a", &session);
    let number = desk.started()[0];
    desk.ends(number, Cause::Unhealthy(Fault::OutputClosed));
    let again = desk.ask_for(Purpose::Listing, "a", &session, "");
    assert!(matches!(again, Err(AcquireError::BackingOff { .. })), "{again:?}");
    assert_eq!(desk.state(number), None);
}

/// The host learns a part of the profile only after the server has been listed.
#[test]
fn the_first_caller_that_knows_the_whole_profile_gets_what_was_started_without_it() {
    let settled =
        |profile: &str| Demand { unsettled: Some("some".into()), ..Demand::profile(profile) };
    for is_ready in [true, false] {
        let mut desk = Desk::new(caps(8), [("it", server(Sharing::Agent))]);
        let agent = desk.agent("a");
        let session = desk.session_of(&agent);
        let listed = desk.ask_for(Purpose::Listing, "it", &session, "some");
        let Ok(Asked::Waiting { ticket: listing }) = listed else { panic!("{listed:?}") };
        let number = desk.started()[0];
        if is_ready {
            desk.ready(number);
        }
        let asked = desk.ask_demanding(&settled("some, a"), Purpose::Call, "it", &session);
        if is_ready {
            assert!(matches!(asked, Ok(Asked::Granted { number: n, .. }) if n == number));
            assert_eq!(desk.granted(), [(listing, number)]);
        } else {
            let Ok(Asked::Waiting { ticket }) = asked else { panic!("{asked:?}") };
            desk.ready(number);
            let mut granted = desk.granted();
            granted.sort_unstable();
            assert_eq!(granted, [(listing, number), (ticket, number)]);
        }
        assert!(desk.started().is_empty(), "nothing is started twice");
        // A client with other roots gets an instance of its own.
        let asked = desk.ask_demanding(&settled("some, b"), Purpose::Call, "it", &session);
        assert!(matches!(asked, Ok(Asked::Waiting { .. })), "{asked:?}");
        assert_eq!(desk.started().len(), 1);
    }
}

#[test]
fn who_is_alone_shares_nothing_of_its_agent_and_takes_its_instance_along() {
    let mut desk = Desk::new(caps(8), [("it", server(Sharing::Agent))]);
    let agent = desk.agent("a");
    let sessions = [desk.session_of(&agent), desk.session_of(&agent)];
    let alone = Demand { is_alone: true, ..Demand::default() };
    for session in &sessions {
        let asked = desk.ask_demanding(&alone, Purpose::Call, "it", session);
        assert!(matches!(asked, Ok(Asked::Waiting { .. })), "{asked:?}");
    }
    let started = desk.started();
    assert_eq!(started.len(), 2);
    for number in &started {
        desk.ready(*number);
    }
    desk.close(&sessions[0]);
    assert_eq!(desk.ended(), [(started[0], Cause::ScopeClosed, Manner::Now)]);
}
