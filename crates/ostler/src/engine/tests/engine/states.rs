//! F15: removal of containers in any state, started with any flags.

use std::process::{Child, Stdio};

use ostler_testkit::wait_until;

use super::*;
use crate::engine::clear::list_blocking;
use crate::id::OwnerId;

/// A docker client that stays attached. The container outlives it.
fn attached(scene: &Scene, flags: &[&str]) -> Child {
    let mut client = scene.engine.command();
    client.args(["run", "--network", "none", "--label", &scene.label()]).args(flags);
    client.args([IMAGE, "sleep", "1000"]).stdout(Stdio::null()).stderr(Stdio::null());
    client.spawn().unwrap()
}

fn end(mut client: Child) {
    let _ = client.kill();
    client.wait().unwrap();
}

#[test]
fn f15_l17_l17b_a_container_in_any_state_is_removed_with_its_anonymous_volume() {
    let scene = Scene::new();
    let running = scene.start(&["-v", "/anonymous"], &["sleep", "1000"]);
    let with_init = scene.start(&["--init", "-v", "named:/data"], &["sleep", "1000"]);
    let paused = scene.start(&[], &["sleep", "1000"]);
    scene.engine.expect(&["pause", &paused]);
    let crashing = scene.start(&["--restart", "always"], &["false"]);
    scene.engine.expect(&["wait", &scene.start(&["-v", "/anonymous"], &["true"])]);
    let mut refused = scene.engine.command();
    refused.args([
        "run",
        "--label",
        &scene.label(),
        "--network",
        "none",
        IMAGE,
        "/no-such-program",
    ]);
    assert!(!refused.output().unwrap().status.success());
    let clients = [attached(&scene, &["-t"]), attached(&scene, &["--rm"])];
    wait_until("all are there", PATIENCE, || {
        let states: Vec<String> = scene.left().iter().map(|id| scene.engine.state(id)).collect();
        states.iter().filter(|state| *state == "running").count() >= 4 && states.len() == 8
    });
    assert_eq!(scene.engine.volumes().len(), 3);

    let (cleared, told) = scene.removal().run_telling();
    assert_eq!(cleared, GONE);
    assert_eq!(scene.left(), Vec::<String>::new());
    assert_eq!(scene.engine.volumes(), ["named"]);
    clients.into_iter().for_each(end);

    // Attached containers are not reported. One in a crash loop may be running or not.
    let mut told: Vec<RemovedContainer> =
        told.into_iter().filter(|one| one.id != crashing).collect();
    told.sort_by_key(|one| one.id.clone());
    let mut expected = [running, with_init, paused].map(|id| RemovedContainer {
        id,
        image: IMAGE.to_owned(),
        command: "sleep 1000".to_owned(),
    });
    expected.sort_by_key(|one| one.id.clone());
    assert_eq!(told, expected);
}

#[test]
fn l19_s17_foreign_containers_are_untouched() {
    let scene = Scene::new();
    let other = format!("{}={}", label::INSTANCE, InstanceId::random().unwrap());
    let strangers = [scene.start_foreign(&[]), scene.start_foreign(&["--label", &other])];
    scene.start(&[], &["sleep", "1000"]);
    let pids = || {
        let format = "{{.Id}} {{.State.Pid}} {{.State.Status}}";
        strangers.each_ref().map(|id| scene.engine.expect(&["inspect", "--format", format, id]))
    };
    let before = pids();
    scene.clear();
    assert_eq!(pids(), before);
}

#[test]
fn l17_the_grace_is_given_once_and_suffices_for_a_container_that_handles_sigterm() {
    let scene = Scene::new();
    let volume = "-vnamed:/data";
    let script =
        "trap 'echo bye > /data/said; exit' TERM; echo > /data/ready; while :; do sleep 0.05; done";
    scene.start(&[volume], &["sh", "-c", script]);
    let read = |name: &str| {
        let path = format!("/data/{name}");
        let words = ["run", "--rm", "--network", "none", volume, IMAGE, "cat", &path];
        let output = scene.engine.command().args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    wait_until("it listens", PATIENCE, || read("ready"));
    let mut removal = scene.removal();
    // Long enough on any machine; the container stops much earlier.
    removal.times.grace = Duration::from_secs(20);
    assert_eq!(removal.run(), GONE);
    assert_eq!(read("said").as_deref(), Some("bye\n"));
}

#[test]
fn r8_a_removal_that_collides_with_the_engines_own_succeeds() {
    let scene = Scene::new();
    let ids: Vec<String> = (0..8).map(|_| scene.start(&["--rm"], &["sleep", "1000"])).collect();
    let mut kill = scene.engine.command();
    kill.arg("kill").args(&ids).stdout(Stdio::null()).stderr(Stdio::null());
    let mut kill = kill.spawn().unwrap();
    scene.clear();
    kill.wait().unwrap();
    assert_eq!(scene.left(), Vec::<String>::new());
}

#[test]
fn twenty_four_containers_at_once() {
    let scene = Scene::new();
    let label = scene.label();
    for _ in 0..24 {
        scene.engine.expect(&["create", "--label", &label, "--network", "none", IMAGE, "true"]);
    }
    for id in scene.left().iter().take(12) {
        scene.engine.expect(&["start", id]);
    }
    scene.clear();
}

#[test]
fn the_list_has_the_labelled_containers_of_all_owners() {
    let scene = Scene::new();
    let owner = OwnerId::random().unwrap();
    let id = scene.start(
        &["--name", "one", "--label", &format!("{}={owner}", label::OWNER)],
        &["sleep", "1000"],
    );
    scene.start_foreign(&[]);
    let listed = list_blocking(&scene.removal().endpoint, Times::CALL).unwrap();
    let [view] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((&view.id, &view.names[..]), (&id, &["one".to_owned()][..]));
    assert_eq!(
        (&view.image[..], &view.command[..], &view.state[..]),
        (IMAGE, "sleep 1000", "running")
    );
    assert_eq!((view.instance, view.owner), (scene.instance, Some(owner)));
    assert!(view.created > 0);
}
