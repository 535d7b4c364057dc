//! Containers end with the server that created them, whichever other process is killed.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// Tests on the shared engine of the test run, or on a private one if the engine has to fail.
mod engine {
    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use ostler_testkit::{Dock, IMAGE, Launched, Stage, dock_rows, is_alive, wait_until};
    use rustix::process::Signal;
    use serde_json::{Value, json};

    const PATIENCE: Duration = Duration::from_secs(30);
    /// Command of a container that ignores both the end of its input and SIGTERM.
    const STUBBORN: &[&str] = &["sh", "-c", "trap '' TERM; while true; do sleep 1; done"];
    /// A server that starts such a container, detached.
    const DETACHED: &str = "docker run -d $IMAGE sleep 100000 >/dev/null; exec sleep 100000";

    /// Starts a configured `docker run` with this command, and waits until the container runs.
    fn docker_run(dock: &Dock, options: &[&str], command: &[&str]) -> (Launched, String) {
        let before = dock.containers();
        let words = [&["docker", "run", "-i"], options, &[IMAGE], command].concat();
        let run = Launched::start(&mut dock.run_with(&[], &words));
        let all = dock.await_running(before.len() + 1);
        (run, all.into_iter().find(|id| !before.contains(id)).unwrap())
    }

    /// The ways in which a client ends its server.
    const ENDS: [fn(&Dock, &mut Launched); 4] = [
        |_, run| run.close_stdin(),
        |_, run| run.signal(Signal::TERM),
        |_, run| run.signal(Signal::KILL),
        // Kills the server itself: the docker command, whose death does not end its container.
        |dock, _| dock.stage().signal(dock.stage().named("docker")[0], Signal::KILL),
    ];

    dock_rows! {
        shared:

        fn l15_a_container_ends_with_its_client(dock) {
            for end in ENDS {
                let (mut run, _) = docker_run(dock, &["--rm"], &["sleep", "100000"]);
                end(dock, &mut run);
                dock.stage().wait_exit(&mut run);
                dock.expect_empty();
            }
        }

        fn l16_a_container_behind_wrappers(dock) {
            let wrapped = "sh -c 'sh -c \"docker run -i $IMAGE sleep 100000\"; true' & wait";
            for end in &ENDS[..3] {
                let mut run = dock.script(&[], wrapped);
                dock.await_running(1);
                end(dock, &mut run);
                dock.stage().wait_exit(&mut run);
                dock.expect_empty();
            }
            // The wrapper dies first, and passes no signal on.
            let mut run = dock.script(&[], wrapped);
            dock.await_running(1);
            for wrapper in dock.stage().named("sh") {
                dock.stage().signal_if_there(wrapper, Signal::KILL);
            }
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn l17_a_container_that_ignores_term(dock) {
            let (mut run, container) = docker_run(dock, &["--rm"], STUBBORN);
            assert_eq!(dock.inspect(&container)["HostConfig"]["Init"], true);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn l17b_containers_without_rm_are_removed(dock) {
            let script = "docker run $IMAGE true; docker create $IMAGE true; docker run $IMAGE false;
                docker run $IMAGE no-such-command; echo made; exec cat";
            let mut run = dock.script(&[], script);
            wait_until("they are there", PATIENCE, || dock.containers().len() == 4);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn l18_networks_and_anonymous_volumes_are_removed(dock) {
            let script = "docker network create net; docker volume create kept;
                docker run -d --network net --volume /anonymous --volume kept:/kept $IMAGE sleep 100000;
                docker run -d --network net $IMAGE sleep 100000; exec cat";
            let mut run = dock.script(&[], script);
            dock.await_running(2);
            assert_eq!(dock.docker().networks("ostler.instance").len(), 1);
            assert_eq!(dock.docker().volumes().len(), 2);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            assert_eq!(dock.docker().volumes(), ["kept"]);
        }

        fn l19_l20_the_same_image_of_another_session(dock) {
            let (mut kept, container) = docker_run(dock, &["--rm"], &["sleep", "100000"]);
            for end in &ENDS[..3] {
                let mut run = dock.script(&[], DETACHED);
                dock.await_running(2);
                end(dock, &mut run);
                dock.stage().wait_exit(&mut run);
                wait_until("its own are gone", PATIENCE, || dock.containers().len() == 1);
                assert_eq!(dock.containers(), std::slice::from_ref(&container));
                assert_eq!(dock.docker().state(&container), "running");
                assert!(kept.try_exit().is_none());
            }
            kept.close_stdin();
            dock.stage().wait_exit(&mut kept);
            dock.expect_empty();
        }

        fn f3_the_next_start_removes_containers_of_dead_owners(dock) {
            let mut run = dock.script(&[], DETACHED);
            dock.await_running(1);
            dock.abandon(&mut run);
            let mut next = dock.script(&["--engine", "off"], "exec cat");
            dock.expect_no_containers();
            wait_until("its sweep is done", PATIENCE, || dock.stage().ledgers().len() == 1);
            next.close_stdin();
            dock.stage().wait_exit(&mut next);
            dock.expect_empty();
        }

        fn a_porter_that_is_killed_is_replaced(dock) {
            let mut run = dock.script(&[], "while read image; do docker run -d $image sleep 100000; done");
            for count in 1..=2 {
                run.write(format!("{IMAGE}\n").as_bytes(), PATIENCE).unwrap();
                // The client prints the container's id once it has the response.
                assert!(run.line(PATIENCE).unwrap().is_some());
                dock.await_running(count);
                dock.stage().signal(dock.stage().named("ostler-porter")[0], Signal::KILL);
                wait_until("it is dead", PATIENCE, || dock.stage().named("ostler-porter").is_empty());
            }
            run.close_stdin();
            assert!(dock.stage().wait_exit(&mut run).success());
            dock.expect_empty();
        }

        fn f4_a_guardian_that_is_killed_leaves_no_container(dock) {
            let mut run = dock.script(&[], DETACHED);
            dock.await_running(1);
            dock.stage().signal(dock.stage().guardians()[0], Signal::KILL);
            dock.stage().wait_exit(&mut run);
            assert!(run.stderr().contains("its guardian was killed"), "{}", run.stderr());
            dock.expect_empty();
        }

        fn a_porter_without_a_guardian_goes_on(dock) {
            let mut run = dock.script(&[], DETACHED);
            dock.await_running(1);
            let pids = [run.pid(), dock.stage().guardians()[0]];
            for pid in pids {
                dock.stage().signal(pid, Signal::KILL);
            }
            dock.stage().wait_exit(&mut run);
            dock.expect_no_containers();
            wait_until("it has left", PATIENCE, || dock.stage().named("ostler-porter").is_empty());
            assert_eq!(dock.notes().len(), 0);
            dock.ostler(&["reap", "--yes"]);
            dock.expect_empty();
        }

        fn s11_creates_above_the_cap_are_refused(dock) {
            let script = "for i in 1 2 3; do docker run -d $IMAGE sleep 100000; done; exec cat";
            let mut run = dock.script(&["--containers", "2"], script);
            let said = "Error response from daemon: ostler: this server has reached its limit of 2 containers";
            wait_until("the third is refused", PATIENCE, || run.stderr().contains(said));
            assert_eq!(dock.containers().len(), 2);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn a_removed_detached_container_is_reported(dock) {
            let script = "docker run -d $IMAGE sh -c 'trap exit TERM; sleep 100000 & wait'; exec cat";
            let mut command = dock.stage().command(&dock.stage().run_words()[0]);
            command.args(["run", "--grace", "20s", "--", "sh", "-c", script]).env("IMAGE", IMAGE);
            let mut run = Launched::start(command.env("DOCKER_HOST", dock.docker().host()));
            let container = dock.await_running(1).pop().unwrap();
            run.close_stdin();
            assert!(dock.stage().wait_exit(&mut run).success());
            let said = run.stderr();
            let line = format!("removed container {} ({IMAGE}: ", &container[..12]);
            assert!(said.contains(&line) && said.contains("trap exit TERM"), "{said}");
            assert_eq!(dock.containers(), Vec::<String>::new());
            dock.stage().assert_empty_now();
        }

        fn f22_a_command_that_names_its_engine_goes_through_the_door(dock) {
            let words = ["docker", "-H", &dock.docker().host(), "run", "-i", IMAGE, "sleep", "100000"];
            let mut command = dock.run_with(&[], &words);
            let mut run = Launched::start(command.env("DOCKER_HOST", "unix:///nonexistent"));
            dock.await_running(1);
            run.signal(Signal::KILL);
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
        }

        fn f22_an_unsupported_engine_is_reported(dock) {
            let mut command = dock.run_with(&[], &["cat"]);
            let mut run = Launched::start(command.env_remove("DOCKER_HOST").env("DOCKER_CONTEXT", "elsewhere"));
            let said = "its containers, if any, are not followed: there is no docker context 'elsewhere'";
            wait_until("the reason is printed", PATIENCE, || run.stderr().contains(said));
            run.close_stdin();
            assert!(dock.stage().wait_exit(&mut run).success());
            dock.stage().assert_empty_now();
        }

        fn with_the_engine_off_containers_are_the_users_own(dock) {
            let mut run = dock.script(&["--engine", "off"], "docker run -d --name own $IMAGE sleep 100000; exec cat");
            wait_until("it runs", PATIENCE, || {
                dock.docker().command().args(["inspect", "own"]).output().unwrap().status.success()
            });
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            assert_eq!(dock.docker().state("own"), "running");
        }

    }

    dock_rows! {
        private:

        /// The engine is stopped in the middle of a create, and completes it after its client is dead.
        fn l21_r6_the_client_dies_in_the_middle_of_a_create(dock) {
            for end in ENDS {
                // A first docker command makes the guardian start the porter before the engine is stopped.
                let script = "docker version >/dev/null; read go; DOCKER_API_VERSION=1.41 docker create $IMAGE true & exec cat";
                let mut run = dock.script(&[], script);
                wait_until("the porter runs", PATIENCE, || dock.stage().named("ostler-porter").len() == 1);
                wait_until("the first docker command has ended", PATIENCE, || dock.stage().named("docker").is_empty());
                dock.freeze_engine();
                run.write(b"go\n", PATIENCE).unwrap();
                dock.await_creates(1);
                let client = dock.stage().named("docker")[0];
                end(dock, &mut run);
                wait_until("the client is dead", PATIENCE, || !is_alive(client));
                dock.thaw_engine();
                if run.try_exit().is_none() {
                    run.close_stdin();
                }
                dock.stage().wait_exit(&mut run);
                dock.expect_empty();
            }
        }

        fn l22_restart_policies_have_no_effect(dock) {
            let script = "c=$(docker run -d --restart always $IMAGE sleep 100000);
                docker update --restart always $c; exec cat";
            let mut run = dock.script(&[], script);
            let container = dock.await_running(1).pop().unwrap();
            let policy = || dock.inspect(&container)["HostConfig"]["RestartPolicy"]["Name"].clone();
            assert_eq!(policy(), "no");
            wait_until("docker update is done", PATIENCE, || dock.stage().named("docker").is_empty());
            assert_eq!(policy(), "no");
            run.signal(Signal::KILL);
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            dock.kill_engine();
            dock.revive_engine();
            assert_eq!(dock.containers(), Vec::<String>::new());
        }

        /// The container stays recorded, is shown as unverified, and is removed as soon as the engine is back.
        fn l24_the_engine_is_down_when_its_server_ends(dock) {
            for end in &ENDS[1..3] {
                let mut run = dock.script(&[], DETACHED);
                dock.await_running(1);
                dock.kill_engine();
                end(dock, &mut run);
                dock.stage().wait_exit(&mut run);
                let state = || serde_json::from_slice::<Value>(&dock.ostler(&["ps", "--json"]).stdout).unwrap()[0]["state"].clone();
                wait_until("it is unverified", PATIENCE, || state() == "unverified");
                assert_eq!(dock.notes().len(), 1);
                dock.revive_engine();
                dock.expect_empty();
            }
        }

        fn f3_owner_guardian_and_porter_are_killed(dock) {
            let mut run = dock.script(&[], DETACHED);
            dock.await_running(1);
            dock.abandon(&mut run);
            assert_eq!(dock.containers().len(), 1);
            assert_eq!(dock.notes().len(), 1);
            dock.kill_engine();
            let reap = dock.ostler(&["reap", "--yes", "--json"]);
            let found: Value = serde_json::from_slice(&reap.stdout).unwrap();
            assert_eq!((reap.status.code(), &found[0]["outcome"]), (Some(4), &json!("left")));
            dock.revive_engine();
            assert!(dock.ostler(&["reap", "--yes"]).status.success());
            assert_eq!(dock.containers(), Vec::<String>::new());
            dock.expect_empty();
        }
    }

    /// The server is in its own namespace, the porter is not.
    #[test]
    fn l15_at_strict() {
        for stage in [Stage::strict(), Stage::strict_user()] {
            let dock = &Dock::shared(stage);
            for end in &ENDS[..3] {
                let (mut run, _) = docker_run(dock, &["--rm"], &["sleep", "100000"]);
                end(dock, &mut run);
                dock.stage().wait_exit(&mut run);
                dock.expect_empty();
            }
        }
    }

    /// Only root may signal processes in a container.
    #[test]
    fn f21_a_command_in_a_foreign_container_ends_and_the_container_stays() {
        let dock = &Dock::shared(Stage::leaf());
        let commands = || dock.docker().expect(&["top", dock.stranger(), "-eo", "pid,args"]);
        for end in ENDS {
            let words = ["docker", "exec", "-i", dock.stranger(), "sleep", "77777"];
            let mut run = Launched::start(&mut dock.run_with(&[], &words));
            wait_until("it runs", PATIENCE, || commands().contains("sleep 77777"));
            end(dock, &mut run);
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            assert_eq!(commands().lines().count(), 2, "{}", commands());
        }
    }

    /// A container that binds the engine's socket, or a parent directory of it, gets the Door instead.
    #[test]
    fn f18_r9_a_container_that_creates_others_until_it_is_gone() {
        let dock = &Dock::shared(Stage::leaf());
        let client = Command::new("sh").args(["-c", "command -v docker"]).output().unwrap();
        let client = String::from_utf8(client.stdout).unwrap();
        let (socket, client) = (dock.docker().socket().to_str().unwrap(), client.trim());
        let place = Path::new(socket).parent().unwrap().to_str().unwrap();
        let binds = [format!("{socket}:/s/docker.sock"), format!("{place}:/s:ro")];
        for (bind, end) in binds.iter().zip(&ENDS[1..3]) {
            let endless = "while true; do docker run -d $IMAGE sleep 100000; sleep 0.1; done";
            let client = format!("{client}:/bin/docker:ro");
            let options = [
                "-e",
                "DOCKER_HOST=unix:///s/docker.sock",
                "-e",
                "IMAGE",
                "-v",
                bind,
                "-v",
                &client,
            ];
            let words =
                [&["docker", "run", "-d"], &options[..], &[IMAGE, "sh", "-c", endless]].concat();
            let script = format!("{}; exec sleep 100000", quoted(&words));
            let mut run = dock.script(&[], &script);
            wait_until("others are there", PATIENCE, || dock.containers().len() >= 4);
            end(dock, &mut run);
            dock.stage().wait_exit(&mut run);
            dock.expect_empty();
            assert_eq!(dock.docker().containers("ostler.instance").len(), 1, "the stranger's");
        }
    }

    /// Quotes words for a shell.
    fn quoted(words: &[&str]) -> String {
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    }

    /// No process of another boot can be alive, but its containers can exist.
    #[test]
    fn f25_containers_of_another_boot() {
        let dock = &Dock::shared(Stage::tree());
        let mut run = dock.script(&[], DETACHED);
        dock.await_running(1);
        dock.abandon(&mut run);
        dock.stage().sandbox.expect_no_process_left(PATIENCE);
        let ledger = dock.stage().ledgers()[0].join("ledger");
        let text = fs::read_to_string(&ledger).unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        fs::write(&ledger, text.replace(boot.trim(), "another")).unwrap();
        assert!(dock.ostler(&["reap", "--yes"]).status.success());
        assert_eq!(dock.containers(), Vec::<String>::new());
        dock.expect_empty();
    }
}
