//! Runs the backend contract against the simulated backend, so that schedules show what a real one would do.

#[path = "../../../tests/contract/clauses.rs"]
mod clauses;

use std::sync::Arc;
use std::time::Duration;

use self::clauses::{Candidate, contract};
use super::backend::{Simulated, now};
use super::behaviour::{Behaviours, GRACE, StepTimes};
use super::servers::server;
use super::world::World;
use crate::backend::Target;
use crate::keeper::{Config, Sharing};
use crate::terms::Terms;

contract! { simulated }

fn simulated() -> Candidate {
    let steps = StepTimes { exit_delay: GRACE, ..StepTimes::all(Duration::from_millis(1)) };
    let world = World::new(1, Behaviours::Regular(steps), None, &Config::default());
    let target = server("it", Sharing::All, 0).target;
    let spec = server("foreign", Sharing::All, 0).spec().cloned().unwrap();
    let backend = Arc::new(Simulated(Arc::clone(&world)));
    let unhold = move |_: &_| {
        for index in world.living() {
            world.of(index, |instance| instance.lose_guardian(now()));
        }
    };
    Candidate {
        backend,
        terms: Terms::default(),
        polite: target.clone(),
        line: (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        ),
        stubborn: target.clone(),
        missing: target,
        foreign: Target::On { backend: "other".into(), spec },
        unhold: Box::new(unhold),
        absent: &[
            (
                "a_missing_program_is_refused",
                "what an instance does is drawn, and not up to its target",
            ),
            ("its_entry_names_its_backend_until_its_end", "its instances are in no ledger"),
            ("its_backend_knows_its_parts_by_name", "its instances are in no ledger"),
            ("another_process_can_ask_it_to_end", "its instances are in no ledger"),
            ("an_instance_without_a_holder_is_listed_and_ended", "its instances are in no ledger"),
        ],
    }
}
