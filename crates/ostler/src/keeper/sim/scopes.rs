//! Scopes of a schedule, with a record of which are closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::behaviour::{below, pick};
use crate::keeper::dice::Dice;
use crate::keeper::key::Whose;
use crate::keeper::{Departure, Keeper, Principal, Scope};

type Flag = Arc<AtomicBool>;

/// A scope that callers share.
#[derive(Debug)]
pub(super) struct SharedScope {
    scope: Option<Scope>,
    kind: Kind,
    /// Closed flags of the scope and its parents.
    closed: Vec<Flag>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Agent(Principal, Arc<str>),
    Session(u64),
    Part,
}

impl SharedScope {
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

impl Drop for SharedScope {
    fn drop(&mut self) {
        // A named agent outlives its handles.
        if !matches!(self.kind, Kind::Agent(..)) {
            self.mark_closed();
        }
    }
}

/// All scopes of a schedule.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    open: Vec<Arc<SharedScope>>,
    /// Number of named principals.
    named: usize,
    agents: HashMap<(Principal, &'static str), Flag>,
    /// Parents of each session, by number.
    sessions: HashMap<u64, Vec<Flag>>,
    keeper: Flag,
}

/// A scope about to be closed.
pub(super) struct Closing {
    shared: SharedScope,
    sessions: HashMap<u64, Vec<Flag>>,
}

impl Scopes {
    /// Scopes of the default principal and this many named ones.
    pub(super) fn with_principals(named: usize) -> Self {
        Self { named, ..Self::default() }
    }

    /// Marks all scopes as closed.
    pub(super) fn keeper_ends(&self) {
        self.keeper.store(true, Ordering::Relaxed);
    }

    pub(super) fn any(&self, dice: &mut Dice) -> Option<Arc<SharedScope>> {
        if self.open.is_empty() { None } else { Some(Arc::clone(pick(dice, &self.open))) }
    }

    pub(super) fn open(&mut self, keeper: &Keeper, dice: &mut Dice) {
        let within = self.any(dice);
        let principal = match below(dice, self.named + 1) {
            0 => Principal::default(),
            number => Principal::named(["red", "blue"][number - 1]),
        };
        let shared = match (below(dice, 4), within) {
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
                SharedScope { scope: Some(scope), kind: Kind::Part, closed: nested(&parent) }
            }
        };
        self.open.push(Arc::new(shared));
    }

    /// Opens a named agent.
    pub(super) fn open_agent(&mut self, keeper: &Keeper) {
        let shared = self.agent(keeper, Principal::default(), "ann");
        self.open.push(Arc::new(shared));
    }

    fn agent(&mut self, keeper: &Keeper, principal: Principal, name: &'static str) -> SharedScope {
        let flag = self.agents.entry((principal.clone(), name)).or_default();
        if flag.load(Ordering::Relaxed) {
            *flag = Flag::default();
        }
        let closed = vec![Arc::clone(&self.keeper), Arc::clone(flag)];
        let scope = Some(keeper.agent_of(&principal, name));
        SharedScope { scope, kind: Kind::Agent(principal, name.into()), closed }
    }

    fn session(&mut self, scope: Scope, closed: Vec<Flag>) -> SharedScope {
        let number = scope.who().session;
        self.sessions.insert(number, closed.clone());
        SharedScope { scope: Some(scope), kind: Kind::Session(number), closed }
    }

    /// Picks a scope to close. One that callers still use closes when the last of them drops it.
    pub(super) fn pick_to_close(&mut self, dice: &mut Dice) -> Option<Closing> {
        if self.open.is_empty() {
            return None;
        }
        let index = below(dice, self.open.len());
        let shared = Arc::into_inner(self.open.swap_remove(index))?;
        Some(Closing { shared, sessions: self.sessions.clone() })
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}

fn nested(parent: &SharedScope) -> Vec<Flag> {
    let mut closed = parent.closed.clone();
    closed.push(Flag::default());
    closed
}

impl Closing {
    pub(super) fn close(mut self) -> Option<Departure> {
        self.shared.mark_closed();
        self.shared.scope.take().map(Scope::close)
    }

    pub(super) fn describe(&self) -> String {
        format!("{:?}", self.shared.kind)
    }

    /// Whether an instance stops with it; `None` if the record does not say.
    pub(super) fn owns(&self, whose: &Whose) -> Option<bool> {
        if self.shared.is_closed() {
            return None;
        }
        match (&self.shared.kind, whose) {
            (_, Whose::Lease(_)) => None,
            (Kind::Agent(of, own), Whose::Agent { principal, name }) => {
                Some(of == principal && own == name)
            }
            (_, Whose::AllCallers | Whose::Agent { .. }) => Some(false),
            (_, Whose::Session(session)) => {
                let own = self.shared.closed.last()?;
                let within = self.sessions.get(session)?;
                Some(within.iter().any(|flag| Arc::ptr_eq(flag, own)))
            }
        }
    }
}
