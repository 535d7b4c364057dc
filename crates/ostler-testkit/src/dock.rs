//! A stage with a container engine, and containers that must stay untouched.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::docker::{Docker, IMAGE};
use crate::engine::Engine;
use crate::stage::PATIENCE;
use crate::{Launched, Stage, is_alive, wait_until};

/// Label of everything that ostler creates.
const LABEL: &str = "ostler.instance";
/// Id of an instance that was never started.
pub(crate) const STRANGER: &str = "ostler.instance=00000000000000000000000000000001";

/// Stage for tests with containers.
#[derive(Debug)]
pub struct Dock {
    // Dropped first, so that nothing starts in an engine that has ended.
    stage: Stage,
    docker: Docker,
    /// Containers that must stay: one of the same image without labels, one of another owner's instance,
    /// and those of [`adopt`](Self::adopt).
    strangers: Vec<String>,
    /// A private engine; none on the shared one.
    engine: Option<Engine>,
    /// Whether the engine and its containers were killed.
    was_killed: bool,
}

impl Dock {
    /// Uses the shared engine of all tests, exclusively.
    pub fn shared(stage: Stage) -> Self {
        Self::new(stage, Docker::shared(), None)
    }

    /// Uses a private engine, which may be killed and frozen.
    pub fn private(stage: Stage) -> Self {
        let engine = Engine::start();
        engine.open_to_all();
        Self::new(stage, engine.clone(), Some(engine))
    }

    fn new(stage: Stage, docker: Docker, engine: Option<Engine>) -> Self {
        let strangers = [&[][..], &["--label", STRANGER]].map(|options| {
            docker.expect(&[&["run", "--detach"], options, &[IMAGE, "sleep", "1000000"]].concat())
        });
        Self { stage, docker, strangers: strangers.into(), engine, was_killed: false }
    }

    /// Starts a container from this image as the user, past ostler. It must stay.
    pub fn adopt(&mut self, image: &str) -> String {
        let own = self.docker.expect(&["run", "--detach", image, "sleep", "1000000"]);
        self.strangers.push(own.clone());
        own
    }

    /// Removes a container that was [adopted](Self::adopt).
    pub fn abolish(&mut self, container: &str) {
        self.docker.expect(&["rm", "--force", "--volumes", container]);
        self.strangers.retain(|one| one != container);
    }

    /// The stage.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The engine's client.
    pub fn docker(&self) -> &Docker {
        &self.docker
    }

    /// A container that must stay untouched.
    pub fn stranger(&self) -> &str {
        &self.strangers[0]
    }

    /// Kills the engine.
    pub fn kill_engine(&mut self) {
        self.was_killed = true;
        self.engine.as_mut().expect("an engine of its own").kill();
    }

    /// Starts it again.
    pub fn revive_engine(&mut self) {
        self.engine.as_mut().expect("an engine of its own").begin();
        self.docker.open_to_all();
    }

    /// Freezes the engine: it accepts calls and does not answer.
    pub fn freeze_engine(&self) {
        self.engine.as_ref().expect("an engine of its own").freeze();
    }

    /// Thaws the engine.
    pub fn thaw_engine(&self) {
        self.engine.as_ref().expect("an engine of its own").thaw();
    }

    /// `ostler run` with these options and a server's command, with this engine as docker's.
    pub fn run_with(&self, options: &[&str], words: &[impl AsRef<OsStr>]) -> Command {
        let own = self.stage.run_words_with(options);
        let mut command = self.stage.command(&own[0]);
        command.args(&own[1..]).args(words).env("DOCKER_HOST", self.docker.host());
        command
    }

    /// The same, started, with a shell's script as the server. `$IMAGE` is the image.
    pub fn script(&self, options: &[&str], script: &str) -> Launched {
        let mut command = self.run_with(options, &["sh", "-c", script]);
        Launched::start(command.env("IMAGE", IMAGE))
    }

    /// Ends the owner, its guardian and its porter so that none of them can react.
    pub fn abandon(&self, run: &mut Launched) {
        let porter = self.stage.named("ostler-porter")[0];
        self.stage.signal(porter, Signal::STOP);
        self.stage.abandon(run);
        self.stage.signal(porter, Signal::KILL);
        wait_until("the porter is dead", PATIENCE, || !is_alive(porter));
    }

    /// A command of ostler's that knows this engine as docker's.
    pub fn ostler(&self, words: &[&str]) -> std::process::Output {
        let mut command = self.stage.command(&self.stage.run_words()[0]);
        command.args(words).env("DOCKER_HOST", self.docker.host());
        command.output().expect("ostler")
    }

    /// The containers that ostler's servers have caused, in any state.
    pub fn containers(&self) -> Vec<String> {
        let mut all = self.docker.containers(LABEL);
        all.retain(|id| !self.strangers.contains(id));
        all
    }

    /// Waits until this many containers run.
    pub fn await_running(&self, count: usize) -> Vec<String> {
        wait_until("the containers run", PATIENCE, || {
            let all = self.containers();
            // One request for all, because a request each would be slow.
            let do_all_run = all.len() == count && contain(&self.docker.running(LABEL), &all);
            do_all_run.then_some(all)
        })
    }

    /// The engine's `inspect` of a container.
    pub fn inspect(&self, container: &str) -> Value {
        let text = self.docker.expect(&["inspect", container]);
        let mut all: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        all.pop().expect("a container")
    }

    /// The notes beside the ledgers that record possible containers.
    pub fn notes(&self) -> Vec<PathBuf> {
        let files = self.stage.ledgers().into_iter().flat_map(fs::read_dir).flatten().flatten();
        let paths = files.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "door")).collect()
    }

    /// Waits until a note records this many creates in flight.
    pub fn await_creates(&self, count: u64) {
        wait_until("creates are under way", PATIENCE, || {
            let said = |path| {
                let list = fs::read_to_string(path).ok()?;
                serde_json::from_str::<Value>(list.lines().last()?).ok()
            };
            let notes = self.notes().into_iter().filter_map(said);
            notes.filter_map(|note| note["creates"].as_u64()).sum::<u64>() == count
        });
    }

    /// Waits until no container, network, process or file is left, without any help, and checks that bystanders were not touched.
    pub fn expect_empty(&self) {
        self.expect_no_containers();
        self.stage.expect_empty();
    }

    /// Waits until no container and no network is left.
    pub fn expect_no_containers(&self) {
        wait_until("no container and no network is left", PATIENCE, || {
            self.containers().is_empty() && self.docker.networks(LABEL).is_empty()
        });
        for stranger in &self.strangers {
            let state = self.docker.state(stranger);
            let is_well = state == "running" || (self.was_killed && state == "exited");
            assert!(is_well, "a stranger's container is {state}");
        }
    }
}

fn contain(present: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|one| present.contains(one))
}

impl Drop for Dock {
    fn drop(&mut self) {
        // The next test counts all containers of the shared engine. A private engine removes its own.
        if self.engine.is_none() {
            let all = self.containers().into_iter().chain(self.strangers.clone());
            let all: Vec<String> = all.collect();
            let _ = self.docker.command().args(["rm", "--force", "--volumes"]).args(all).output();
        }
    }
}

/// Runs each row on a [`Dock`]: `shared` or `private`, as root at `leaf` and unprivileged at `tree`. The rows are in a module of that
/// name, by which `.config/nextest.toml` finds those that may run beside the others.
#[macro_export]
macro_rules! dock_rows {
    ($kind:ident: $($(#[$attribute:meta])* fn $name:ident($dock:ident) $body:block)*) => {
        mod $kind {
            use super::*;

            $(
                $(#[$attribute])*
                mod $name {
                    use super::*;

                    fn row($dock: &mut $crate::Dock) $body

                    #[test]
                    fn leaf() {
                        $crate::rounds(|| row(&mut $crate::Dock::$kind($crate::Stage::leaf())));
                    }

                    #[test]
                    fn tree() {
                        $crate::rounds(|| row(&mut $crate::Dock::$kind($crate::Stage::tree())));
                    }
                }
            )*
        }
    };
}
