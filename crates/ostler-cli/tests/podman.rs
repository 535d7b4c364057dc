//! Podman with and without a service: containers end with the server that created them, also in podman's database.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// These tests run one at a time, because podman's locks are machine-wide.
mod engine {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use ostler_testkit::{IMAGE, Launched, Podman, Stage, rows, wait_until};
    use rustix::process::Signal;
    use serde_json::{Value, json};

    /// Podman starts slowly on a loaded machine, and every query starts it.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Starts a shell script as server, in which podman uses the test's store. `$IMAGE` is the image.
    fn script_with(stage: &Stage, podman: &Podman, options: &[&str], script: &str) -> Launched {
        let script = format!("{}{script}", podman.exports());
        let own = stage.run_words_with(options);
        let mut command = stage.command(&own[0]);
        command.args(&own[1..]).args(["sh", "-c", &script]).env("IMAGE", IMAGE);
        Launched::start(&mut command)
    }

    fn script(stage: &Stage, podman: &Podman, script: &str) -> Launched {
        script_with(stage, podman, &[], script)
    }

    fn expect_empty(stage: &Stage, podman: &Podman) {
        podman.expect_nothing_left();
        stage.expect_empty();
    }

    /// The ways in which a client ends its server.
    const ENDS: [fn(&mut Launched); 3] =
        [Launched::close_stdin, |run| run.signal(Signal::TERM), |run| run.signal(Signal::KILL)];

    rows! {
        fn f23_podman_behind_wrappers(stage) {
            let podman = Podman::of(&stage);
            let ways = [
                "sh -c 'podman --log-level error run $IMAGE sleep 100000; true' & exec cat",
                "podman --log-level=error --cgroup-manager cgroupfs container run -d $IMAGE sleep 100000; exec cat",
                "podman run -d --restart always $IMAGE sh -c 'trap \"\" TERM; sleep 100000'; exec cat",
            ];
            for (way, end) in ways.iter().zip(ENDS) {
                let mut run = script(&stage, &podman, way);
                let container = podman.await_running(1).pop().unwrap();
                let policy = &podman.inspect(&container)["HostConfig"]["RestartPolicy"]["Name"];
                assert!(["", "no"].contains(&policy.as_str().unwrap()), "{policy}");
                end(&mut run);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        fn f23_a_configured_podman(stage) {
            let podman = Podman::of(&stage);
            for (program, end) in ["podman", "/usr/bin/podman"].into_iter().zip(&ENDS[1..]) {
                let mut command = stage.run(&[program, "run", "-i", IMAGE, "sleep", "100000"]);
                let mut run = Launched::start(command.envs(podman.env()));
                let container = podman.await_running(1).pop().unwrap();
                assert_eq!(podman.inspect(&container)["HostConfig"]["Init"], true);
                end(&mut run);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        fn f23_the_podman_command_is_killed(stage) {
            let podman = Podman::of(&stage);
            let mut run = script(&stage, &podman, "podman run -i $IMAGE sleep 100000");
            podman.await_running(1);
            for pid in stage.named("podman") {
                stage.signal_if_there(pid, Signal::KILL);
            }
            stage.wait_exit(&mut run);
            expect_empty(&stage, &podman);
        }

        fn f23_owner_and_guardian_are_killed(stage) {
            let podman = Podman::of(&stage);
            let made = "podman run -d --name horse $IMAGE sleep 100000; exec sleep 100000";
            let mut run = script(&stage, &podman, made);
            let horse = podman.await_running(1).pop().unwrap();
            // The commands do not wait long for podman, so the first attempts may miss the container.
            wait_until("ps knows it", PATIENCE, || {
                stage.ostler_json(&["ps", "--json"])[0]["containers"][0]["id"] == json!(horse)
            });
            wait_until("why knows it", PATIENCE, || {
                let why = stage.try_ostler(&["why", "horse"]).stdout;
                String::from_utf8(why).unwrap().contains("was caused by the server 'sh'")
            });
            stage.abandon(&mut run);
            wait_until("reap names it", PATIENCE, || {
                let dry = stage.try_ostler(&["reap"]).stdout;
                String::from_utf8(dry).unwrap().contains(&format!("{} horse ", &horse[..12]))
            });
            assert_eq!(podman.containers(), [horse]);
            assert!(stage.try_ostler(&["reap", "--yes"]).status.success());
            assert_eq!(podman.containers(), Vec::<String>::new());
            expect_empty(&stage, &podman);
        }

        /// The kills come at fixed times of a create, which takes about 300 ms.
        fn f23_podman_is_killed_in_the_middle_of_a_create(stage) {
            let podman = Podman::of(&stage);
            let made = "podman run -d $IMAGE sleep 100000 & podman run --rm $IMAGE sleep 100000 & echo begun; wait";
            for delay in [0, 50, 100, 150, 200, 300, 400] {
                let mut run = script(&stage, &podman, made);
                assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"begun");
                std::thread::sleep(Duration::from_millis(delay));
                for pid in stage.named("podman") {
                    stage.signal_if_there(pid, Signal::KILL);
                }
                run.signal(Signal::KILL);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        fn pods_and_networks_end_with_the_server(stage) {
            let podman = Podman::of(&stage);
            let made = "podman network create ours; podman pod create --name pod;
                podman run -d --pod pod $IMAGE sleep 100000; exec cat";
            for end in &ENDS[1..] {
                // Podman's list of networks depends on HOME.
                let mut command = stage.run(&["sh", "-c", made]);
                let mut run = Launched::start(command.envs(podman.env()).env("IMAGE", IMAGE));
                // The infra container of the pod carries the labels too.
                podman.await_running(2);
                end(&mut run);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        /// Also if all calls run at the same time.
        fn s11_creates_above_the_cap_are_refused(stage) {
            let podman = Podman::of(&stage);
            let made = "for i in 1 2 3 4; do (podman run -d $IMAGE sleep 100000; echo status $? >&2) & done;
                wait; echo all >&2; exec cat";
            let mut run = script_with(&stage, &podman, &["--containers", "2"], made);
            wait_until("all were tried", PATIENCE, || run.stderr().contains("all\n"));
            let said = run.stderr();
            let count = |line: &str| said.lines().filter(|one| *one == line).count();
            assert_eq!(count("Error: ostler: this server has reached its limit of 2 containers"), 2, "{said}");
            assert_eq!((count("status 0"), count("status 125")), (2, 2), "{said}");
            assert_eq!(podman.containers().len(), 2);
            run.close_stdin();
            stage.wait_exit(&mut run);
            expect_empty(&stage, &podman);
        }

        fn a_removed_detached_container_is_reported(stage) {
            let podman = Podman::of(&stage);
            let idle = "sh -c 'trap exit TERM; sleep 100000 & wait'";
            let made = format!("{}podman run -d $IMAGE {idle}; podman run $IMAGE {idle} & exec cat", podman.exports());
            let mut command = stage.command(&stage.run_words()[0]);
            command.args(["run", "--grace", "20s", "--", "sh", "-c", &made]).env("IMAGE", IMAGE);
            let mut run = Launched::start(&mut command);
            let attached = |id: &String| !podman.inspect(id)["Config"]["CreateCommand"].to_string().contains("\"-d\"");
            let (_, detached): (Vec<_>, Vec<_>) = podman.await_running(2).into_iter().partition(attached);
            run.close_stdin();
            stage.wait_exit(&mut run);
            let said = run.stderr();
            let line = format!("removed container {} (localhost/{IMAGE}:latest: ", &detached[0][..12]);
            assert!(said.contains(&line) && said.contains("trap exit TERM"), "{said}");
            assert_eq!(said.matches("removed container").count(), 1, "{said}");
            assert_eq!(podman.containers(), Vec::<String>::new());
            expect_empty(&stage, &podman);
        }

        fn podmans_output_and_exit_status_pass_unchanged(stage) {
            let podman = Podman::of(&stage);
            let mut run = script(&stage, &podman, "podman run --rm $IMAGE sh -c 'echo hello; exit 7'");
            assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"hello");
            assert_eq!(stage.wait_exit(&mut run).code(), Some(7));
            let mut run = script(&stage, &podman, "podman run no-such-image-anywhere:1");
            assert_eq!(stage.wait_exit(&mut run).code(), Some(125));
            let mut run = script(&stage, &podman, "podman --no-such-flag; podman version --format '{{.Client.Version}}'");
            assert!(run.line(PATIENCE).unwrap().is_some());
            wait_until("it complains", PATIENCE, || run.stderr().contains("unknown flag: --no-such-flag"));
            stage.wait_exit(&mut run);
            // Resolving links finds no other program, and without its configuration the wrapper is plain podman.
            let mut run = script(&stage, &podman, "$(readlink -f $(command -v podman)) run --rm $IMAGE echo real;
                rm $(dirname $(command -v podman))/orders; podman run --rm $IMAGE echo real");
            for _ in 0..2 {
                assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"real");
            }
            stage.wait_exit(&mut run);
            expect_empty(&stage, &podman);
            assert_eq!(stage.ostler_json(&["ps", "--json"]), Value::Array(Vec::new()));
        }

        fn a_service_has_a_door(stage) {
            let mut podman = Podman::of(&stage);
            let url = podman.serve();
            let ways = [
                "podman run -d $IMAGE sleep 100000",
                "podman --remote run $IMAGE sleep 100000 &",
                "podman --url $URL run -d --restart always $IMAGE sleep 100000",
                "env -u CONTAINER_HOST podman --url $URL create $IMAGE true; podman start -l",
                "DOCKER_HOST=$CONTAINER_HOST docker run -d --network none --restart always $IMAGE sleep 100000",
            ];
            for (way, end) in ways.iter().zip(ENDS.iter().cycle()) {
                let way = format!("{}{way}\nexec cat", podman.exports());
                let mut command = stage.run(&["sh", "-c", &way]);
                command.env("IMAGE", IMAGE).env("URL", &url).env("CONTAINER_HOST", &url);
                let mut run = Launched::start(&mut command);
                wait_until("it is there", PATIENCE, || podman.containers().len() == 1);
                let container = podman.containers().pop().unwrap();
                let policy = &podman.inspect(&container)["HostConfig"]["RestartPolicy"]["Name"];
                assert!(["", "no"].contains(&policy.as_str().unwrap()), "{policy}");
                // All creates came through the Door, which has noted them.
                wait_until("it is noted", PATIENCE, || notes(&stage, "door").len() == 1);
                assert_eq!(notes(&stage, "podman").len(), 0, "{way}");
                end(&mut run);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        fn a_podman_service_may_be_dockers_engine_too(stage) {
            let mut podman = Podman::of(&stage);
            let url = podman.serve();
            let both = "docker run -d --network none $IMAGE sleep 100000; podman run -d $IMAGE sleep 100000; exec cat";
            for end in ENDS {
                let both = format!("{}{both}", podman.exports());
                let mut command = stage.run(&["sh", "-c", &both]);
                command.env("IMAGE", IMAGE).env("DOCKER_HOST", &url).env("CONTAINER_HOST", &url);
                let mut run = Launched::start(&mut command);
                podman.await_running(2);
                assert_eq!(notes(&stage, "door").len(), 1);
                end(&mut run);
                stage.wait_exit(&mut run);
                expect_empty(&stage, &podman);
            }
        }

        fn only_the_chosen_engine_is_tracked(stage) {
            let podman = Podman::of(&stage);
            for engine in ["docker", "off"] {
                let made = "command -v podman; exec cat";
                let mut run = script_with(&stage, &podman, &["--engine", engine], made);
                assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"/usr/bin/podman");
                run.close_stdin();
                stage.wait_exit(&mut run);
            }
            let made = "echo $DOCKER_HOST | grep -c /doors/; podman run -d $IMAGE sleep 100000; exec cat";
            let mut run = script_with(&stage, &podman, &["--engine", "podman"], made);
            assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"0");
            podman.await_running(1);
            run.signal(Signal::KILL);
            stage.wait_exit(&mut run);
            expect_empty(&stage, &podman);
        }
    }

    /// Podman uses a service only if it is told to, because it can do less with one. Not tested as root, whose service
    /// socket is the machine's.
    #[test]
    fn podman_uses_no_service_that_is_not_configured() {
        let stage = Stage::tree();
        let mut podman = Podman::of(&stage);
        let place = stage.sandbox.runtime().join("podman");
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o777)).unwrap();
        podman.serve_at(&place.join("podman.sock"));
        let asked = "podman info --format '{{.Host.ServiceIsRemote}}'";
        let made = format!("{asked}; podman run -d $IMAGE sleep 100000 >/dev/null;
            DOCKER_HOST=$CONTAINER_HOST docker run -d --network none $IMAGE sleep 100000 >/dev/null; exec cat");
        for end in ENDS {
            let mut run = script(&stage, &podman, &made);
            assert_eq!(run.line(PATIENCE).unwrap().unwrap(), b"false");
            podman.await_running(2);
            assert_eq!((notes(&stage, "door").len(), notes(&stage, "podman").len()), (1, 1));
            end(&mut run);
            stage.wait_exit(&mut run);
            podman.expect_nothing_left();
            wait_until("ostler has left", PATIENCE, || stage.ledgers().is_empty());
        }
        drop(podman);
        std::fs::remove_dir_all(place).unwrap();
        stage.expect_empty();
    }

    /// At `strict` podman runs in PID and mount namespaces; the porter that removes its containers does not.
    #[test]
    fn f23_at_strict() {
        let stage = Stage::strict();
        let podman = Podman::of(&stage);
        for end in ENDS {
            let mut run = script(&stage, &podman, "podman run -d $IMAGE sleep 100000; exec cat");
            podman.await_running(1);
            end(&mut run);
            stage.wait_exit(&mut run);
            expect_empty(&stage, &podman);
        }
    }

    /// The notes of this kind beside the ledgers.
    fn notes(stage: &Stage, kind: &str) -> Vec<std::path::PathBuf> {
        let files = stage.ledgers().into_iter().flat_map(std::fs::read_dir).flatten().flatten();
        let paths = files.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|found| found == kind)).collect()
    }
}
