//! Images that carry a server's labels: containers that the user starts from them are not removed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::time::{Duration, Instant};

use ostler_testkit::{Dock, IMAGE, Launched, Stage, dock_rows, wait_until};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);
const INSTANCE: &str = "ostler.instance";

/// A server with a container called `own` that executes each line of its input.
const SHELL: &str = "docker run -d --name own $IMAGE sleep 100000 >/dev/null; echo up
    while read -r line; do eval \"$line\" >&2; echo $?; done";

/// Sends a request to the server's Door: `node REQUEST_SCRIPT PATH [FILE]`. Fails unless the response is a success.
const REQUEST: &str = r"
    const [path, file] = process.argv.slice(2);
    const socketPath = process.env.DOCKER_HOST.slice('unix://'.length);
    const headers = { 'Content-Type': 'application/x-tar' };
    const request = require('http').request({ socketPath, path, method: 'POST', headers }, answer => {
        answer.setEncoding('utf8').on('data', text => process.stderr.write(text));
        answer.on('end', () => process.exit(answer.statusCode < 300 ? 0 : 1));
    });
    request.end(file && require('fs').readFileSync(file));
";

fn start(dock: &Dock) -> (Launched, String) {
    let mut run = dock.script(&[], SHELL);
    assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"up");
    let own = dock.await_running(1).pop().unwrap();
    let instance = dock.inspect(&own)["Config"]["Labels"][INSTANCE].as_str().unwrap().to_owned();
    (run, instance)
}

/// Makes the server execute a line, and returns the exit code.
fn tell(run: &mut Launched, line: &str) -> i32 {
    run.write(format!("{line}\n").as_bytes(), PATIENCE).unwrap();
    let answer = run.line(PATIENCE).unwrap().unwrap();
    String::from_utf8(answer).unwrap().parse().unwrap()
}

/// The value of an image's instance label; empty if it has none.
fn label_of(dock: &Dock, image: &str) -> String {
    let format = format!("{{{{index .Config.Labels \"{INSTANCE}\"}}}}");
    dock.docker().expect(&["image", "inspect", "--format", &format, image])
}

/// The processes that remove a server's containers: its porter, its owner, or a sweep.
const ENDS: [fn(&Dock, &mut Launched); 4] = [
    |_, run| run.close_stdin(),
    |_, run| run.signal(Signal::KILL),
    |dock, _| dock.stage().signal(dock.stage().guardians()[0], Signal::KILL),
    |dock, run| {
        dock.abandon(run);
        assert!(dock.ostler(&["reap", "--yes"]).status.success());
    },
];

/// Tests on the shared engine of the test run.
mod engine {
    use std::fs;

    use super::*;

    /// Ends the server, and expects that its containers are gone and the user's are not.
    fn end_and_expect_the_users(
        dock: &mut Dock,
        run: &mut Launched,
        end: fn(&Dock, &mut Launched),
        users: &str,
        image: &str,
    ) {
        end(dock, run);
        dock.stage().wait_exit(run);
        dock.expect_empty();
        assert_eq!(dock.docker().state(users), "running");
        dock.abolish(users);
        dock.docker().expect(&["rmi", "--force", image]);
    }

    /// An archive of an image whose labels name this instance, for `docker load`.
    fn forged_archive(dock: &Dock, image: &str, instance: &str) -> String {
        let archive = dock.stage().sandbox.file("forged.tar").to_str().unwrap().to_owned();
        let change = format!("LABEL {INSTANCE}={instance}");
        dock.docker().expect(&["commit", "--change", &change, dock.stranger(), image]);
        dock.docker().expect(&["save", "--output", &archive, image]);
        dock.docker().expect(&["rmi", image]);
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(&archive, readable).unwrap();
        archive
    }

    /// Starts containers of the server and of the user from an image with the labels, then deletes the image.
    fn start_without_image(dock: &mut Dock) -> (Launched, String) {
        let (mut run, _) = start(dock);
        dock.docker().expect(&["commit", "own", "r01:gone"]);
        assert_eq!(tell(&mut run, "docker run r01:gone true"), 0);
        let users = dock.adopt("r01:gone");
        dock.docker().expect(&["kill", &users]);
        let image = dock.docker().expect(&["image", "inspect", "--format", "{{.Id}}", "r01:gone"]);
        dock.docker().expect(&["rmi", "--force", &image]);
        (run, users)
    }

    dock_rows! {
        shared:

        fn r01_an_image_that_the_server_committed(dock) {
            for end in ENDS {
                let (mut run, _) = start(dock);
                assert_eq!(tell(&mut run, "docker commit --change 'LABEL a=b' own r01:committed"), 0);
                let labels = dock.docker().expect(&["image", "inspect", "--format", "{{json .Config.Labels}}", "r01:committed"]);
                let expected = r#"{"a":"b","ostler.call":"","ostler.instance":"","ostler.owner":"","ostler.server":""}"#;
                assert_eq!(labels, expected);
                let users = dock.adopt("r01:committed");
                end_and_expect_the_users(dock, &mut run, end, &users, "r01:committed");
            }
        }

        /// The image was committed without the Door, so it carries the labels; the server has a container of it too.
        fn r01_an_image_that_carries_the_labels(dock) {
            for end in ENDS {
                let (mut run, instance) = start(dock);
                dock.docker().expect(&["commit", "own", "r01:marked"]);
                assert_eq!(label_of(dock, "r01:marked"), instance);
                let users = dock.adopt("r01:marked");
                assert_eq!(tell(&mut run, "docker run -d r01:marked sleep 100000"), 0);
                assert_eq!(dock.await_running(2).len(), 2);
                end_and_expect_the_users(dock, &mut run, end, &users, "r01:marked");
            }
        }

        fn r01_an_image_that_the_server_loaded(dock) {
            for end in ENDS {
                let (mut run, instance) = start(dock);
                let archive = forged_archive(dock, "r01:forged", &instance);
                assert_eq!(tell(&mut run, &format!("docker load --input {archive}")), 0);
                assert_eq!(label_of(dock, "r01:forged"), instance);
                let users = dock.adopt("r01:forged");
                end_and_expect_the_users(dock, &mut run, end, &users, "r01:forged");
            }
        }

        /// Both builders, with the label in the Dockerfile and in the request.
        fn r01_images_that_the_server_built(dock) {
            let script = dock.stage().sandbox.file("request.js");
            let (script, archive) = (script.to_str().unwrap(), dock.stage().sandbox.file("context.tar"));
            let (archive, context) = (archive.to_str().unwrap(), dock.stage().sandbox.file("context"));
            fs::write(script, REQUEST).unwrap();
            fs::create_dir_all(&context).unwrap();
            for version in [1, 2] {
                let (mut run, instance) = start(dock);
                fs::write(context.join("Dockerfile"), format!("FROM {IMAGE}\nLABEL {INSTANCE}={instance} a=b\n")).unwrap();
                let mut tar = std::process::Command::new("tar");
                assert!(tar.args(["-cf", archive, "-C"]).arg(&context).arg(".").status().unwrap().success());
                let build = |rest: &str| format!("node {script} '/v1.41/build?version={version}&t=r01:built{rest}' {archive}");
                assert_eq!(tell(&mut run, &build("&labels=%7B%22own%22%3A%221%22%7D")), 0);
                assert_eq!(label_of(dock, "r01:built"), "");
                let own = "{{.Config.Labels.own}} {{.Config.Labels.a}}";
                assert_eq!(dock.docker().expect(&["image", "inspect", "--format", own, "r01:built"]), "1 b");
                let forged = format!("&labels=%7B%22{INSTANCE}%22%3A%22{instance}%22%7D");
                assert_eq!(tell(&mut run, &build(&forged)), 1);
                wait_until("the refusal is printed", PATIENCE, || run.stderr().contains("labels that begin with 'ostler.' are ostler's own"));
                let users = dock.adopt("r01:built");
                end_and_expect_the_users(dock, &mut run, ENDS[0], &users, "r01:built");
            }
        }

        fn a_request_that_sets_our_labels_is_refused(dock) {
            let (mut run, instance) = start(dock);
            let label = format!("{INSTANCE}={instance}0");
            for line in [
                format!("docker create --label {label} {IMAGE} true"),
                format!("docker network create --label {label} refused"),
                format!("docker volume create --label {label} refused"),
                format!("DOCKER_BUILDKIT=0 docker build --label {label} - </dev/null"),
                format!("docker commit --change 'LABEL {label}' own refused"),
                format!("echo | docker import --change 'LABEL \"{label}\"' - refused"),
            ] {
                let before = run.stderr().matches("are ostler's own").count();
                assert_ne!(tell(&mut run, &line), 0, "{line}");
                wait_until("the refusal is printed", PATIENCE, || run.stderr().matches("are ostler's own").count() > before);
            }
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        /// Without the image the origin of a label is unknown, but the Door knows the ids it has created.
        fn r01_an_image_that_is_gone(dock) {
            let (mut run, users) = start_without_image(dock);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            wait_until("its own are gone", PATIENCE, || dock.containers().is_empty());
            assert_eq!(dock.docker().state(&users), "exited");
            let said = run.stderr();
            assert!(said.contains(&users[..12]), "it is not known whose that is, and that is said: {said}");
            dock.abolish(&users);
            dock.expect_empty();
        }

        fn r01_an_image_that_is_gone_when_a_sweep_comes(dock) {
            let (mut run, users) = start_without_image(dock);
            dock.abandon(&mut run);
            let begin = Instant::now();
            let reap = dock.ostler(&["reap", "--yes"]);
            assert_eq!(reap.status.code(), Some(4), "{reap:?}");
            assert!(begin.elapsed() < PATIENCE, "time does not help, so it is not waited for");
            assert_eq!(dock.containers(), Vec::<String>::new());
            assert_eq!(dock.docker().state(&users), "exited");
            dock.abolish(&users);
            assert!(dock.ostler(&["reap", "--yes"]).status.success());
            dock.expect_empty();
        }
    }

    /// At `strict` the server reaches the engine only through its Door.
    #[test]
    fn r01_at_strict() {
        let dock = &mut Dock::shared(Stage::strict());
        let (mut run, _) = start(dock);
        dock.docker().expect(&["commit", "own", "r01:strict"]);
        let users = dock.adopt("r01:strict");
        end_and_expect_the_users(dock, &mut run, ENDS[0], &users, "r01:strict");
    }
}
