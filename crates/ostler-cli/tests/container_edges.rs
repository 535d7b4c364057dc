//! Containers of servers that do not take their engine from the environment: flags, contexts, ssh, bypasses.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// Tests on the shared engine of the test run.
mod engine {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::Duration;

    use ostler_testkit::{Dock, IMAGE, Launched, Stage, dock_rows, wait_until};
    use rustix::process::Signal;
    use serde_json::Value;

    const PATIENCE: Duration = Duration::from_secs(30);
    /// No engine listens here, so the command line has to win over the environment.
    const NOWHERE: &str = "unix:///nonexistent/docker.sock";

    /// The ways in which a client ends its server.
    const ENDS: [fn(&mut Launched); 3] =
        [Launched::close_stdin, |run| run.signal(Signal::TERM), |run| run.signal(Signal::KILL)];

    fn end_and_expect_nothing(dock: &Dock, mut run: Launched, end: fn(&mut Launched)) {
        end(&mut run);
        dock.stage().wait_exit(&mut run);
        dock.expect_empty();
    }

    /// Puts a program of this name first on the `PATH` of `command`.
    fn shadow(dock: &Dock, command: &mut Command, name: &str, script: &str) -> PathBuf {
        let directory = dock.stage().sandbox.file("shadows");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        let own = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{own}", directory.display()));
        path
    }

    /// The docker command's configuration, with a context for the engine called `here`.
    fn config(dock: &Dock) -> PathBuf {
        let directory = dock.stage().sandbox.file("config");
        let address = format!("host={}", dock.docker().host());
        let mut create = dock.stage().command("docker");
        create.args(["context", "create", "here", "--docker", &address]);
        assert!(create.env("DOCKER_CONFIG", &directory).output().unwrap().status.success());
        directory
    }

    fn state(dock: &Dock) -> Value {
        let ps = dock.ostler(&["ps", "--json"]);
        serde_json::from_slice::<Value>(&ps.stdout).unwrap()[0]["state"].clone()
    }

    dock_rows! {
        shared:

        fn f22_a_configured_command_that_names_its_engine(dock) {
            let (host, config) = (dock.docker().host(), config(dock));
            let config = config.to_str().unwrap();
            for (globals, end) in [
                (&["-H", &host][..], ENDS[0]),
                (&["--context", "here"], ENDS[1]),
                (&["--config", config, "-c=here", "-l", "info"], ENDS[2]),
            ] {
                let words = ["run", "-i", IMAGE, "sleep", "100000"];
                let words = [&["docker"], globals, &words[..]].concat();
                let mut command = dock.run_with(&[], &words);
                command.env("DOCKER_HOST", NOWHERE).env("DOCKER_CONFIG", config);
                let run = Launched::start(&mut command);
                let container = dock.await_running(1).pop().unwrap();
                assert_eq!(dock.inspect(&container)["HostConfig"]["Init"], true);
                end_and_expect_nothing(dock, run, end);
            }
        }

        /// A fake ssh that only forwards bytes stands for another machine.
        fn l23_an_engine_behind_ssh(dock) {
            let far_end = format!("exec docker --host {} system dial-stdio", dock.docker().host());
            let script = "docker run -d $IMAGE sleep 100000; exec cat";
            let configured = ["docker", "-H", "ssh://far", "run", "-i", IMAGE, "sleep", "100000"];
            for (words, end) in [
                (&["sh", "-c", script][..], ENDS[0]), (&["sh", "-c", script], ENDS[2]), (&configured, ENDS[1]),
            ] {
                let mut command = dock.run_with(&[], words);
                shadow(dock, &mut command, "ssh", &far_end);
                let run = Launched::start(command.env("DOCKER_HOST", "ssh://far").env("IMAGE", IMAGE));
                dock.await_running(1);
                end_and_expect_nothing(dock, run, end);
            }
        }

        fn l23_an_engine_behind_ssh_that_is_cut_off(dock) {
            let far_end = format!("exec docker --host {} system dial-stdio", dock.docker().host());
            let mut command = dock.run_with(&[], &["sh", "-c", "docker run -d $IMAGE sleep 100000; exec cat"]);
            let ssh = shadow(dock, &mut command, "ssh", &far_end);
            let mut run = Launched::start(command.env("DOCKER_HOST", "ssh://far").env("IMAGE", IMAGE));
            dock.await_running(1);
            let cut = cut(&ssh);
            run.close_stdin();
            dock.stage().wait_exit(&mut run);
            wait_until("it is unverified", PATIENCE, || state(dock) == "unverified");
            assert_eq!(dock.containers().len(), 1);
            fs::rename(cut, ssh).unwrap();
            dock.expect_empty();
        }
    }

    /// At `strict` the Door covers the engine's socket, so a wrapper cannot bypass it by changing the environment.
    #[test]
    fn f22_wrappers_that_bypass_the_environment_at_strict() {
        for stage in [Stage::strict(), Stage::strict_user()] {
            let dock = &Dock::shared(stage);
            let (host, config) = (dock.docker().host(), config(dock));
            let config = config.display();
            let ways = [
                format!("docker --host {host}"),
                format!("env -i $(command -v docker) --host {host}"),
                format!("docker --config {config} --context here"),
                format!("DOCKER_HOST={host} docker"),
            ];
            for (way, end) in ways.iter().zip(ENDS.iter().cycle()) {
                let script = format!("{way} run -d {IMAGE} sleep 100000 >/dev/null; exec cat");
                let run = dock.script(&[], &script);
                dock.await_running(1);
                end_and_expect_nothing(dock, run, *end);
            }
        }
    }

    /// Replaces a program by one that fails, and returns the new path of the original.
    fn cut(program: &Path) -> PathBuf {
        let aside = program.with_extension("aside");
        fs::rename(program, &aside).unwrap();
        fs::write(program, "#!/bin/sh\nexit 255\n").unwrap();
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
        aside
    }
}
