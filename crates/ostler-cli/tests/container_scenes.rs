//! The situations of the bug reports about containers, with as many servers as in the reports.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::time::Duration;

use ostler_testkit::{Dock, IMAGE, Launched, Stage, wait_until};
use rustix::process::Signal;

const PATIENCE: Duration = Duration::from_secs(30);
/// A server that starts a detached container.
const DETACHED: &str = "docker run -d $IMAGE sleep 100000 >/dev/null; exec cat";

/// Servers behind wrappers, on the shared engine of the test run.
mod engine {
    use std::collections::BTreeMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::time::Instant;

    use ostler_testkit::{Act, FakeEngine, Process, dock_rows};

    use super::*;

    /// Concurrent servers, as in the report.
    const PARALLEL: usize = 4;
    /// Half of them behind each.
    const MIXED: [Wrapper; PARALLEL] = [Wrapper::Shell, Wrapper::Npx, Wrapper::Shell, Wrapper::Npx];
    /// Number of rounds of starting and ending.
    const ROUNDS: usize = 10;
    /// Number of rounds for each process that is killed.
    const KILL_ROUNDS: usize = 3;
    /// Delay between two lists of containers; the docker command takes as long as a container.
    const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
    /// Distance of two kill times; the last one is at 450 ms.
    const GRID_STEP: Duration = Duration::from_millis(41);
    /// A wrapper with a command after docker, so that the shell does not exec docker in its own place.
    const SHELL: &str = "docker run -i $IMAGE sleep 100000; true";
    /// The same as the program of a package.
    const PROGRAM: &str = "#!/usr/bin/env node
const words = ['run', '-i', process.env.IMAGE, 'sleep', '100000'];
const docker = require('child_process').spawn('docker', words, { stdio: 'inherit' });
docker.on('exit', () => process.exit());
";
    /// A client whose first request is the create: `ask` sends it, and reports when it was sent.
    const CLIENT: &str = r"
        const door = process.env.DOCKER_HOST.slice('unix://'.length);
        const body = JSON.stringify({ Image: process.env.IMAGE, Cmd: ['sleep', '100000'] });
        const head = 'POST /v1.41/containers/create HTTP/1.1\r\nHost: docker\r\n' +
            `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
        const ask = done => {
            const client = require('net').connect(door, () => client.write(head + body));
            client.on('connect', () => done(client)).on('error', () => {});
        };
        process.stdin.resume();
    ";

    /// A server that is such a client.
    fn client(dock: &Dock, engine: &str, script: &str) -> Launched {
        let mut command = dock.run_with(&[], &["node", "-e", &format!("{CLIENT}\n{script}")]);
        Launched::start(command.env("IMAGE", IMAGE).env("DOCKER_HOST", engine))
    }

    /// The program between ostler and the docker command.
    #[derive(Clone, Copy)]
    enum Wrapper {
        Shell,
        Npx,
    }

    /// A project with an installed package that has a program called `server`; npx downloads nothing.
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

    /// Concurrent servers.
    struct Crowd<'a> {
        dock: &'a Dock,
        runs: Vec<Launched>,
    }

    impl<'a> Crowd<'a> {
        fn start(dock: &'a Dock, wrappers: [Wrapper; PARALLEL]) -> Self {
            Self { dock, runs: wrappers.map(|wrapper| start(dock, wrapper)).into() }
        }

        /// The same, once each has its container.
        fn up(dock: &'a Dock, wrappers: [Wrapper; PARALLEL]) -> Self {
            let mut crowd = Self::start(dock, wrappers);
            wait_until("each has its container", PATIENCE, || crowd.count() == PARALLEL);
            dock.await_running(PARALLEL);
            crowd
        }

        /// Number of servers that have not ended.
        fn live(&mut self) -> usize {
            self.runs.iter_mut().map(Launched::try_exit).filter(Option::is_none).count()
        }

        /// Number of containers. Asserts that there are no more than living servers.
        fn count(&mut self) -> usize {
            std::thread::sleep(BETWEEN_LOOKS);
            // Servers are counted first: both numbers can only fall, so the later one must not be larger.
            let live = self.live();
            let count = self.dock.containers().len();
            let said = || self.runs.iter().map(Launched::stderr).collect::<String>();
            assert!(count <= live, "{count} containers of {live} servers: {}", said());
            count
        }

        /// Waits for the end of all servers, and expects nothing to be left at that moment.
        fn expect_end(mut self) {
            wait_until("all have ended", PATIENCE, || {
                self.count();
                self.live() == 0
            });
            assert_eq!(self.dock.containers(), Vec::<String>::new());
            self.dock.expect_empty();
        }

        /// The same if ostler was killed: the guardians stay until nothing is left.
        fn expect_end_of_guardians(mut self) {
            wait_until("all guardians have left", PATIENCE, || {
                let live = self.dock.stage().guardians().len();
                let count = self.dock.containers().len();
                assert!(count <= live, "{count} containers of {live} guardians");
                live == 0
            });
            assert_eq!(self.live(), 0);
            self.dock.expect_empty();
        }
    }

    /// Each round ends in another way than the previous one.
    fn come_and_go(dock: &Dock, wrapper: Wrapper) {
        let ends: [fn(&mut Launched); 2] = [Launched::close_stdin, |run| run.signal(Signal::TERM)];
        for end in ends.into_iter().cycle().take(ROUNDS) {
            let mut crowd = Crowd::up(dock, [wrapper; PARALLEL]);
            crowd.runs.iter_mut().for_each(end);
            crowd.expect_end();
        }
    }

    #[test]
    fn s02_the_wrapper_is_killed_first() {
        let dock = &Dock::shared(Stage::tree());
        for _ in 0..KILL_ROUNDS {
            let crowd = Crowd::up(dock, MIXED);
            let guardians = dock.stage().guardians();
            let pids = dock.stage().sandbox.cgroup().pids().into_iter();
            let is_first =
                |one: &Process| guardians.contains(&one.ppid) && one.comm != "ostler-porter";
            let first: Vec<Process> = pids.filter_map(Process::read).filter(is_first).collect();
            assert_eq!(first.len(), PARALLEL, "{first:?}");
            for process in first {
                dock.stage().signal(process.pid, Signal::KILL);
            }
            crowd.expect_end();
        }
    }

    #[test]
    fn s01_f11_ostler_is_killed() {
        let dock = &Dock::shared(Stage::leaf());
        for _ in 0..KILL_ROUNDS {
            let mut crowd = Crowd::up(dock, MIXED);
            crowd.runs.iter_mut().for_each(|run| run.signal(Signal::KILL));
            crowd.expect_end_of_guardians();
        }
    }

    /// Each client is killed at another time after its start.
    #[test]
    fn f13_clients_are_killed_at_points_of_a_grid() {
        let dock = &Dock::shared(Stage::tree());
        let mut grid = (0..).map(|point| GRID_STEP * point);
        for _ in 0..KILL_ROUNDS {
            let mut crowd = Crowd::start(dock, MIXED);
            let mut ends = BTreeMap::new();
            wait_until("all clients have had their time", PATIENCE, || {
                for pid in dock.stage().named("docker") {
                    let end =
                        ends.entry(pid).or_insert_with(|| Instant::now() + grid.next().unwrap());
                    if *end <= Instant::now() {
                        dock.stage().signal_if_there(pid, Signal::KILL);
                    }
                }
                crowd.live() == 0
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
    fn s01_s02_s04_f11_behind_npx() {
        come_and_go(&Dock::shared(Stage::tree()), Wrapper::Npx);
    }

    dock_rows! {
        shared:

        fn f13_clients_that_close_the_connection_at_once(dock) {
            let script = "for (let i = 0; i < 4; i++) ask(client => setTimeout(() => client.destroy(), 2));";
            let mut run = client(dock, &dock.docker().host(), script);
            wait_until("all were created", PATIENCE, || dock.containers().len() == 4);
            run.close_stdin();
            assert!(dock.stage().wait_exit(&mut run).success());
            assert_eq!(dock.containers(), Vec::<String>::new());
            dock.expect_empty();
        }

        fn s17_l19_one_of_nine_owners_is_killed(dock) {
            let mut others: Vec<Launched> = (0..8).map(|_| dock.script(&[], DETACHED)).collect();
            let mut kept = dock.await_running(8);
            kept.sort();
            let two = format!("docker run -d $IMAGE sleep 100000 >/dev/null; {DETACHED}");
            let mut killed = dock.script(&[], &two);
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

        /// Image, command, owner and most of the instance id are the same, which must not be enough.
        fn s03_only_an_exact_label_match_is_removed(dock) {
            let mut run = dock.script(&[], DETACHED);
            let own = dock.await_running(1).pop().unwrap();
            let labels = dock.inspect(&own)["Config"]["Labels"].clone();
            let label = |name: &str| labels[name].as_str().unwrap().to_owned();
            let (instance, owner) = (label("ostler.instance"), label("ostler.owner"));
            let owner = format!("ostler.owner={owner}");
            let others = [&instance[..instance.len() - 1], &format!("{instance}0")];
            let mut foreign = others.map(|other| {
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

    /// The engine delays the create, so the container appears when its client and owner are dead.
    #[test]
    fn f14_a_create_that_outlives_its_owner() {
        const CREATE: &str = "POST /containers/create";
        let (dock, engine) = (&Dock::shared(Stage::leaf()), FakeEngine::start());
        engine.script(CREATE, &[Act::Slow(Duration::from_secs(3))]);
        let mut run = client(dock, &engine.host(), "ask(() => {});");
        wait_until("the engine is asked", PATIENCE, || engine.asked(CREATE).len() == 1);
        run.signal(Signal::KILL);
        dock.stage().wait_exit(&mut run);
        assert_eq!(engine.containers(), Vec::<String>::new(), "it was too fast");
        wait_until("it is removed", PATIENCE, || engine.asked("DELETE /containers/").len() == 1);
        wait_until("it is gone", PATIENCE, || engine.containers().is_empty());
        dock.expect_empty();
    }
}

/// Tests with so many containers that they need the machine for themselves.
mod alone {
    use super::*;

    /// Time limit for the start or the end of some hundred containers.
    const LONG: Duration = Duration::from_mins(4);

    /// Two hundred in a full run.
    #[test]
    fn s01_all_containers_of_a_killed_owner() {
        let count = if std::env::var_os("OSTLER_TEST_ROUNDS").is_some() { 200 } else { 24 };
        let dock = &Dock::private(Stage::leaf());
        let script = format!("seq {count} | xargs -P 4 -I + {DETACHED}");
        let mut run = dock.script(&["--containers", &count.to_string()], &script);
        wait_until("all of them run", LONG, || {
            dock.containers().len() == count && dock.docker().running("ostler.owner").len() == count
        });
        run.signal(Signal::KILL);
        dock.stage().wait_exit(&mut run);
        wait_until("none is left", LONG, || dock.containers().is_empty());
        // The engine still works.
        dock.docker().expect(&["run", "--rm", IMAGE, "true"]);
        dock.expect_empty();
    }
}
