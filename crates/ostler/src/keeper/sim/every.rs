//! Every order of a few deeds, up to a small bound, against one key.

use std::time::Duration;

use super::backend::now;
use super::callers::Errand;
use super::fate::{Steps, Temper};
use super::play::Play;
use super::run;
use super::servers::{self, server};
use crate::keeper::{Config, InstanceState, InstanceView, Keeper, Sharing};

const STEP: Duration = Duration::from_millis(2);
/// How many deeds follow each other.
const LENGTH: u32 = 4;
/// The exclusive key and the shared one.
const KEYS: [Sharing; 2] = [Sharing::Agent, Sharing::All];
/// Each group of steps of a server takes time or none.
const PACES: usize = 8;
/// More rounds of the runtime than anything needs between two moments.
const MANY: usize = 12;

/// What is done to the key.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Start,
    Stop,
    Replace,
    Crash,
    Cancel,
}

const DEEDS: [Deed; 5] = [Deed::Start, Deed::Stop, Deed::Replace, Deed::Crash, Deed::Cancel];

/// What happens between two deeds.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// Nothing.
    None,
    /// All that can happen at the same moment.
    Moment,
    /// Some time passes.
    Time,
}

const GAPS: [Gap; 3] = [Gap::None, Gap::Moment, Gap::Time];

fn pace(number: usize) -> Steps {
    let time = |bit: usize| if number & bit == 0 { Duration::ZERO } else { STEP };
    let (launch, answer, leave) = (time(1), time(2), time(4));
    Steps { launch, start: launch, answer, leave, burial: leave }
}

fn stage(seed: u64, sharing: Sharing, pace_number: usize) -> Play {
    let mut config = Config { caps: servers::caps(), ..Config::default() };
    config.servers.insert("it".into(), server("it", sharing, 0));
    let mut play = Play::new(seed, Temper::Even(pace(pace_number)), None, config);
    if let Some(keeper) = &play.keeper {
        play.scopes.open_agent(keeper);
    }
    play
}

fn act(play: &mut Play, deed: Deed, version: usize) {
    play.world.audit();
    match deed {
        Deed::Start => play.call("it", Errand::Call),
        Deed::Stop => {
            if let Some(keeper) = &play.keeper {
                drop(keeper.stop("it"));
            }
        }
        Deed::Replace => {
            let mut config = play.world.rules().config.clone();
            let sharing = config.servers["it"].sharing;
            config.servers.insert("it".into(), server("it", sharing, version));
            play.replace_with(&config);
        }
        Deed::Crash => {
            if let Some(first) = play.world.living().first() {
                play.world.of(*first, |being| being.exits(now(), 256));
            }
        }
        Deed::Cancel => play.cancel(),
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

/// The deeds and gaps that a number stands for, the first of which is a start.
fn script(mut number: usize) -> Vec<(Deed, Gap)> {
    let mut script = Vec::new();
    for index in 0..LENGTH {
        let deed = if index == 0 { Deed::Start } else { DEEDS[number % DEEDS.len()] };
        number /= if index == 0 { 1 } else { DEEDS.len() };
        script.push((deed, GAPS[number % GAPS.len()]));
        number /= GAPS.len();
    }
    script
}

#[test]
fn every_order_of_a_few_deeds_keeps_the_rules() {
    let scripts = GAPS.len() * (GAPS.len() * DEEDS.len()).pow(LENGTH - 1);
    for number in 0..scripts {
        let script = script(number);
        for (sharing, pace) in KEYS.iter().flat_map(|key| (0..PACES).map(move |pace| (*key, pace)))
        {
            run(async {
                let mut play = stage(number as u64, sharing, pace);
                for (version, (deed, gap)) in script.iter().enumerate() {
                    act(&mut play, *deed, version);
                    wait(&play, *gap).await;
                }
                play.finish().await;
                let violation = play.world.violation();
                assert_eq!(violation, None, "{script:?} for {sharing}, pace {pace}");
            });
        }
    }
}

/// Whoever gives up is forgotten wherever its start is, and what nobody else waits for goes.
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
    play.call("it", Errand::Look);
    for step in 0..point {
        tokio::task::yield_now().await;
        if step % MANY == MANY - 1 {
            play.world.pass(STEP / 2).await;
        }
    }
    for _ in 0..others {
        play.call("it", Errand::Look);
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
