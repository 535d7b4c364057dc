//! A new configuration, as a difference.

use std::time::Duration;

use super::{Action, Cause, Changes, Desk, Manner, Sharing, State, caps, server};

fn desk() -> Desk {
    Desk::new(caps(8), [("a", server(Sharing::Agent)), ("b", server(Sharing::All))])
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_unchanged_keeps_its_instances() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let numbers = [desk.instance("a", &ann), desk.instance("b", &ann)];
    let changes = desk.replace(desk.config.clone());
    assert_eq!(changes, Changes { kept: names(&["a", "b"]), ..Changes::default() });
    assert_eq!(numbers.map(|number| desk.state(number)), [Some(State::Ready), Some(State::Ready)]);
}

#[test]
fn new_limits_are_told_to_what_stays() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let number = desk.instance("a", &ann);
    let changes = desk.change("a", |server| server.limits.idle = None);
    assert_eq!(changes.kept, names(&["a", "b"]));
    let told = desk.take(|action| match action {
        Action::Adjust { number, limits } => Some((*number, limits.idle)),
        _ => None,
    });
    assert_eq!(told, [(number, None)]);
}

#[test]
fn what_has_changed_drains_and_what_has_not_stays() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let (old, kept) = (desk.instance("a", &ann), desk.instance("b", &ann));
    let changes = desk.change("a", |server| server.credentials = b"other".to_vec());
    assert_eq!((changes.changed, changes.kept), (names(&["a"]), names(&["b"])));
    assert_eq!(desk.ended(), [(old, Cause::Replaced, Manner::Drain)]);
    assert_eq!(desk.state(kept), Some(State::Ready));
    assert!(desk.started().is_empty());
}

#[test]
fn what_is_no_longer_configured_goes_and_who_waits_for_it_is_told() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let gone = desk.instance("b", &ann);
    let ticket = desk.queue("a", &ann);
    let starting = desk.started()[0];
    let mut config = desk.config.clone();
    config.servers.clear();
    config.servers.insert("new".into(), server(Sharing::All));
    let changes = desk.replace(config);
    assert_eq!((changes.removed, changes.added), (names(&["a", "b"]), names(&["new"])));
    let mut ended: Vec<u64> = desk.ended().into_iter().map(|(number, ..)| number).collect();
    ended.sort_unstable();
    assert_eq!(ended, [gone, starting]);
    assert_eq!(desk.refused(), [(ticket, "no server is called a".into())]);
}

#[test]
fn who_waits_for_what_has_changed_gets_the_new_one() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let ticket = desk.queue("b", &ann);
    let old = desk.started()[0];
    desk.change("b", |server| server.credentials = b"other".to_vec());
    // It is shared, so that both may be there for a while.
    let new = desk.started()[0];
    assert_eq!(desk.ended(), [(old, Cause::Replaced, Manner::Drain)]);
    desk.ready(new);
    assert_eq!(desk.granted(), [(ticket, new)]);
}

#[test]
fn who_waits_for_something_exclusive_waits_for_the_end_of_the_old_one() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let ticket = desk.queue("a", &ann);
    let old = desk.started()[0];
    desk.change("a", |server| server.credentials = b"other".to_vec());
    assert!(desk.started().is_empty());
    desk.ends(old, Cause::Replaced);
    let new = desk.started()[0];
    desk.ready(new);
    assert_eq!(desk.granted(), [(ticket, new)]);
}

#[test]
fn callers_of_several_keys_that_become_one_stay_in_order() {
    let mut desk = Desk::new(caps(0), [("it", server(Sharing::Session))]);
    let callers: Vec<_> = (0..4).map(|_| desk.session()).collect();
    let mut tickets: Vec<u64> = callers.iter().map(|caller| desk.queue("it", caller)).collect();
    // The last of the first one is behind all others.
    tickets.push(desk.queue("it", &callers[0]));
    let mut config = desk.config.clone();
    config.caps.instances = 1;
    config.servers.get_mut("it").unwrap().sharing = Sharing::All;
    desk.replace(config);
    let number = desk.started()[0];
    desk.ready(number);
    let granted: Vec<u64> = desk.granted().into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(granted, tickets);
}

#[test]
fn failures_are_not_forgotten_by_taking_a_server_out_and_in_again() {
    let mut desk = desk();
    let ann = desk.agent("ann");
    let number = desk.instance("a", &ann);
    desk.ends(number, Cause::Exited);
    let config = desk.config.clone();
    let mut without = config.clone();
    without.servers.remove("a");
    desk.replace(without);
    desk.replace(config);
    desk.queue("a", &ann);
    assert!(desk.started().is_empty());
    desk.pass(Duration::from_secs(1));
    assert_eq!(desk.started().len(), 1);
}
