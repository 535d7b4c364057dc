//! Containers from images that carry the instance's label: they are the instance's only with further proof.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ostler_testkit::{Act, FakeEngine, wait_until};

use super::*;
use crate::containers::LeftContainer;

const IMAGE: &str = "GET /images/marked/json";

/// A fake engine with an image that carries an instance's label, and containers of it.
struct Fake {
    engine: FakeEngine,
    instance: InstanceId,
}

impl Fake {
    fn with(names: &[&str]) -> Self {
        let fake = Self { engine: FakeEngine::start(), instance: InstanceId::random().unwrap() };
        fake.engine.add_image("marked", (label::INSTANCE, &fake.instance.to_string()));
        for name in names {
            fake.add("marked", name);
        }
        fake
    }

    fn add(&self, image: &str, name: &str) {
        self.engine.add_from(image, name, (label::INSTANCE, &self.instance.to_string()));
    }

    fn removal(&self) -> Removal {
        Removal::from(&self.engine.socket(), self.instance)
    }
}

fn left(cleared: Cleared) -> Vec<LeftContainer> {
    match cleared {
        Cleared::Unverified(EngineResidue::Containers(left)) => left,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_container_that_inherited_its_label_stays_and_does_not_count() {
    let fake = Fake::with(&["users"]);
    fake.add("image", "own");
    let (cleared, told) = fake.removal().run_telling();
    assert_eq!(cleared, GONE);
    assert_eq!(fake.engine.containers(), ["users"]);
    assert_eq!(told.into_iter().map(|one| one.id).collect::<Vec<_>>(), ["own"]);
    assert!(fake.engine.asked("POST /containers/users").is_empty(), "nor is it stopped");
}

#[test]
fn a_container_with_a_noted_id_is_removed_regardless_of_its_image() {
    let fake = Fake::with(&["own", "users"]);
    fake.add("lost", "made");
    let mut removal = fake.removal();
    removal.claim.made = vec!["own".to_owned(), "made".to_owned()].into();
    assert_eq!(removal.run(), GONE);
    assert_eq!(fake.engine.containers(), ["users"]);
}

/// The container can't have inherited a value that differs from the image's.
#[test]
fn an_image_with_another_label_value_proves_as_much_as_one_without() {
    let fake = Fake::with(&[]);
    for (image, value) in [("blank", ""), ("other", "00000000000000000000000000000001")] {
        fake.engine.add_image(image, (label::INSTANCE, value));
        fake.add(image, image);
    }
    assert_eq!(fake.removal().run(), GONE);
    assert_eq!(fake.engine.containers(), Vec::<String>::new());
}

#[test]
fn no_container_is_removed_before_its_image_was_inspected() {
    for acts in [[Act::Say(500), Act::Say(503)], [Act::Half, Act::Half], [Act::Hang, Act::Say(400)]]
    {
        let fake = Fake::with(&[]);
        fake.add("image", "own");
        fake.engine.script("GET /images/image/json", &acts);
        let mut removal = fake.removal();
        removal.times.call = Duration::from_millis(200);
        assert_eq!(removal.run(), GONE);
        let (removed, looked) =
            (fake.engine.asked("DELETE /containers/own"), fake.engine.asked("GET /images/image"));
        assert_eq!((removed.len(), looked.len()), (1, 3));
        assert!(removed[0].at > looked[2].at);
    }
}

#[test]
fn one_image_that_hangs_delays_no_other_container() {
    let fake = Fake::with(&["users"]);
    for name in ["a", "b", "c", "d", "e"] {
        fake.add("image", name);
    }
    fake.engine.script(IMAGE, &[Act::Hang]);
    let removal = fake.removal();
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("all others are gone", PATIENCE, || fake.engine.containers() == ["users"]);
        assert_eq!(fake.engine.asked(IMAGE).len(), 1, "the others did not wait for it");
        assert_eq!(cleared.join().unwrap(), GONE);
    });
}

#[test]
fn a_container_whose_image_is_gone_is_named_and_left_alone() {
    let fake = Fake::with(&[]);
    fake.add("lost", "whose");
    let mut removal = fake.removal();
    removal.times.limit = Duration::from_millis(500);
    let left = left(removal.run());
    assert_eq!(left[0].id, "whose");
    assert_eq!(
        left[0].to_string(),
        "whose (whose, running), which may be your own: its image can't be inspected: the engine responded 404 Not Found: \
         no such image; remove it if it is not"
    );
    assert!(fake.engine.asked("DELETE").is_empty() && fake.engine.asked("POST").is_empty());
    fake.engine.take_away("whose");
    assert_eq!(removal.run(), GONE);
}

/// The container is listed before the response to its create; only that response distinguishes it from the user's.
#[test]
fn a_create_with_a_late_response_is_still_removed() {
    let fake = Fake::with(&["own", "users"]);
    let in_flight = Arc::new(AtomicUsize::new(1));
    let mut removal = fake.removal();
    removal.claim.creates = PendingCreates::Counted(Arc::clone(&in_flight));
    let made = removal.claim.made.clone();
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("both images were inspected", PATIENCE, || fake.engine.asked(IMAGE).len() >= 2);
        made.note("own".to_owned());
        in_flight.store(0, Ordering::Release);
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert_eq!(fake.engine.containers(), ["users"]);
}

#[test]
fn a_users_container_does_not_count_as_an_awaited_create() {
    let fake = Fake::with(&[]);
    let mut removal = fake.removal();
    removal.claim.creates = PendingCreates::Lost { count: 1, settle: Duration::from_hours(1) };
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("it looks", PATIENCE, || fake.engine.asked("GET /containers/json").len() > 1);
        fake.add("marked", "users");
        wait_until("its image was inspected", PATIENCE, || !fake.engine.asked(IMAGE).is_empty());
        let lists = fake.engine.asked("GET /containers/json").len();
        wait_until("it continues", PATIENCE, || {
            fake.engine.asked("GET /containers/json").len() > lists + 3
        });
        assert!(!cleared.is_finished());
        fake.add("image", "late");
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert_eq!(fake.engine.containers(), ["users"]);
}

/// One image id may stand for images of several platforms.
#[test]
fn the_image_of_the_containers_own_platform_counts() {
    let fake = Fake::with(&[]);
    fake.engine.announce("1.49");
    fake.engine.run_on("arm64");
    fake.engine.add_image("image@arm64", (label::INSTANCE, &fake.instance.to_string()));
    fake.add("image", "users");
    assert_eq!(fake.removal().run(), GONE);
    assert_eq!(fake.engine.containers(), ["users"]);
}
