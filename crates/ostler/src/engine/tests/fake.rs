//! F17: a fake engine that hangs, lies and closes connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ostler_testkit::{Act, FakeEngine, wait_until};

use super::*;
use crate::engine::clear::block_on;
use crate::engine::exec::end_execs;

const LIST: &str = "GET /containers/json";
const BETWEEN_LISTS: Duration = Duration::from_millis(100);

/// A fake engine with running containers of one instance.
struct Fake {
    engine: FakeEngine,
    instance: InstanceId,
}

impl Fake {
    fn with(names: &[&str]) -> Self {
        let fake = Self { engine: FakeEngine::start(), instance: InstanceId::random().unwrap() };
        for name in names {
            fake.add(name);
        }
        fake
    }

    fn add(&self, name: &str) {
        self.engine.add(name, (label::INSTANCE, &self.instance.to_string()));
    }

    fn removal(&self) -> Removal {
        Removal::from(&self.engine.socket(), self.instance)
    }
}

/// Scripts the first responses to the removal of `one`, and expects that it is gone in the end.
fn f17_is_removed_in_spite_of(acts: &[Act]) {
    let fake = Fake::with(&["one", "other"]);
    fake.engine.script("DELETE /containers/one", acts);
    let removal = fake.removal();
    let (cleared, told) = removal.run_telling();
    assert_eq!(cleared, GONE);
    assert!(fake.engine.containers().is_empty());
    let mut told: Vec<String> = told.into_iter().map(|one| one.id).collect();
    told.sort();
    assert_eq!(told, ["one", "other"], "each is reported once");
    assert_eq!(fake.engine.asked("DELETE /containers/other").len(), 1);
}

#[test]
fn f17_r7_the_engine_responds_404_to_a_container_that_it_lists() {
    f17_is_removed_in_spite_of(&[Act::Say(404); 3]);
}

#[test]
fn f17_r8_five_conflicts() {
    f17_is_removed_in_spite_of(&[Act::Say(409); 5]);
}

#[test]
fn f17_server_errors() {
    f17_is_removed_in_spite_of(&[Act::Say(500), Act::Say(503)]);
}

#[test]
fn f17_half_a_response() {
    f17_is_removed_in_spite_of(&[Act::Half]);
}

#[test]
fn f17_half_responses_to_everything_else() {
    let fake = Fake::with(&["one"]);
    for beginning in ["GET /_ping", LIST, "GET /containers/one", "POST", "GET /networks"] {
        fake.engine.script(beginning, &[Act::Half, Act::Half]);
    }
    assert_eq!(fake.removal().run(), GONE);
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn f17_slow_lists() {
    let fake = Fake::with(&["one", "two"]);
    fake.engine.script(LIST, &[Act::Late(Duration::from_millis(300)); 10]);
    assert_eq!(fake.removal().run(), GONE);
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn f17_one_removal_that_hangs_delays_no_other() {
    let fake = Fake::with(&["stuck", "a", "b", "c", "d", "e", "f"]);
    fake.engine.script("DELETE /containers/stuck", &[Act::Hang]);
    let mut removal = fake.removal();
    removal.times.call = Duration::from_secs(4);
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("all others are gone", PATIENCE, || fake.engine.containers() == ["stuck"]);
        fake.add("late");
        wait_until("one that appears goes, too", PATIENCE, || {
            fake.engine.containers() == ["stuck"]
        });
        let tries = fake.engine.asked("DELETE /containers/stuck").len();
        assert_eq!(tries, 1, "no other removal waited for the one that hangs");
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn f17_an_engine_that_never_responds_is_unverified() {
    let fake = Fake::with(&["one"]);
    let mut removal = fake.removal();
    removal.times.call = Duration::from_millis(100);
    removal.times.limit = Duration::from_millis(500);
    fake.engine.script(LIST, &[Act::Hang; 100]);
    assert_eq!(unreachable_reason(removal.run()), "the engine did not respond within 100ms");
    assert_eq!(fake.engine.containers(), ["one"]);
}

#[test]
fn residue_is_named_and_removed_the_next_time() {
    let fake = Fake::with(&["one", "two"]);
    fake.engine.script("DELETE /containers/two", &[Act::Say(500); 4]);
    let mut removal = fake.removal();
    removal.times.limit = Duration::from_millis(500);
    assert_eq!(names_left(removal.run()), ["two"]);
    removal.times.limit = PATIENCE;
    assert_eq!(removal.run(), GONE);
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn one_empty_list_is_no_proof() {
    let fake = Fake::with(&[]);
    assert_eq!(fake.removal().run(), GONE);
    let lists = fake.engine.asked(LIST);
    assert_eq!(lists.len(), 2);
    assert!(lists[1].at - lists[0].at >= BETWEEN_LISTS);
}

#[test]
fn a_container_that_appears_between_two_lists_is_removed() {
    let fake = Fake::with(&[]);
    let instance = fake.instance.to_string();
    fake.engine.add_after_lists(1, "late", (label::INSTANCE, &instance));
    assert_eq!(fake.removal().run(), GONE);
    assert!(fake.engine.containers().is_empty());
    assert_eq!(fake.engine.asked("DELETE /containers/late").len(), 1);
}

#[test]
fn r6_nothing_is_proven_while_a_create_is_pending() {
    let fake = Fake::with(&[]);
    let in_flight = Arc::new(AtomicUsize::new(1));
    let mut removal = fake.removal();
    removal.claim.creates = PendingCreates::Counted(Arc::clone(&in_flight));
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("it keeps looking", PATIENCE, || fake.engine.asked(LIST).len() > 4);
        assert!(!cleared.is_finished());
        fake.add("late");
        in_flight.store(0, Ordering::Release);
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn r6_a_pending_create_is_reported_at_the_limit() {
    let fake = Fake::with(&[]);
    let mut removal = fake.removal();
    removal.claim.creates = PendingCreates::Counted(Arc::new(AtomicUsize::new(1)));
    removal.times.limit = Duration::from_millis(300);
    assert_eq!(removal.run(), Cleared::Unverified(EngineResidue::Creating));
}

#[test]
fn r11_a_lost_create_is_waited_for_until_its_container_appears() {
    let fake = Fake::with(&["early"]);
    let instance = fake.instance.to_string();
    fake.engine.add_after_lists(6, "late", (label::INSTANCE, &instance));
    let mut removal = fake.removal();
    // Longer than the test may take.
    removal.claim.creates = PendingCreates::Lost { count: 1, settle: Duration::from_hours(1) };
    assert_eq!(removal.run(), GONE);
    assert!(fake.engine.containers().is_empty());
    assert_eq!(fake.engine.asked("DELETE /containers/late").len(), 1);
}

#[test]
fn r11_a_lost_create_that_never_appears_is_given_up_after_its_limit() {
    let fake = Fake::with(&["early"]);
    let settle = Duration::from_millis(700);
    let mut removal = fake.removal();
    removal.claim.creates = PendingCreates::Lost { count: 1, settle };
    let since = Instant::now();
    assert_eq!(removal.run(), GONE);
    assert!(since.elapsed() >= settle);
    assert!(fake.engine.containers().is_empty());
}

#[test]
fn four_containers_are_removed_at_a_time() {
    let names: Vec<String> = (0..24).map(|n| format!("c{n}")).collect();
    let fake = Fake::with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    fake.engine.script("DELETE", &[Act::Late(Duration::from_millis(30)); 24]);
    assert_eq!(fake.removal().run(), GONE);
    assert!(fake.engine.containers().is_empty());
    assert_eq!(fake.engine.most_removals_at_once(), 4);
}

#[test]
fn l19_foreign_containers_stay_if_the_engine_lists_them() {
    let fake = Fake::with(&["ours"]);
    let other = InstanceId::random().unwrap().to_string();
    fake.engine.add("others", (label::INSTANCE, &other));
    fake.engine.add("odd", (label::INSTANCE, &format!("{} ", fake.instance)));
    fake.engine.add("foreign", ("some.label", "x"));
    fake.engine.ignore_filters();
    assert_eq!(fake.removal().run(), GONE);
    assert_eq!(fake.engine.containers(), ["others", "odd", "foreign"]);
}

#[test]
fn engines_before_api_1_41_are_refused() {
    let fake = Fake::with(&["one"]);
    fake.engine.announce("1.40");
    let mut removal = fake.removal();
    removal.times.limit = Duration::from_millis(200);
    assert_eq!(
        unreachable_reason(removal.run()),
        "the engine's API version 1.40 is too old; at least 1.41 is needed"
    );
}

#[test]
fn l23_an_ssh_engine_that_can_not_be_reached_is_unverified() {
    let mut removal = Fake::with(&[]).removal();
    removal.endpoint = "ssh://nobody@127.0.0.1:1".parse().unwrap();
    removal.times.limit = Duration::from_secs(2);
    unreachable_reason(removal.run());
}

#[test]
fn l24_a_missing_engine_is_unverified() {
    let mut removal = Fake::with(&[]).removal();
    removal.endpoint = "unix:///nowhere/docker.sock".parse().unwrap();
    removal.times.limit = Duration::from_millis(200);
    let reason = unreachable_reason(removal.run());
    assert!(reason.starts_with("can't connect to the engine: "), "{reason}");
}

#[test]
fn f21_a_process_that_is_not_in_the_container_is_left_alone() {
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (fake, pid) = (Fake::with(&[]), bystander.id());
    let removal = fake.removal();
    let ids = [pid.to_string()];
    let left = block_on(end_execs(&removal.endpoint, &ids, &removal.times)).unwrap();
    assert_eq!(
        left[0].reason,
        format!("process {pid} is not in the container's cgroup on this machine")
    );
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
