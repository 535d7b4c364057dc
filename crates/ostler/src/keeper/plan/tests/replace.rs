//! Applying a new configuration.

use std::time::Duration;

use super::{Action, Cause, Changes, Fixture, Manner, MemberState, Sharing, caps, server};

fn fixture() -> Fixture {
    Fixture::new(caps(8), [("a", server(Sharing::Agent)), ("b", server(Sharing::All))])
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn unchanged_servers_keep_their_instances() {
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
fn kept_instances_adopt_new_limits() {
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
fn changed_servers_drain_and_unchanged_ones_stay() {
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
fn removed_servers_stop_and_refuse_their_waiters() {
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
fn waiters_of_a_changed_server_get_the_new_one() {
    let mut fixture = fixture();
    let ann = fixture.agent("ann");
    let ticket = fixture.queue("b", &ann);
    let old = fixture.started()[0];
    fixture.change("b", |server| server.credentials = b"other".to_vec());
    // The key is shared, so both generations may overlap.
    let new = fixture.started()[0];
    assert_eq!(fixture.ended(), [(old, Cause::Replaced, Manner::Drain)]);
    fixture.ready(new);
    assert_eq!(fixture.granted(), [(ticket, new)]);
}

#[test]
fn waiters_of_an_exclusive_key_wait_for_the_end_of_the_old_instance() {
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
    // The last ticket belongs to the first caller.
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
fn removing_and_adding_a_server_does_not_end_its_backoff() {
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
