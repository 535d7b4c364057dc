//! The real docker command accepts the command lines that we have edited.

use std::ffi::OsString;

use super::*;
use crate::containers::Labels;
use crate::engine::argv::CreateCommand;
use crate::id::OwnerId;
use crate::spec::ServerSpec;

/// `IMAGE` and `HOST` are replaced by the image and the engine's address.
const LINES: &[(&str, &str)] = &[
    ("run IMAGE true", "true"),
    ("run -i --rm=false IMAGE sh -c true", "true"),
    ("run -t --name with-terminal IMAGE true", "true"),
    ("run -ide A=b --env-file /dev/null IMAGE sleep 1000", "true"),
    ("create IMAGE true", "true"),
    ("container run --network none IMAGE true", "true"),
    ("container create --read-only IMAGE true", "true"),
    ("-H HOST run IMAGE true", "true"),
    ("--host=HOST -l error run IMAGE true", "true"),
    ("--config /nowhere --log-level fatal run IMAGE true", "true"),
    ("-D --context default create -v /data IMAGE true", "true"),
    ("run --init IMAGE true", "true"),
    ("run --init=false IMAGE true", "false"),
    ("run --pid host IMAGE true", "true"),
    ("run -l own=label -- IMAGE true", "true"),
];

#[test]
fn docker_accepts_each_command_line_and_the_container_carries_the_labels() {
    let scene = Scene::new();
    let owner = OwnerId::random().unwrap();
    for (line, init) in LINES {
        let instance = InstanceId::random().unwrap();
        let line = line.replace("IMAGE", IMAGE).replace("HOST", &scene.engine.host());
        let mut spec = ServerSpec {
            name: "server".into(),
            program: "docker".into(),
            args: line.split(' ').map(OsString::from).collect(),
            env: Vec::new(),
            cwd: None,
        };
        let run = CreateCommand::of(&spec).unwrap();
        run.add_labels_and_init(&mut spec, &Labels { instance, owner, server: "a server".into() });
        let output = scene.engine.command().args(&spec.args).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {error}", spec.args);

        let found = scene.engine.containers(&format!("{}={instance}", label::INSTANCE));
        let [id] = &found[..] else { panic!("{line}: {found:?}") };
        let label = |name| format!(r#"{{{{index .Config.Labels "{name}"}}}}"#);
        let format = [label(label::OWNER), label(label::SERVER), "{{.HostConfig.Init}}".into()];
        let carried = scene.engine.expect(&["inspect", "--format", &format.join("/"), id]);
        assert_eq!(carried, format!("{owner}/a server/{init}"), "{line}");
    }
}
