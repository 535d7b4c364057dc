//! Closing agents, sessions, calls and the keeper.

use super::{Cause, Fixture, Manner, Sharing, caps, server};

/// One instance shared by all, one of an agent, one of its session, and one of another session.
fn scopes() -> (Fixture, [u64; 4], [std::sync::Arc<super::Caller>; 4]) {
    let servers = [
        ("all", server(Sharing::All)),
        ("agent", server(Sharing::Agent)),
        ("session", server(Sharing::Session)),
    ];
    let mut fixture = Fixture::new(caps(8), servers);
    let agent = fixture.agent("ann");
    let session = fixture.session_of(&agent);
    let part = fixture.part_of(&session);
    let other = fixture.session();
    let numbers = [
        fixture.instance("all", &part),
        fixture.instance("agent", &part),
        fixture.instance("session", &part),
        fixture.instance("session", &other),
    ];
    (fixture, numbers, [agent, session, part, other])
}

#[test]
fn a_closed_scope_stops_its_own_instances_and_no_others() {
    // The agent, its session, a part of the session, another session.
    let cases: [(usize, &[usize]); 4] = [(0, &[1, 2]), (1, &[2]), (2, &[]), (3, &[3])];
    for (closed, expected) in cases {
        let (mut fixture, numbers, scopes) = scopes();
        fixture.close(&scopes[closed]);
        let expected: Vec<_> = expected
            .iter()
            .map(|index| (numbers[*index], Cause::ScopeClosed, Manner::Now))
            .collect();
        assert_eq!(fixture.ended(), expected, "scope {closed}");
    }
}

#[test]
fn closing_a_part_of_an_agent_does_not_close_the_agent() {
    let (mut fixture, _, [agent, ..]) = scopes();
    let part = fixture.part_of(&agent);
    fixture.close(&part);
    assert!(fixture.ended().is_empty());
}

#[test]
fn a_closed_scope_has_no_waiters_and_no_leases() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let (session, other) = (fixture.session(), fixture.session());
    let part = fixture.part_of(&session);
    let tickets = [fixture.queue("all", &part), fixture.queue("all", &other)];
    let number = fixture.started()[0];
    fixture.close(&session);
    assert_eq!(fixture.refused(), [(tickets[0], "the session is over".into())]);
    fixture.ready(number);
    assert_eq!(fixture.granted(), [(tickets[1], number)]);
    fixture.close(&other);
    assert!(fixture.plan.member(number).unwrap().leases.is_empty());
    assert!(fixture.ended().is_empty());
}

#[test]
fn a_closed_call_stops_its_own_instance() {
    let mut fixture = Fixture::new(caps(8), [("call", server(Sharing::Call))]);
    let session = fixture.session();
    let (part, other) = (fixture.part_of(&session), fixture.part_of(&session));
    let (own, others) = (fixture.instance("call", &part), fixture.instance("call", &other));
    fixture.close(&part);
    assert_eq!(fixture.ended(), [(own, Cause::ScopeClosed, Manner::Now)]);
    fixture.close(&session);
    assert_eq!(fixture.ended(), [(others, Cause::ScopeClosed, Manner::Now)]);
}

#[test]
fn closing_the_keeper_stops_everything() {
    let (mut fixture, numbers, [agent, ..]) = scopes();
    fixture.plan.close(fixture.now);
    fixture.look();
    let ended: Vec<u64> = fixture.ended().into_iter().map(|(number, ..)| number).collect();
    assert_eq!(ended, numbers);
    assert_eq!(fixture.acquire("all", &agent).unwrap_err().to_string(), "the keeper has ended");
    for number in numbers {
        fixture.ends(number, Cause::KeeperClosed);
    }
    let books = fixture.plan.books();
    assert_eq!((books.live, books.gone), (0, 4));
    assert!(fixture.plan.is_empty());
}
