//! Exhaustive test: every order of a few operations on one key, with every timing.

use std::time::Duration;

use super::backend::now;
use super::behaviour::{Behaviours, StepTimes};
use super::callers::CallerAction;
use super::play::Play;
use super::run;
use super::servers::{self, server};
use crate::keeper::{Config, InstanceState, InstanceView, Keeper, Sharing};

const STEP: Duration = Duration::from_millis(2);
/// Number of operations.
const LENGTH: u32 = 4;
/// An exclusive key and a shared one.
const KEYS: [Sharing; 2] = [Sharing::Agent, Sharing::All];
/// Number of timings: each of three groups of steps takes time or none.
const PACES: usize = 8;
/// More yields than anything needs within one moment.
const MANY: usize = 12;

/// An operation on the key.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Start,
    Stop,
    Replace,
    Crash,
    Cancel,
}

const OPERATIONS: [Operation; 5] =
    [Operation::Start, Operation::Stop, Operation::Replace, Operation::Crash, Operation::Cancel];

/// Pause between two operations.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// None.
    None,
    /// Everything that can happen without time passing.
    Moment,
    /// Time passes.
    Time,
}

const GAPS: [Gap; 3] = [Gap::None, Gap::Moment, Gap::Time];

fn pace(number: usize) -> StepTimes {
    let time = |bit: usize| if number & bit == 0 { Duration::ZERO } else { STEP };
    let (launch, answer, exit_delay) = (time(1), time(2), time(4));
    StepTimes { launch, start: launch, answer, exit_delay, cleanup: exit_delay }
}

fn stage(seed: u64, sharing: Sharing, pace_number: usize) -> Play {
    let mut config = Config { caps: servers::caps(), ..Config::default() };
    config.servers.insert("it".into(), server("it", sharing, 0));
    let mut play = Play::new(seed, Behaviours::Regular(pace(pace_number)), None, config);
    if let Some(keeper) = &play.keeper {
        play.scopes.open_agent(keeper);
    }
    play
}

fn act(play: &mut Play, operation: Operation, version: usize) {
    play.world.audit();
    match operation {
        Operation::Start => play.call("it", CallerAction::Call),
        Operation::Stop => {
            if let Some(keeper) = &play.keeper {
                drop(keeper.stop("it"));
            }
        }
        Operation::Replace => {
            let mut config = play.world.rules().config.clone();
            let sharing = config.servers["it"].sharing;
            config.servers.insert("it".into(), server("it", sharing, version));
            play.replace_with(&config);
        }
        Operation::Crash => {
            if let Some(first) = play.world.living().first() {
                play.world.of(*first, |instance| instance.exits(now(), 256));
            }
        }
        Operation::Cancel => play.cancel(),
    }
    play.world.audit();
}

async fn wait(play: &Play, gap: Gap) {
    match gap {
        Gap::None => {}
        Gap::Moment => {
            for _ in 0..MANY {
                tokio::task::yield_now().await;
                play.world.audit();
            }
        }
        Gap::Time => play.world.pass(STEP + STEP / 2).await,
    }
}

/// Decodes a number into operations and gaps. The first operation is a start.
fn script(mut number: usize) -> Vec<(Operation, Gap)> {
    let mut script = Vec::new();
    for index in 0..LENGTH {
        let operation =
            if index == 0 { Operation::Start } else { OPERATIONS[number % OPERATIONS.len()] };
        number /= if index == 0 { 1 } else { OPERATIONS.len() };
        script.push((operation, GAPS[number % GAPS.len()]));
        number /= GAPS.len();
    }
    script
}

#[test]
fn every_order_of_a_few_operations_keeps_the_rules() {
    let scripts = GAPS.len() * (GAPS.len() * OPERATIONS.len()).pow(LENGTH - 1);
    for number in 0..scripts {
        let script = script(number);
        for (sharing, pace) in KEYS.iter().flat_map(|key| (0..PACES).map(move |pace| (*key, pace)))
        {
            run(async {
                let mut play = stage(number as u64, sharing, pace);
                for (version, (operation, gap)) in script.iter().enumerate() {
                    act(&mut play, *operation, version);
                    wait(&play, *gap).await;
                }
                play.finish().await;
                let violation = play.world.violation();
                assert_eq!(violation, None, "{script:?} for {sharing}, pace {pace}");
            });
        }
    }
}

/// A caller that gives up leaves no trace, at whatever point its start is, and a start without waiters is stopped.
#[test]
fn a_start_can_be_given_up_at_every_point() {
    for point in 0..80 {
        for (sharing, pace) in KEYS.iter().flat_map(|key| (0..PACES).map(move |pace| (*key, pace)))
        {
            for others in 0..2 {
                run(given_up(point, sharing, pace, others));
            }
        }
    }
}

async fn given_up(point: usize, sharing: Sharing, pace: usize, others: usize) {
    let mut play = stage(point as u64, sharing, pace);
    play.call("it", CallerAction::Look);
    for step in 0..point {
        tokio::task::yield_now().await;
        if step % MANY == MANY - 1 {
            play.world.pass(STEP / 2).await;
        }
    }
    for _ in 0..others {
        play.call("it", CallerAction::Look);
    }
    play.cancel();
    play.world.pass(STEP * 20).await;
    let snapshot = play.keeper.as_ref().map(Keeper::snapshot).unwrap();
    let starting = |one: &InstanceView| one.state == InstanceState::Starting;
    assert!(!snapshot.instances.iter().any(starting), "point {point} of {sharing}, pace {pace}");
    assert_eq!(snapshot.waiting, 0);
    play.finish().await;
    assert_eq!(play.world.violation(), None, "point {point} of {sharing}, pace {pace}");
}
