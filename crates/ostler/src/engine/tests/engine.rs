//! Tests with real engines, one private engine per test.

mod argv;
mod exec;
mod failures;
mod networks;
mod secured;
mod states;

use ostler_testkit::{Engine, IMAGE};

use super::*;

/// Detached. The stop timeout bounds the shutdown and the restart of an engine.
const RUN: [&str; 6] = ["run", "--detach", "--network", "none", "--stop-timeout", "1"];

/// A real engine, and an instance with containers in it.
struct Scene {
    engine: Engine,
    instance: InstanceId,
}

impl Scene {
    fn new() -> Self {
        Self::on(Engine::start())
    }

    fn on(engine: Engine) -> Self {
        Self { engine, instance: InstanceId::random().unwrap() }
    }

    /// The label of the instance, as `name=value`.
    fn label(&self) -> String {
        format!("{}={}", label::INSTANCE, self.instance)
    }

    /// Starts a detached container of the instance.
    fn start(&self, flags: &[&str], command: &[&str]) -> String {
        let label = self.label();
        // The stop timeout bounds the restart of an engine.
        let own =
            ["run", "--detach", "--network", "none", "--stop-timeout", "1", "--label", &label];
        self.engine.expect(&[&own, flags, &[IMAGE], command].concat())
    }

    /// Starts a detached container without the instance's label.
    fn start_foreign(&self, flags: &[&str]) -> String {
        self.engine.expect(&[&RUN, flags, &[IMAGE, "sleep", "1000"]].concat())
    }

    fn removal(&self) -> Removal {
        Removal::from(self.engine.socket(), self.instance)
    }

    /// The containers of the instance, as the docker command lists them.
    fn left(&self) -> Vec<String> {
        self.engine.containers(&self.label())
    }

    /// Removes everything, and expects nothing to be left.
    fn clear(&self) {
        assert_eq!(self.removal().run(), GONE);
        assert_eq!(self.left(), Vec::<String>::new());
    }
}
