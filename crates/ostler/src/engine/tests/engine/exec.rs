//! F21: exec sessions in a foreign container end, and the container keeps running.

use ostler_testkit::wait_until;

use super::*;
use crate::containers::LeftExec;
use crate::engine::clear::block_on;
use crate::engine::exec::end_execs;

fn end(scene: &Scene, ids: &[String]) -> Vec<LeftExec> {
    let times = Times { grace: Duration::from_millis(200), ..TIMES };
    block_on(end_execs(&scene.removal().endpoint, ids, &times)).unwrap()
}

#[test]
fn f21_a_command_in_a_foreign_container_ends_with_its_children() {
    let scene = Scene::new();
    let foreign = scene.start_foreign(&[]);
    let commands =
        ["sleep 2001 & sleep 2002", "trap '' TERM; while :; do sleep 0.1; done", "exit 0"];
    for command in commands {
        scene.engine.expect(&["exec", "--detach", &foreign, "sh", "-c", command]);
    }
    let ids = || -> Vec<String> {
        let list = scene.engine.expect(&["inspect", "--format", "{{json .ExecIDs}}", &foreign]);
        serde_json::from_str::<Option<Vec<String>>>(&list).unwrap().unwrap_or_default()
    };
    let inside = || scene.engine.expect(&["top", &foreign, "-eo", "pid,args"]);
    wait_until("the commands run", PATIENCE, || {
        inside().contains("sleep 2002") && ids().len() >= 2
    });

    let pid = || scene.engine.expect(&["inspect", "--format", "{{.State.Pid}}", &foreign]);
    let before = pid();
    assert_eq!(end(&scene, &ids()), []);
    let inside = inside();
    assert_eq!(inside.lines().count(), 2, "only the container's own command is left:\n{inside}");
    assert_eq!(pid(), before);
}

#[test]
fn f21_an_exec_session_that_the_engine_does_not_know_has_ended() {
    let scene = Scene::new();
    assert_eq!(end(&scene, &["0".repeat(64)]), []);
}
