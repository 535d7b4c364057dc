//! What goes when an agent, a session, a call or the keeper is over.

use super::{Cause, Desk, Manner, Sharing, caps, server};

/// One instance of everybody, of an agent, of its session, and of another session.
fn house() -> (Desk, [u64; 4], [std::sync::Arc<super::Caller>; 4]) {
    let servers = [
        ("all", server(Sharing::All)),
        ("agent", server(Sharing::Agent)),
        ("session", server(Sharing::Session)),
    ];
    let mut desk = Desk::new(caps(8), servers);
    let agent = desk.agent("ann");
    let session = desk.session_of(&agent);
    let part = desk.part_of(&session);
    let other = desk.session();
    let numbers = [
        desk.instance("all", &part),
        desk.instance("agent", &part),
        desk.instance("session", &part),
        desk.instance("session", &other),
    ];
    (desk, numbers, [agent, session, part, other])
}

#[test]
fn what_is_closed_takes_its_own_with_it_and_nothing_else() {
    // The agent, its session, a part of the session, another session.
    let cases: [(usize, &[usize]); 4] = [(0, &[1, 2]), (1, &[2]), (2, &[]), (3, &[3])];
    for (closed, expected) in cases {
        let (mut desk, numbers, scopes) = house();
        desk.close(&scopes[closed]);
        let expected: Vec<_> = expected
            .iter()
            .map(|index| (numbers[*index], Cause::ScopeClosed, Manner::Now))
            .collect();
        assert_eq!(desk.ended(), expected, "scope {closed}");
    }
}

#[test]
fn a_part_of_an_agent_is_not_the_agent() {
    let (mut desk, _, [agent, ..]) = house();
    let part = desk.part_of(&agent);
    desk.close(&part);
    assert!(desk.ended().is_empty());
}

#[test]
fn who_is_closed_waits_no_longer_and_holds_no_lease() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let (session, other) = (desk.session(), desk.session());
    let part = desk.part_of(&session);
    let tickets = [desk.queue("all", &part), desk.queue("all", &other)];
    let number = desk.started()[0];
    desk.close(&session);
    assert_eq!(desk.refused(), [(tickets[0], "the session is over".into())]);
    desk.ready(number);
    assert_eq!(desk.granted(), [(tickets[1], number)]);
    desk.close(&other);
    assert!(desk.plan.member(number).unwrap().leases.is_empty());
    assert!(desk.ended().is_empty());
}

#[test]
fn a_call_takes_its_fresh_instance_with_it() {
    let mut desk = Desk::new(caps(8), [("call", server(Sharing::Call))]);
    let session = desk.session();
    let (part, other) = (desk.part_of(&session), desk.part_of(&session));
    let (own, others) = (desk.instance("call", &part), desk.instance("call", &other));
    desk.close(&part);
    assert_eq!(desk.ended(), [(own, Cause::ScopeClosed, Manner::Now)]);
    desk.close(&session);
    assert_eq!(desk.ended(), [(others, Cause::ScopeClosed, Manner::Now)]);
}

#[test]
fn the_end_of_the_keeper_is_the_end_of_all() {
    let (mut desk, numbers, [agent, ..]) = house();
    desk.plan.close(desk.now);
    desk.look();
    let ended: Vec<u64> = desk.ended().into_iter().map(|(number, ..)| number).collect();
    assert_eq!(ended, numbers);
    assert_eq!(desk.ask("all", &agent).unwrap_err().to_string(), "the keeper has ended");
    for number in numbers {
        desk.ends(number, Cause::KeeperClosed);
    }
    let books = desk.plan.books();
    assert_eq!((books.live, books.gone), (0, 4));
    assert!(desk.plan.is_empty());
}
