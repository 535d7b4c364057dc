//! Who shares an instance, and when there is one more.

use super::{Asked, Cause, Desk, Manner, Sharing, State, caps, few, server};

#[test]
fn all_who_ask_first_get_the_same_one_in_their_order() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let callers: Vec<_> = (0..5).map(|_| desk.session()).collect();
    let tickets: Vec<u64> = callers.iter().map(|caller| desk.queue("all", caller)).collect();
    let started = desk.started();
    assert_eq!(started.len(), 1);
    desk.ready(started[0]);
    let expected: Vec<_> = tickets.iter().map(|ticket| (*ticket, started[0])).collect();
    assert_eq!(desk.granted(), expected);
}

#[test]
fn a_key_grows_only_when_all_of_it_are_busy_and_only_up_to_its_limit() {
    let mut all = server(Sharing::All);
    (all.max_concurrency, all.max_instances) = (Some(few(1)), few(2));
    let mut desk = Desk::new(caps(8), [("all", all)]);
    let caller = desk.session();
    let first = desk.instance("all", &caller);
    assert!(matches!(desk.ask("all", &caller), Ok(Asked::Granted { .. })));
    desk.uses(first);
    let second = desk.instance("all", &caller);
    assert_ne!(first, second);
    desk.uses(second);
    // A third may not be, so that it shares.
    assert!(matches!(desk.ask("all", &caller), Ok(Asked::Granted { .. })));
    assert!(desk.started().is_empty());
}

#[test]
fn who_can_not_have_one_more_shares_a_busy_one() {
    let mut all = server(Sharing::All);
    all.max_concurrency = Some(few(1));
    let mut desk = Desk::new(caps(1), [("all", all)]);
    let caller = desk.session();
    let only = desk.instance("all", &caller);
    desk.uses(only);
    let asked = desk.ask("all", &caller).unwrap();
    assert!(matches!(asked, Asked::Granted { number, .. } if number == only));
}

#[test]
fn agents_and_sessions_have_their_own() {
    for (sharing, expected) in
        [(Sharing::All, 1), (Sharing::Agent, 2), (Sharing::Session, 3), (Sharing::Call, 4)]
    {
        let mut desk = Desk::new(caps(8), [("it", server(sharing))]);
        let ann = desk.agent("ann");
        let (one, two, alone) = (desk.session_of(&ann), desk.session_of(&ann), desk.session());
        for caller in [&one, &one, &two, &alone] {
            desk.queue("it", caller);
        }
        assert_eq!(desk.started().len(), expected, "{sharing}");
    }
}

#[test]
fn a_fresh_one_for_each_call_ends_with_its_lease() {
    let mut desk = Desk::new(caps(8), [("call", server(Sharing::Call))]);
    let caller = desk.session();
    let ticket = desk.queue("call", &caller);
    let number = desk.started()[0];
    desk.ready(number);
    desk.plan.release(number, ticket, desk.now);
    desk.look();
    assert_eq!(desk.ended(), [(number, Cause::Returned, Manner::Now)]);
}

#[test]
fn a_lease_that_is_given_back_ends_nothing_that_is_shared() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let caller = desk.session();
    let ticket = desk.queue("all", &caller);
    let number = desk.started()[0];
    desk.ready(number);
    desk.plan.release(number, ticket, desk.now);
    desk.look();
    assert_eq!((desk.ended(), desk.state(number)), (vec![], Some(State::Ready)));
}

#[test]
fn a_peek_starts_nothing() {
    let mut desk = Desk::new(caps(8), [("all", server(Sharing::All))]);
    let caller = desk.session();
    let peek = |desk: &mut Desk| {
        let (demand, purpose) = (&super::Demand::default(), super::Purpose::Call);
        let ask = super::Ask { server: "all", demand, caller: &caller, purpose };
        desk.plan.peek(&ask, desk.now).map(|(number, _)| number)
    };
    assert_eq!(peek(&mut desk), None);
    let number = desk.instance("all", &caller);
    assert_eq!(peek(&mut desk), Some(number));
    assert!(desk.started().is_empty());
}

#[test]
fn who_wants_an_instance_without_others_shares_one_only_if_there_can_be_no_other() {
    let undivided = super::Demand { is_undivided: true, ..super::Demand::default() };
    let mut all = server(Sharing::All);
    all.max_instances = std::num::NonZeroUsize::new(2).unwrap();
    let mut desk = Desk::new(caps(8), [("all", all)]);
    let callers = [desk.session(), desk.session(), desk.session()];
    let ask = |desk: &mut Desk, caller: usize| {
        desk.ask_demanding(&undivided, super::Purpose::Call, "all", &callers[caller])
    };
    // Two that wait for the same start need two instances.
    for caller in 0..2 {
        let asked = ask(&mut desk, caller);
        assert!(matches!(asked, Ok(Asked::Waiting { .. })), "{asked:?}");
    }
    let first = desk.started()[0];
    desk.ready(first);
    let second = desk.started()[0];
    desk.ready(second);
    let granted: Vec<u64> = desk.granted().into_iter().map(|(_, number)| number).collect();
    assert_eq!(granted, [first, second]);
    // An idle one is as good as one of its own; with both in use the third shares.
    desk.uses(first);
    assert!(matches!(ask(&mut desk, 2), Ok(Asked::Granted { number, .. }) if number == second));
    let has_undivided = |desk: &mut Desk| {
        let (demand, purpose) = (&undivided, super::Purpose::Call);
        let ask = super::Ask { server: "all", demand, caller: &callers[2], purpose };
        desk.plan.has_undivided(&ask, desk.now)
    };
    assert!(has_undivided(&mut desk));
    desk.uses(second);
    assert!(!has_undivided(&mut desk));
    assert!(matches!(ask(&mut desk, 2), Ok(Asked::Granted { .. })));
    assert!(desk.started().is_empty());
}
