//! F16: the engine is killed, frozen or restarted before, during and after a removal.

use ostler_testkit::wait_until;

use super::*;

/// Limits for a removal from a dead engine.
const SHORT: Times = Times {
    grace: Duration::ZERO,
    call: Duration::from_millis(500),
    limit: Duration::from_secs(2),
};

fn short(scene: &Scene) -> Removal {
    Removal { times: SHORT, ..scene.removal() }
}

#[test]
fn f16_r17_killed_before() {
    let mut scene = Scene::new();
    scene.start(&["--restart", "always"], &["sleep", "1000"]);
    scene.start(&["--init"], &["sleep", "1000"]);
    scene.engine.kill();
    let reason = unreachable_reason(short(&scene).run());
    assert!(reason.contains("can't connect to the engine"), "{reason}");
    scene.engine.begin();
    assert_eq!(scene.left().len(), 2);
    scene.clear();
}

#[test]
fn f16_r17_frozen_before() {
    let scene = Scene::new();
    scene.start(&[], &["sleep", "1000"]);
    scene.engine.freeze();
    let reason = unreachable_reason(short(&scene).run());
    assert_eq!(reason, "the engine did not respond within 500ms");
    scene.engine.thaw();
    scene.clear();
}

#[test]
fn f16_killed_during() {
    let mut scene = Scene::new();
    for _ in 0..12 {
        scene.start(&[], &["sleep", "1000"]);
    }
    let removal = scene.removal();
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("the removal has begun", PATIENCE, || scene.left().len() < 12);
        scene.engine.kill();
        assert!(!cleared.is_finished());
        scene.engine.begin();
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[test]
fn f16_frozen_during() {
    let scene = Scene::new();
    for _ in 0..8 {
        scene.start(&[], &["sleep", "1000"]);
    }
    let removal = Removal { times: Times { call: SHORT.call, ..TIMES }, ..scene.removal() };
    std::thread::scope(|scope| {
        let cleared = scope.spawn(|| removal.run());
        wait_until("the removal has begun", PATIENCE, || scene.left().len() < 8);
        scene.engine.freeze();
        assert!(matches!(short(&scene).run(), Cleared::Unverified(_)));
        scene.engine.thaw();
        assert_eq!(cleared.join().unwrap(), GONE);
    });
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[test]
fn f16_l22_restarted_after() {
    let mut scene = Scene::new();
    scene.start(&["--restart", "always"], &["sleep", "1000"]);
    scene.start(&["--restart", "unless-stopped"], &["false"]);
    scene.clear();
    scene.engine.stop();
    scene.engine.begin();
    assert_eq!(scene.left(), Vec::<String>::new());
    scene.clear();
}

#[test]
fn f16_l22_restarted_before_so_that_containers_came_back() {
    let mut scene = Scene::new();
    let id = scene.start(&["--restart", "always"], &["sleep", "1000"]);
    scene.engine.stop();
    scene.engine.begin();
    wait_until("it is back", PATIENCE, || scene.engine.state(&id) == "running");
    scene.clear();
}
