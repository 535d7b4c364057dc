//! One schedule: operations on a keeper, in an order that the seed decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

use super::backend::{Simulated, now};
use super::behaviour::{Behaviours, GRACE, LINGER, Rescue, below, moment, one_of, pick};
use super::callers::{Caller, CallerAction, KeptLeases};
use super::scopes::Scopes;
use super::servers::{self, NAMES};
use super::world::{Flaw, World};
use crate::backend::Backends;
use crate::instance::Owner;
use crate::keeper::cause::Cause;
use crate::keeper::dice::Dice;
use crate::keeper::key::Key;
use crate::keeper::plan::MemberState;
use crate::keeper::{Config, Keeper};
use crate::places::Places;

/// Longest time for a keeper to stop everything.
const LONG: Duration = Duration::from_secs(10);

/// A schedule in progress.
pub(super) struct Play {
    pub(super) world: Arc<World>,
    pub(super) keeper: Option<Keeper>,
    pub(super) scopes: Scopes,
    pub(super) tasks: JoinSet<()>,
    pub(super) kept: KeptLeases,
    dice: Dice,
    callers: Vec<AbortHandle>,
}

/// One owner for all schedules, because creating one reads the process table. It starts nothing and so has no ledger.
fn owner() -> Owner {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    OWNER.get_or_init(|| Owner::new(Places::new([]), "simulation").unwrap()).clone()
}

impl Play {
    pub(super) fn new(
        seed: u64,
        behaviours: Behaviours,
        flaw: Option<Flaw>,
        config: Config,
    ) -> Self {
        let world = World::new(seed, behaviours, flaw, &config);
        let backends = Backends::default().with(Arc::new(Simulated(Arc::clone(&world))));
        let keeper = Keeper::with(backends, owner(), Dice::new(seed), config);
        world.watch(&keeper);
        Self {
            world,
            keeper: Some(keeper),
            scopes: Scopes::default(),
            tasks: JoinSet::new(),
            kept: KeptLeases::default(),
            dice: Dice::new(seed),
            callers: Vec::new(),
        }
    }

    /// Performs this many random operations.
    pub(super) async fn improvise(&mut self, steps: usize) {
        for _ in 0..steps {
            self.world.audit();
            self.act();
            self.world.audit();
            self.pause().await;
            if self.world.violation().is_some() {
                return;
            }
        }
    }

    async fn pause(&mut self) {
        match below(&mut self.dice, 8) {
            0 | 1 => {}
            2..5 => {
                for _ in 0..=below(&mut self.dice, 6) {
                    tokio::task::yield_now().await;
                    self.world.audit();
                }
            }
            5 | 6 => {
                let time = moment(&mut self.dice);
                self.world.pass(time).await;
            }
            _ => {
                let time = moment(&mut self.dice) * 6;
                self.world.pass(time).await;
            }
        }
    }

    fn act(&mut self) {
        match below(&mut self.dice, 32) {
            0..4 => self.open(),
            4..6 => self.close_scope(),
            6..19 => {
                let server = *pick(&mut self.dice, &NAMES);
                let action = self.action();
                self.call(server, action);
            }
            19..21 => self.cancel(),
            21 => self.peek(),
            22 | 23 => self.replace(),
            24 => self.stop(),
            25..29 => self.strike(),
            29 => self.purge(),
            _ => self.give_back(),
        }
    }

    pub(super) fn open(&mut self) {
        if let Some(keeper) = &self.keeper {
            self.scopes.open(keeper, &mut self.dice);
        }
    }

    fn action(&mut self) -> CallerAction {
        let time = moment(&mut self.dice) * 3;
        match below(&mut self.dice, 13) {
            0 => CallerAction::Look,
            1 => CallerAction::Probe,
            2 | 3 => CallerAction::Hold(time),
            4 => CallerAction::Notify,
            5 | 6 => CallerAction::Keep,
            7 => CallerAction::Panic,
            8 => CallerAction::Serve,
            9 => CallerAction::List(time),
            _ => CallerAction::Call,
        }
    }

    pub(super) fn call(&mut self, server: &str, action: CallerAction) {
        let Some(shared) = self.scopes.any(&mut self.dice) else { return };
        let waits = below(&mut self.dice, 3);
        self.world.note(|| format!("{action:?} {server} for {}", shared.scope().who()));
        let caller = Caller {
            world: Arc::clone(&self.world),
            shared,
            server: server.to_owned(),
            action,
            kept: self.kept.clone(),
            waits,
        };
        self.callers.push(self.tasks.spawn(caller.run()));
    }

    /// Cancels a random caller.
    pub(super) fn cancel(&mut self) {
        if !self.callers.is_empty() {
            let index = below(&mut self.dice, self.callers.len());
            self.world.note(|| "cancel".into());
            self.world.rules().gave_up = Some(now());
            self.callers.swap_remove(index).abort();
        }
    }

    /// Drops the kept leases one by one.
    fn give_back(&self) {
        for lease in self.kept.take() {
            drop(lease);
            self.world.audit();
        }
    }

    fn peek(&mut self) {
        let Some(shared) = self.scopes.any(&mut self.dice) else { return };
        let before = self.keeper.as_ref().map(|keeper| keeper.books().started);
        let server = *pick(&mut self.dice, &NAMES);
        let lease = shared.scope().peek(server);
        let after = self.keeper.as_ref().map(|keeper| keeper.books().started);
        if before != after || (lease.is_some() && shared.is_closed()) {
            self.world.rules().broken("a peek started something, or came from nowhere".into());
        }
    }

    pub(super) fn stop(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let server = *pick(&mut self.dice, &NAMES);
        self.world.note(|| format!("stop {server}"));
        let departure = keeper.stop(server);
        if one_of(&mut self.dice, 2) {
            self.tasks.spawn(async move { drop(departure.settled().await) });
        }
    }

    /// A random fault hits a living instance.
    fn strike(&mut self) {
        let living = self.world.living();
        if living.is_empty() {
            return;
        }
        let index = *pick(&mut self.dice, &living);
        let kind = below(&mut self.dice, 6);
        let lag = moment(&mut self.dice);
        self.world.note(|| format!("strike {index} {kind}"));
        self.world.of(index, |instance| match kind {
            0 => instance.remains(now()),
            1 => {
                let rescues = [Rescue::Gone(lag), Rescue::Unwatched(lag), Rescue::Stays(lag)];
                let rescue = *pick(&mut self.dice, &rescues);
                instance.behaviour.guardian = Some((lag, rescue));
                instance.lose_guardian(now());
            }
            _ => instance.exits(now(), 256),
        });
    }

    /// Another process kills all instances.
    fn purge(&self) {
        self.world.note(|| "purge".into());
        for index in self.world.living() {
            self.world.of(index, |instance| instance.exits(now(), 9));
        }
    }

    fn close_scope(&mut self) {
        let Some(closing) = self.scopes.pick_to_close(&mut self.dice) else { return };
        self.world.note(|| format!("close {}", closing.describe()));
        let before = self.members();
        let owns: Vec<(u64, bool)> = before
            .iter()
            .filter(|(_, (_, state))| matches!(state, MemberState::Starting | MemberState::Ready))
            .filter_map(|(number, (key, _))| Some((*number, closing.owns(&key.whose)?)))
            .collect();
        let being_listed = self.being_listed();
        let departure = closing.close();
        let after = self.members();
        for (number, is_own) in owns {
            let state = after.get(&number).map(|(_, state)| state);
            let goes = matches!(state, Some(MemberState::Leaving(Cause::ScopeClosed)));
            // A start without waiters stops for another cause.
            let abandoned = matches!(state, Some(MemberState::Leaving(Cause::Abandoned)));
            // An instance that is being listed stops after the listing.
            let listed = is_own && being_listed.contains(&number);
            if goes != is_own && !abandoned && !listed {
                self.world.rules().broken(format!("{number} is {state:?}, own: {is_own}"));
            }
        }
        if let Some(departure) = departure.filter(|_| one_of(&mut self.dice, 2)) {
            self.tasks.spawn(async move { drop(departure.settled().await) });
        }
    }

    fn being_listed(&self) -> BTreeSet<u64> {
        let Some(keeper) = &self.keeper else { return BTreeSet::new() };
        let state = keeper.shell.state();
        let members = state.plan.members().filter(|(_, member)| state.plan.is_being_listed(member));
        members.map(|(number, _)| number).collect()
    }

    fn members(&self) -> BTreeMap<u64, (Key, MemberState)> {
        let Some(keeper) = &self.keeper else { return BTreeMap::new() };
        let state = keeper.shell.state();
        let members = state.plan.members();
        members.map(|(number, m)| (number, (m.key.clone(), m.state.clone()))).collect()
    }

    fn replace(&mut self) {
        let config = self.world.rules().config.clone();
        let config = servers::redraw(&config, &mut self.dice);
        self.replace_with(&config);
    }

    pub(super) fn replace_with(&mut self, next: &Config) {
        let Some(keeper) = &self.keeper else { return };
        let before = self.members();
        let old = std::mem::replace(&mut self.world.rules().config, next.clone());
        let (changes, departure) = keeper.replace(next.clone());
        self.world.note(|| format!("replace {changes:?}"));
        for (number, (key, state)) in before {
            let name = &*key.server;
            let is_kept = match (old.servers.get(name), next.servers.get(name)) {
                (Some(old), Some(new)) => {
                    old.fingerprint() == new.fingerprint()
                        && old.sharing == new.sharing
                        && old.max_concurrency == new.max_concurrency
                        && old.containers == new.containers
                }
                _ => false,
            };
            let after = self.members().remove(&number).map(|(_, state)| state);
            let replaced = MemberState::Leaving(Cause::Replaced);
            let removed = MemberState::Leaving(Cause::Removed);
            let goes = after.as_ref().is_some_and(|after| [replaced, removed].contains(after));
            let stayed = matches!(state, MemberState::Starting | MemberState::Ready);
            if stayed && goes == is_kept || changes.kept.iter().any(|kept| kept == name) != is_kept
            {
                self.world.rules().broken(format!("{number} ({key}) is {after:?}: {changes:?}"));
            }
        }
        if one_of(&mut self.dice, 2) {
            self.tasks.spawn(async move { drop(departure.settled().await) });
        }
    }

    /// Ends the schedule and checks that nothing is left.
    pub(super) async fn finish(&mut self) {
        self.world.audit();
        let Some(keeper) = self.keeper.take() else { return };
        self.scopes.keeper_ends();
        if one_of(&mut self.dice, 2) {
            self.shut_down(keeper).await;
        } else {
            self.world.note(|| "drop".into());
            self.world.rules().is_abandoned = true;
            drop(keeper);
        }
        self.world.pass(LINGER + LONG).await;
        self.check_end().await;
    }

    async fn shut_down(&mut self, keeper: Keeper) {
        self.world.note(|| "shutdown".into());
        let shell = Arc::clone(&keeper.shell);
        let books = tokio::select! {
            biased;
            books = keeper.shutdown() => books,
            () = self.world.pass(LONG) => {
                return self.world.rules().broken("shutdown does not end".into());
            }
        };
        self.world.rules().is_abandoned = true;
        drop(shell);
        let living = self.world.living().len() as u64;
        // In this world unverified processes end on their own.
        if !books.balance() || books.live > 0 || living > books.unverified {
            self.world.rules().broken(format!("{books:?}, and {living} live"));
        }
    }

    async fn check_end(&mut self) {
        let living = self.world.living();
        if !living.is_empty() {
            self.world.rules().broken(format!("{living:?} are left"));
        }
        while self.tasks.try_join_next().is_some() {}
        let (tasks, open) = (self.tasks.len(), self.world.rules().open());
        if tasks > 0 || open > 0 {
            self.world.rules().broken(format!("{tasks} callers have no end, {open} wait"));
        }
        let is_empty = self.world.shell().is_none_or(|shell| shell.state().plan.is_empty());
        if !is_empty {
            self.world.rules().broken("the plan remembers something".into());
        }
        let kept = self.kept.take();
        if kept.iter().any(|lease| lease.hold().is_ok()) {
            self.world.rules().broken("a lease outlives its keeper".into());
        }
        drop(kept);
        self.scopes.clear();
        self.tasks.abort_all();
        self.world.pass(GRACE).await;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        if tasks > 0 || self.world.shell().is_some() {
            self.world.rules().broken(format!("{tasks} tasks are left, or the keeper is"));
        }
    }
}
