//! The scenes of the bug reports about containers, with as many servers as there were in them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

/// On the engine that the test command starts.
mod engine {
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use ostler_testkit::{Act, Dock, FakeEngine, IMAGE, Launched, Stage, dock_rows, wait_until};
    use rustix::process::Signal;

    const PATIENCE: Duration = Duration::from_secs(30);
    /// Servers at a time, as in the report.
    const PARALLEL: usize = 4;
    /// How often they come and go.
    const ROUNDS: usize = 10;
    /// How often for each way in which somebody is killed.
    const KILL_ROUNDS: usize = 3;
    /// Between two points of the grid of kills, which ends after 450 ms.
    const GRID_STEP: Duration = Duration::from_millis(41);
    /// A wrapper that outlives its docker command by a moment, so that no shell replaces itself by it.
    const SHELL: &str = "docker run -i $IMAGE sleep 100000; true";
    /// The same as the program of a package.
    const PROGRAM: &str = "#!/usr/bin/env node
const words = ['run', '-i', process.env.IMAGE, 'sleep', '100000'];
const docker = require('child_process').spawn('docker', words, { stdio: 'inherit' });
docker.on('exit', () => process.exit());
";
    /// A server that starts a container, which is its own business from then on.
    const DETACHED: &str = "docker run -d $IMAGE sleep 100000 >/dev/null; exec cat";

    /// What stands between ostler and the docker command.
    #[derive(Clone, Copy)]
    enum Wrapper {
        Shell,
        Npx,
    }

    /// A project that has a package with a program called `server`; nothing has to be fetched.
    fn project(dock: &Dock) -> PathBuf {
        let project = dock.stage().sandbox.file("project");
        let package = project.join("node_modules/server");
        if !package.exists() {
            let programs = project.join("node_modules/.bin");
            fs::create_dir_all(&package).unwrap();
            fs::create_dir_all(&programs).unwrap();
            let about = r#"{"name": "server", "version": "1.0.0", "bin": "server.js"}"#;
            fs::write(package.join("package.json"), about).unwrap();
            fs::write(package.join("server.js"), PROGRAM).unwrap();
            let mode = Permissions::from_mode(0o755);
            fs::set_permissions(package.join("server.js"), mode).unwrap();
            symlink("../server/server.js", programs.join("server")).unwrap();
        }
        project
    }

    fn start(dock: &Dock, wrapper: Wrapper) -> Launched {
        let mut command = match wrapper {
            Wrapper::Shell => dock.run_with(&[], &["sh", "-c", SHELL]),
            Wrapper::Npx => {
                let mut command = dock.run_with(&[], &["npx", "--offline", "--no", "server"]);
                command.current_dir(project(dock)).env("npm_config_update_notifier", "false");
                command.env("npm_config_cache", dock.stage().sandbox.file("npm"));
                command
            }
        };
        Launched::start(command.env("IMAGE", IMAGE))
    }

    /// Servers that run at the same time.
    struct Crowd<'a> {
        dock: &'a Dock,
        runs: Vec<Launched>,
    }

    impl<'a> Crowd<'a> {
        fn start(dock: &'a Dock, wrapper: Wrapper) -> Self {
            Self { dock, runs: (0..PARALLEL).map(|_| start(dock, wrapper)).collect() }
        }

        /// The same, once each has its container.
        fn up(dock: &'a Dock, wrapper: Wrapper) -> Self {
            let crowd = Self::start(dock, wrapper);
            wait_until("each has its container", PATIENCE, || crowd.count() == PARALLEL);
            dock.await_running(PARALLEL);
            crowd
        }

        /// How many containers there are: never more than servers whose guardians are there, which can
        /// only have become fewer since.
        fn count(&self) -> usize {
            let live = self.dock.stage().guardians().len().min(PARALLEL);
            let count = self.dock.containers().len();
            assert!(count <= live, "{count} containers of {live} servers");
            count
        }

        /// Waits for the end of all. Nothing is left from the moment on that the last guardian leaves.
        fn expect_end(mut self) {
            wait_until("all guardians have left", PATIENCE, || {
                self.count();
                self.dock.stage().guardians().is_empty()
            });
            assert_eq!(self.dock.containers(), Vec::<String>::new());
            for run in &mut self.runs {
                self.dock.stage().wait_exit(run);
            }
            self.dock.expect_empty();
        }
    }

    /// Each round ends in another way than the one before.
    fn come_and_go(dock: &Dock, wrapper: Wrapper) {
        let ends: [fn(&mut Launched); 2] = [Launched::close_stdin, |run| run.signal(Signal::TERM)];
        for end in ends.into_iter().cycle().take(ROUNDS) {
            let mut crowd = Crowd::up(dock, wrapper);
            crowd.runs.iter_mut().for_each(end);
            crowd.expect_end();
        }
    }

    fn ostler_is_killed(dock: &Dock, wrapper: Wrapper) {
        for _ in 0..KILL_ROUNDS {
            let mut crowd = Crowd::up(dock, wrapper);
            crowd.runs.iter_mut().for_each(|run| run.signal(Signal::KILL));
            crowd.expect_end();
        }
    }

    /// Each client at a point of the grid of its own, counted from its start.
    fn clients_are_killed(dock: &Dock, wrapper: Wrapper) {
        let mut grid = (0..).map(|point| GRID_STEP * point);
        for _ in 0..KILL_ROUNDS {
            let mut crowd = Crowd::start(dock, wrapper);
            let mut ends = BTreeMap::new();
            wait_until("all clients have had their time", PATIENCE, || {
                for pid in dock.stage().named("docker") {
                    let end =
                        ends.entry(pid).or_insert_with(|| Instant::now() + grid.next().unwrap());
                    if *end <= Instant::now() {
                        dock.stage().signal_if_there(pid, Signal::KILL);
                    }
                }
                crowd.runs.iter_mut().all(|run| run.try_exit().is_some())
            });
            assert_eq!(ends.len(), PARALLEL);
            crowd.expect_end();
        }
    }

    #[test]
    fn s01_s02_s04_behind_a_shell() {
        come_and_go(&Dock::shared(Stage::leaf()), Wrapper::Shell);
    }

    #[test]
    fn s01_s02_s04_behind_npx() {
        come_and_go(&Dock::shared(Stage::tree()), Wrapper::Npx);
    }

    #[test]
    fn s01_ostler_is_killed() {
        ostler_is_killed(&Dock::shared(Stage::tree()), Wrapper::Shell);
        ostler_is_killed(&Dock::shared(Stage::leaf()), Wrapper::Npx);
    }

    #[test]
    fn f13_clients_are_killed_at_points_of_a_grid() {
        clients_are_killed(&Dock::shared(Stage::leaf()), Wrapper::Shell);
        clients_are_killed(&Dock::shared(Stage::tree()), Wrapper::Npx);
    }

    dock_rows! {
        shared:

        fn s17_l19_one_of_nine_owners_is_killed(dock) {
            let mut others: Vec<Launched> = (0..8).map(|_| dock.script(&[], DETACHED)).collect();
            let mut kept = dock.await_running(8);
            kept.sort();
            let mut killed = dock.script(&[], &format!("docker run -d $IMAGE sleep 100000; {DETACHED}"));
            dock.await_running(10);
            killed.signal(Signal::KILL);
            dock.stage().wait_exit(&mut killed);
            wait_until("its own are gone", PATIENCE, || dock.containers().len() <= 8);
            let mut left = dock.await_running(8);
            left.sort();
            assert_eq!(left, kept);
            assert_eq!(dock.docker().state(dock.stranger()), "running");
            assert!(others.iter_mut().all(|run| run.try_exit().is_none()));
            others.iter_mut().for_each(Launched::close_stdin);
            for run in &mut others {
                dock.stage().wait_exit(run);
            }
            dock.expect_empty();
        }

        /// Image, command, owner and most of the instance's name are the same, but that is not enough.
        fn s03_removal_is_by_the_whole_label_alone(dock) {
            let mut run = dock.script(&[], DETACHED);
            let own = dock.await_running(1).pop().unwrap();
            let label = |name: &str| dock.inspect(&own)["Config"]["Labels"][name].as_str().unwrap().to_owned();
            let (instance, owner) = (label("ostler.instance"), format!("ostler.owner={}", label("ostler.owner")));
            let mut foreign = [&instance[..instance.len() - 1], &format!("{instance}0")].map(|other| {
                let instance = format!("ostler.instance={other}");
                let labels = ["run", "-d", "--label", &instance, "--label", &owner];
                dock.docker().expect(&[&labels[..], &[IMAGE, "sleep", "100000"]].concat())
            });
            foreign.sort();
            run.close_stdin();
            assert!(dock.stage().wait_exit(&mut run).success());
            let mut left = dock.await_running(2);
            left.sort();
            assert_eq!(left, foreign);
            dock.docker().expect(&["rm", "--force", &foreign[0], &foreign[1]]);
            dock.expect_empty();
        }
    }

    #[test]
    fn s01_all_containers_of_a_killed_owner() {
        let dock = &Dock::shared(Stage::leaf());
        let script =
            "seq 24 | xargs -P 4 -I + docker run -d $IMAGE sleep 100000 >/dev/null; exec cat";
        let mut run = dock.script(&["--containers", "24"], script);
        dock.await_running(24);
        run.signal(Signal::KILL);
        dock.stage().wait_exit(&mut run);
        dock.expect_empty();
    }

    /// The engine takes its time, and whoever has asked for the container is dead when it is there.
    #[test]
    fn f14_a_create_that_outlives_its_owner() {
        const CREATE: &str = "POST /containers/create";
        let (dock, engine) = (&Dock::shared(Stage::leaf()), FakeEngine::start());
        engine.script(CREATE, &[Act::Slow(Duration::from_secs(3))]);
        let mut command = dock.run_with(&[], &["docker", "create", IMAGE, "true"]);
        command.env("DOCKER_API_VERSION", "1.41");
        let host = format!("unix://{}", engine.socket().display());
        let mut run = Launched::start(command.env("DOCKER_HOST", host));
        wait_until("the engine is asked", PATIENCE, || engine.asked(CREATE).len() == 1);
        run.signal(Signal::KILL);
        dock.stage().wait_exit(&mut run);
        assert_eq!(engine.containers(), Vec::<String>::new(), "it was too fast");
        wait_until("it is removed", PATIENCE, || engine.asked("DELETE /containers/").len() == 1);
        wait_until("it is gone", PATIENCE, || engine.containers().is_empty());
        dock.expect_empty();
    }
}
