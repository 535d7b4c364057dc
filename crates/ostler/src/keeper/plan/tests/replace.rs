//! A new configuration, as a difference.

use std::time::Duration;

use super::{Action, Cause, Changes, Fixture, Manner, MemberState, Sharing, caps, server};

fn fixture() -> Fixture {
    Fixture::new(caps(8), [("a", server(Sharing::Agent)), ("b", server(Sharing::All))])
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_unchanged_keeps_its_instances() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let numbers = [fixture.instance("a", &ann), fixture.instance("b", &ann)];
    let changes = fixture.replace(fixture.config.clone());
    assert_eq!(changes, Changes { kept: names(&["a", "b"]), ..Changes::default() });
    assert_eq!(
        numbers.map(|number| fixture.state(number)),
        [Some(MemberState::Ready), Some(MemberState::Ready)]
    );
}

#[test]
fn new_limits_are_told_to_what_stays() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let number = fixture.instance("a", &ann);
    let changes = fixture.change("a", |server| server.limits.idle = None);
    assert_eq!(changes.kept, names(&["a", "b"]));
    let told = fixture.take(|action| match action {
        Action::Adjust { number, limits } => Some((*number, limits.idle)),
        _ => None,
    });
    assert_eq!(told, [(number, None)]);
}

#[test]
fn what_has_changed_drains_and_what_has_not_stays() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let (old, kept) = (fixture.instance("a", &ann), fixture.instance("b", &ann));
    let changes = fixture.change("a", |server| server.credentials = b"other".to_vec());
    assert_eq!((changes.changed, changes.kept), (names(&["a"]), names(&["b"])));
    assert_eq!(fixture.ended(), [(old, Cause::Replaced, Manner::Drain)]);
    assert_eq!(fixture.state(kept), Some(MemberState::Ready));
    assert!(fixture.started().is_empty());
}

#[test]
fn what_is_no_longer_configured_goes_and_who_waits_for_it_is_told() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let gone = fixture.instance("b", &ann);
    let ticket = fixture.queue("a", &ann);
    let starting = fixture.started()[0];
    let mut config = fixture.config.clone();
    config.servers.clear();
    config.servers.insert("new".into(), server(Sharing::All));
    let changes = fixture.replace(config);
    assert_eq!((changes.removed, changes.added), (names(&["a", "b"]), names(&["new"])));
    let mut ended: Vec<u64> = fixture.ended().into_iter().map(|(number, ..)| number).collect();
    ended.sort_unstable();
    assert_eq!(ended, [gone, starting]);
    assert_eq!(fixture.refused(), [(ticket, "no server is called a".into())]);
}

#[test]
fn who_waits_for_what_has_changed_gets_the_new_one() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let ticket = fixture.queue("b", &ann);
    let old = fixture.started()[0];
    fixture.change("b", |server| server.credentials = b"other".to_vec());
    // It is shared, so that both may be there for a while.
    let new = fixture.started()[0];
    assert_eq!(fixture.ended(), [(old, Cause::Replaced, Manner::Drain)]);
    fixture.ready(new);
    assert_eq!(fixture.granted(), [(ticket, new)]);
}

#[test]
fn who_waits_for_something_exclusive_waits_for_the_end_of_the_old_one() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let ticket = fixture.queue("a", &ann);
    let old = fixture.started()[0];
    fixture.change("a", |server| server.credentials = b"other".to_vec());
    assert!(fixture.started().is_empty());
    fixture.ends(old, Cause::Replaced);
    let new = fixture.started()[0];
    fixture.ready(new);
    assert_eq!(fixture.granted(), [(ticket, new)]);
}

#[test]
fn callers_of_several_keys_that_become_one_stay_in_order() {
    let mut fixture = Fixture::new(caps(0), [("it", server(Sharing::Session))]);
    let callers: Vec<_> = (0..4).map(|_| fixture.session()).collect();
    let mut tickets: Vec<u64> = callers.iter().map(|caller| fixture.queue("it", caller)).collect();
    // The last of the first one is behind all others.
    tickets.push(fixture.queue("it", &callers[0]));
    let mut config = fixture.config.clone();
    config.caps.instances = 1;
    config.servers.get_mut("it").unwrap().sharing = Sharing::All;
    fixture.replace(config);
    let number = fixture.started()[0];
    fixture.ready(number);
    let granted: Vec<u64> = fixture.granted().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(granted, tickets);
}

#[test]
fn failures_are_not_forgotten_by_taking_a_server_out_and_in_again() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let number = fixture.instance("a", &ann);
    fixture.ends(number, Cause::Exited);
    let config = fixture.config.clone();
    let mut without = config.clone();
    without.servers.remove("a");
    fixture.replace(without);
    fixture.replace(config);
    fixture.queue("a", &ann);
    assert!(fixture.started().is_empty());
    fixture.pass(Duration::from_secs(1));
    assert_eq!(fixture.started().len(), 1);
}
