//! Sharing of instances, and growth of pools.

use super::{AcquireDecision, Cause, Fixture, Manner, MemberState, Sharing, caps, few, server};

#[test]
fn all_first_callers_get_the_same_instance_in_order() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let callers: Vec<_> = (0..5).map(|_| fixture.session()).collect();
    let tickets: Vec<u64> = callers.iter().map(|caller| fixture.queue("all", caller)).collect();
    let started = fixture.started();
    assert_eq!(started.len(), 1);
    fixture.ready(started[0]);
    let expected: Vec<_> = tickets.iter().map(|ticket| (*ticket, started[0])).collect();
    assert_eq!(fixture.granted(), expected);
}

#[test]
fn a_pool_grows_only_when_all_instances_are_busy_and_up_to_its_limit() {
    let mut all = server(Sharing::All);
    (all.max_concurrency, all.max_instances) = (Some(few(1)), few(2));
    let mut fixture = Fixture::new(caps(8), [("all", all)]);
    let caller = fixture.session();
    let first = fixture.instance("all", &caller);
    assert!(matches!(fixture.acquire("all", &caller), Ok(AcquireDecision::Granted { .. })));
    fixture.uses(first);
    let second = fixture.instance("all", &caller);
    assert_ne!(first, second);
    fixture.uses(second);
    // A third instance is not allowed, so the caller shares one.
    assert!(matches!(fixture.acquire("all", &caller), Ok(AcquireDecision::Granted { .. })));
    assert!(fixture.started().is_empty());
}

#[test]
fn a_caller_shares_a_busy_instance_if_the_pool_may_not_grow() {
    let mut all = server(Sharing::All);
    all.max_concurrency = Some(few(1));
    let mut fixture = Fixture::new(caps(1), [("all", all)]);
    let caller = fixture.session();
    let only = fixture.instance("all", &caller);
    fixture.uses(only);
    let decision = fixture.acquire("all", &caller).unwrap();
    assert!(matches!(decision, AcquireDecision::Granted { number, .. } if number == only));
}

#[test]
fn agents_and_sessions_have_their_own_instances() {
    for (sharing, expected) in
        [(Sharing::All, 1), (Sharing::Agent, 2), (Sharing::Session, 3), (Sharing::Call, 4)]
    {
        let mut fixture = Fixture::new(caps(8), [("it", server(sharing))]);
        let ann = fixture.agent("ann");
        let (one, two, alone) =
            (fixture.session_of(&ann), fixture.session_of(&ann), fixture.session());
        for caller in [&one, &one, &two, &alone] {
            fixture.queue("it", caller);
        }
        assert_eq!(fixture.started().len(), expected, "{sharing}");
    }
}

#[test]
fn an_instance_for_one_call_stops_with_its_lease() {
    let mut fixture = Fixture::new(caps(8), [("call", server(Sharing::Call))]);
    let caller = fixture.session();
    let ticket = fixture.queue("call", &caller);
    let number = fixture.started()[0];
    fixture.ready(number);
    fixture.plan.release(number, ticket, fixture.now);
    fixture.look();
    assert_eq!(fixture.ended(), [(number, Cause::Returned, Manner::Now)]);
}

#[test]
fn releasing_a_lease_stops_no_shared_instance() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let caller = fixture.session();
    let ticket = fixture.queue("all", &caller);
    let number = fixture.started()[0];
    fixture.ready(number);
    fixture.plan.release(number, ticket, fixture.now);
    fixture.look();
    assert_eq!((fixture.ended(), fixture.state(number)), (vec![], Some(MemberState::Ready)));
}

#[test]
fn a_peek_starts_nothing() {
    let mut fixture = Fixture::new(caps(8), [("all", server(Sharing::All))]);
    let caller = fixture.session();
    let peek = |fixture: &mut Fixture| {
        let (demand, purpose) = (&super::Demand::default(), super::Purpose::Call);
        let request = super::AcquireRequest { server: "all", demand, caller: &caller, purpose };
        fixture.plan.peek(&request, fixture.now).map(|(number, _)| number)
    };
    assert_eq!(peek(&mut fixture), None);
    let number = fixture.instance("all", &caller);
    assert_eq!(peek(&mut fixture), Some(number));
    assert!(fixture.started().is_empty());
}

#[test]
fn an_undivided_demand_shares_only_if_no_other_instance_is_possible() {
    let undivided = super::Demand { is_undivided: true, ..super::Demand::default() };
    let mut all = server(Sharing::All);
    all.max_instances = std::num::NonZeroUsize::new(2).unwrap();
    let mut fixture = Fixture::new(caps(8), [("all", all)]);
    let callers = [fixture.session(), fixture.session(), fixture.session()];
    let ask = |fixture: &mut Fixture, caller: usize| {
        fixture.acquire_demanding(&undivided, super::Purpose::Call, "all", &callers[caller])
    };
    // Two callers that wait for the same start need two instances.
    for caller in 0..2 {
        let decision = ask(&mut fixture, caller);
        assert!(matches!(decision, Ok(AcquireDecision::Queued { .. })), "{decision:?}");
    }
    let first = fixture.started()[0];
    fixture.ready(first);
    let second = fixture.started()[0];
    fixture.ready(second);
    let granted: Vec<u64> = fixture.granted().into_iter().map(|(_, number)| number).collect();
    assert_eq!(granted, [first, second]);
    // An idle instance will do; with both in use the third caller shares.
    fixture.uses(first);
    assert!(
        matches!(ask(&mut fixture, 2), Ok(AcquireDecision::Granted { number, .. }) if number == second)
    );
    let has_undivided = |fixture: &mut Fixture| {
        let (demand, purpose) = (&undivided, super::Purpose::Call);
        let request = super::AcquireRequest { server: "all", demand, caller: &callers[2], purpose };
        fixture.plan.has_undivided(&request, fixture.now)
    };
    assert!(has_undivided(&mut fixture));
    fixture.uses(second);
    assert!(!has_undivided(&mut fixture));
    assert!(matches!(ask(&mut fixture, 2), Ok(AcquireDecision::Granted { .. })));
    assert!(fixture.started().is_empty());
}
