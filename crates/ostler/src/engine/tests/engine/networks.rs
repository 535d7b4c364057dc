//! F19 without compose: networks without foreign containers are removed, named volumes stay.

use super::*;

fn network(scene: &Scene, name: &str, label: &str) {
    scene.engine.expect(&["network", "create", "--label", label, name]);
}

#[test]
fn f19_l18_networks_are_removed_and_named_volumes_stay() {
    let scene = Scene::new();
    let ours = scene.label();
    network(&scene, "ours", &ours);
    network(&scene, "unused", &ours);
    network(&scene, "foreign", "some.label=x");
    scene.engine.expect(&["volume", "create", "--label", &ours, "kept"]);
    for flags in [["-v", "kept:/data"], ["-v", "/anonymous"]] {
        let words = [
            "run",
            "--detach",
            "--network",
            "ours",
            "--restart",
            "always",
            "--stop-timeout",
            "1",
            "--label",
            &ours,
        ];
        scene.engine.expect(&[&words[..], &flags, &[IMAGE, "sleep", "1000"]].concat());
    }
    scene.clear();
    assert_eq!(scene.engine.networks(&ours), Vec::<String>::new());
    assert_eq!(scene.engine.networks("some.label").len(), 1);
    assert_eq!(scene.engine.volumes(), ["kept"]);
}

#[test]
fn f19_a_network_with_a_foreign_container_stays() {
    let scene = Scene::new();
    let ours = scene.label();
    for name in ["running-on", "created-on"] {
        network(&scene, name, &ours);
    }
    let run = ["run", "--detach", "--network", "running-on", IMAGE, "sleep", "1000"];
    let running = scene.engine.expect(&run);
    let created = scene.engine.expect(&["create", "--network", "created-on", IMAGE, "true"]);
    let own = ["run", "--detach", "--network", "running-on", "--label", &ours, IMAGE, "sleep", "9"];
    scene.engine.expect(&own);

    let Cleared::Gone { mut kept_networks } = scene.removal().run() else { panic!() };
    kept_networks.sort();
    assert_eq!(kept_networks, ["created-on", "running-on"]);
    assert_eq!(scene.left(), Vec::<String>::new());
    assert_eq!(scene.engine.state(&running), "running");
    scene.engine.expect(&["start", &created]);

    scene.engine.expect(&["rm", "--force", &running, &created]);
    scene.clear();
    assert_eq!(scene.engine.networks(&ours), Vec::<String>::new());
}
