//! Fixed scenarios for rules that random schedules exercise too rarely.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::backend::now;
use super::behaviour::{Behaviour, Behaviours, Rescue, StepTimes};
use super::play::Play;
use super::run;
use super::servers::{self, CALL, LAST_OUTPUT, request};
use crate::keeper::{Caps, Config, Server, Sharing};

const STEP: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(20);

/// A play with these servers, without faults and with equal step times.
fn play(caps: Caps, servers: impl IntoIterator<Item = Server>) -> Play {
    let servers: BTreeMap<String, Server> =
        servers.into_iter().map(|server| (server.name().to_owned(), server)).collect();
    Play::new(1, Behaviours::Regular(StepTimes::all(STEP)), None, Config { servers, caps })
}

async fn end(mut play: Play) {
    play.world.rules().asked_all();
    play.finish().await;
    assert_eq!(play.world.violation(), None);
}

#[test]
fn a_hundred_first_callers_get_one_process_and_one_handshake() {
    run(async {
        let caps = Caps { queue: 100, ..servers::caps() };
        let mut play = play(caps, [servers::server("all", Sharing::All, 0)]);
        let order = Arc::new(Mutex::new(Vec::new()));
        let keeper = play.keeper.as_ref().unwrap();
        for number in 0..100 {
            let (scope, order) = (keeper.session(), Arc::clone(&order));
            play.world.rules().ask("all", scope.who(), now() + LONG);
            play.tasks.spawn(async move {
                scope.acquire("all").await.unwrap();
                order.lock().unwrap().push(number);
            });
        }
        play.world.pass(STEP * 10).await;
        assert_eq!((play.world.starts(), play.world.handshakes()), (1, 1));
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn callers_that_wait_for_one_slot_get_it_in_turn() {
    run(async {
        let one = NonZeroUsize::MIN;
        let mut server = servers::server("session", Sharing::Session, 0);
        server.cap = Some(one);
        let mut play = play(Caps { queue: 20, ..servers::caps() }, [server]);
        let order = Arc::new(Mutex::new(Vec::new()));
        let keeper = play.keeper.as_ref().unwrap();
        for number in 0..10 {
            let (scope, order) = (keeper.session(), Arc::clone(&order));
            play.world.rules().ask("session", scope.who(), now() + LONG);
            play.tasks.spawn(async move {
                scope.call("session", &request("work")).await.unwrap();
                order.lock().unwrap().push(number);
            });
        }
        play.world.pass(LONG).await;
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
        assert_eq!(play.world.starts(), 10);
    });
}

/// A caller with a new lease is about to use it. Evicting its instance at once for another waiter would repeat the
/// same conflict forever.
#[test]
fn callers_that_need_one_slot_do_not_evict_each_other_before_the_first_use() {
    run(async {
        let names = ["one", "two", "three"];
        let all = names.map(|name| servers::server(name, Sharing::All, 0));
        let mut play = play(Caps { instances: 1, ..servers::caps() }, all);
        let keeper = play.keeper.as_ref().unwrap();
        for name in names {
            let scope = keeper.session();
            play.world.rules().ask(name, scope.who(), now() + LONG);
            play.tasks.spawn(async move {
                scope.call(name, &request("work")).await.unwrap();
            });
        }
        play.world.pass(LONG).await;
        while let Some(joined) = play.tasks.try_join_next() {
            joined.unwrap();
        }
        assert_eq!((play.tasks.len(), play.world.starts()), (0, 3));
    });
}

#[test]
fn a_call_that_waits_for_the_end_of_its_server_ends_with_the_keeper() {
    run(async {
        let mut play = play(servers::caps(), [servers::server("all", Sharing::All, 0)]);
        let scope = play.keeper.as_ref().unwrap().session();
        play.world.rules().ask("all", scope.who(), now() + LONG);
        let lease = scope.acquire("all").await.unwrap();
        play.world.of(0, |instance| instance.behaviour.closes_input = Some(Duration::ZERO));
        let calling = play.tasks.spawn(async move {
            let _ = scope.call("all", &request("work")).await;
        });
        play.world.pass(STEP * 5).await;
        assert!(!calling.is_finished());
        play.world.rules().is_abandoned = true;
        drop(play.keeper.take());
        play.world.pass(CALL).await;
        assert!(calling.is_finished());
        drop(lease);
    });
}

#[test]
fn killed_instances_start_again_only_on_request() {
    run(async {
        let mut play = play(servers::caps(), [servers::server("agent", Sharing::Agent, 0)]);
        let agents = ["ann", "bob", "eve"].map(|name| play.keeper.as_ref().unwrap().agent(name));
        for agent in &agents {
            play.world.rules().ask("agent", agent.who(), now() + LONG);
            agent.call("agent", &request("work")).await.unwrap();
        }
        for index in play.world.living() {
            play.world.of(index, |instance| instance.exits(now(), 9));
        }
        play.world.pass(CALL).await;
        assert_eq!((play.world.starts(), play.world.living().len()), (3, 0));
        agents[1].call("agent", &request("work")).await.unwrap();
        assert_eq!((play.world.starts(), play.world.living().len()), (4, 1));
        drop(agents);
        play.scopes.clear();
        end(play).await;
    });
}

#[test]
fn each_key_is_started_once() {
    run(async {
        let names: Vec<String> = (0..9).map(|number| format!("server {number}")).collect();
        let all = names.iter().map(|name| {
            let mut server = servers::server(name, Sharing::Agent, 0);
            server.limits.idle = None;
            server
        });
        let caps = Caps { instances: 100, starting: 100, queue: 1000, ..servers::caps() };
        let mut play = play(caps, all);
        let keeper = play.keeper.as_ref().unwrap();
        for agent in 0..10 {
            let scope = keeper.agent(&format!("agent {agent}"));
            let names = names.clone();
            for name in &names {
                play.world.rules().ask(name, scope.who(), now() + LONG);
            }
            play.tasks.spawn(async move {
                for call in 0..1000 {
                    scope.call(&names[call % names.len()], &request("work")).await.unwrap();
                }
            });
        }
        while let Some(joined) = play.tasks.join_next().await {
            joined.unwrap();
        }
        assert_eq!((play.world.starts(), play.world.handshakes()), (90, 90));
        end(play).await;
    });
}

/// The runtime may report the exit of a server before it has seen that stderr is readable.
#[test]
fn the_reason_of_an_exit_includes_stderr_that_is_readable_later() {
    let cases = [(Some(STEP), "out of memory"), (Some(LAST_OUTPUT * 2), ""), (None, "")];
    for (lag, expected) in cases {
        run(async {
            let mut play = play(servers::caps(), [servers::server("all", Sharing::All, 0)]);
            let scope = play.keeper.as_ref().unwrap().session();
            play.world.rules().ask("all", scope.who(), now() + LONG);
            let lease = scope.acquire("all").await.unwrap();
            play.world.of(0, |instance| {
                instance.behaviour.stderr = lag;
                instance.exits(now(), 9);
            });
            play.world.pass(LAST_OUTPUT + STEP).await;
            assert_eq!(lease.ending().unwrap().stderr, expected, "{lag:?}");
            drop((lease, scope));
            play.scopes.clear();
            end(play).await;
        });
    }
}

/// A successor waits as long as residue is known. If nothing can be found, the slot is free at once.
#[test]
fn a_successor_waits_for_known_residue_only() {
    for (rescue, follows) in [(Rescue::Unwatched(STEP), true), (Rescue::Stays(STEP), false)] {
        run(async {
            let mut play = play(servers::caps(), [servers::server("agent", Sharing::Agent, 0)]);
            let agent = play.keeper.as_ref().unwrap().agent("ann");
            play.world.rules().ask("agent", agent.who(), now() + LONG);
            let lease = agent.acquire("agent").await.unwrap();
            play.world.of(0, |instance| {
                instance.behaviour.guardian = Some((STEP, rescue));
                instance.lose_guardian(now());
            });
            play.world.pass(CALL).await;
            assert_eq!(play.keeper.as_ref().unwrap().books().unverified, 1);
            assert_eq!(agent.acquire("agent").await.is_ok(), follows, "{rescue:?}");
            assert!(lease.ending().is_some());
            drop((lease, agent));
            play.scopes.clear();
            play.world.rules().is_abandoned = true;
            drop(play.keeper.take());
            assert_eq!(play.world.violation(), None);
        });
    }
}

#[test]
fn a_behaviour_depends_on_its_dice_alone() {
    let draw = || {
        let mut dice = crate::keeper::dice::Dice::new(7);
        (0..100)
            .map(|_| format!("{:?}", Behaviour::draw(Behaviours::Faulty(1), &mut dice)))
            .collect()
    };
    let (first, second): (Vec<String>, Vec<String>) = (draw(), draw());
    assert_eq!(first, second);
}
