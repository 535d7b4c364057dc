//! On real engines, each of them private to its test.

mod argv;
mod exec;
mod failures;
mod networks;
mod secured;
mod states;

use ostler_testkit::{Engine, IMAGE};

use super::*;

/// In the background. An engine that ends or starts again gives so much time to what runs.
const RUN: [&str; 6] = ["run", "--detach", "--network", "none", "--stop-timeout", "1"];

/// A real engine, and an instance that has caused something in it.
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

    /// The label of what belongs to the instance.
    fn label(&self) -> String {
        format!("{}={}", label::INSTANCE, self.instance)
    }

    /// A container of the instance that runs in the background, with these flags.
    fn start(&self, flags: &[&str], command: &[&str]) -> String {
        let label = self.label();
        // An engine that starts again gives so much time to what it finds running.
        let own =
            ["run", "--detach", "--network", "none", "--stop-timeout", "1", "--label", &label];
        self.engine.expect(&[&own, flags, &[IMAGE], command].concat())
    }

    /// The same for somebody else, or for another instance.
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

    /// Removes all, and expects that nothing is left at that very moment.
    fn clear(&self) {
        assert_eq!(self.removal().run(), GONE);
        assert_eq!(self.left(), Vec::<String>::new());
    }
}
