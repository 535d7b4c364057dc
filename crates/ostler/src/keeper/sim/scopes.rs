//! Scopes, with what a simulation knows about them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fate::{below, pick};
use crate::keeper::dice::Dice;
use crate::keeper::key::Whose;
use crate::keeper::{Departure, Keeper, Principal, Scope};

type Flag = Arc<AtomicBool>;

/// A scope that some callers share.
#[derive(Debug)]
pub(super) struct Room {
    scope: Option<Scope>,
    kind: Kind,
    /// Whether it is closed, and each that it is part of.
    closed: Vec<Flag>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Agent(Principal, Arc<str>),
    Session(u64),
    Part,
}

impl Room {
    pub(super) fn scope(&self) -> &Scope {
        self.scope.as_ref().unwrap()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    fn mark_closed(&self) {
        if let Some(own) = self.closed.last() {
            own.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A named agent survives that nobody has it.
        if !matches!(self.kind, Kind::Agent(..)) {
            self.mark_closed();
        }
    }
}

/// All scopes of a schedule.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    rooms: Vec<Arc<Room>>,
    /// How many principals there are beside the default one.
    named: usize,
    agents: HashMap<(Principal, &'static str), Flag>,
    /// What each session is part of.
    sessions: HashMap<u64, Vec<Flag>>,
    keeper: Flag,
}

/// A scope that has to be closed.
pub(super) struct Closing {
    room: Room,
    sessions: HashMap<u64, Vec<Flag>>,
}

impl Scopes {
    /// Of the default principal and so many others.
    pub(super) fn with_principals(named: usize) -> Self {
        Self { named, ..Self::default() }
    }

    /// From now on all are closed.
    pub(super) fn keeper_ends(&self) {
        self.keeper.store(true, Ordering::Relaxed);
    }

    pub(super) fn any(&self, dice: &mut Dice) -> Option<Arc<Room>> {
        if self.rooms.is_empty() { None } else { Some(Arc::clone(pick(dice, &self.rooms))) }
    }

    pub(super) fn open(&mut self, keeper: &Keeper, dice: &mut Dice) {
        let within = self.any(dice);
        let principal = match below(dice, self.named + 1) {
            0 => Principal::default(),
            number => Principal::named(["red", "blue"][number - 1]),
        };
        let room = match (below(dice, 4), within) {
            (0, _) | (_, None) => self.agent(keeper, principal, ["ann", "bob"][below(dice, 2)]),
            (1, _) => {
                let scope = keeper.session_of(&principal);
                let closed = vec![Arc::clone(&self.keeper), Flag::default()];
                self.session(scope, closed)
            }
            (2, Some(parent)) => {
                let closed = nested(&parent);
                self.session(parent.scope().session(), closed)
            }
            (_, Some(parent)) => {
                let scope = parent.scope().nested();
                Room { scope: Some(scope), kind: Kind::Part, closed: nested(&parent) }
            }
        };
        self.rooms.push(Arc::new(room));
    }

    /// A named agent.
    pub(super) fn open_agent(&mut self, keeper: &Keeper) {
        let room = self.agent(keeper, Principal::default(), "ann");
        self.rooms.push(Arc::new(room));
    }

    fn agent(&mut self, keeper: &Keeper, principal: Principal, name: &'static str) -> Room {
        let flag = self.agents.entry((principal.clone(), name)).or_default();
        if flag.load(Ordering::Relaxed) {
            *flag = Flag::default();
        }
        let closed = vec![Arc::clone(&self.keeper), Arc::clone(flag)];
        let scope = Some(keeper.agent_of(&principal, name));
        Room { scope, kind: Kind::Agent(principal, name.into()), closed }
    }

    fn session(&mut self, scope: Scope, closed: Vec<Flag>) -> Room {
        let number = scope.who().session;
        self.sessions.insert(number, closed.clone());
        Room { scope: Some(scope), kind: Kind::Session(number), closed }
    }

    /// One that nobody else has goes; one that somebody has goes when they have done.
    pub(super) fn pick_to_close(&mut self, dice: &mut Dice) -> Option<Closing> {
        if self.rooms.is_empty() {
            return None;
        }
        let index = below(dice, self.rooms.len());
        let room = Arc::into_inner(self.rooms.swap_remove(index))?;
        Some(Closing { room, sessions: self.sessions.clone() })
    }

    pub(super) fn clear(&mut self) {
        self.rooms.clear();
    }
}

fn nested(parent: &Room) -> Vec<Flag> {
    let mut closed = parent.closed.clone();
    closed.push(Flag::default());
    closed
}

impl Closing {
    pub(super) fn close(mut self) -> Option<Departure> {
        self.room.mark_closed();
        self.room.scope.take().map(Scope::close)
    }

    pub(super) fn describe(&self) -> String {
        format!("{:?}", self.room.kind)
    }

    /// Whether an instance goes with it, if that is known.
    pub(super) fn owns(&self, whose: &Whose) -> Option<bool> {
        if self.room.is_closed() {
            return None;
        }
        match (&self.room.kind, whose) {
            (_, Whose::Lease(_)) => None,
            (Kind::Agent(of, own), Whose::Agent { principal, name }) => {
                Some(of == principal && own == name)
            }
            (_, Whose::Everybody | Whose::Agent { .. }) => Some(false),
            (_, Whose::Session(session)) => {
                let own = self.room.closed.last()?;
                let within = self.sessions.get(session)?;
                Some(within.iter().any(|flag| Arc::ptr_eq(flag, own)))
            }
        }
    }
}
