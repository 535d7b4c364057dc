//! Which servers there are for whom.
//!
//! A configuration has variables in it, and clients bring values for them. So what a server runs as is known
//! only with a client, and changes for each of them when the configuration does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::keeper::{Caps, Changes, Departure, Principal};

use super::pass::Pass;
use crate::config::{self, Environment, Names, Resolved};
use crate::gateway::Gateway;
use crate::menu::{Menu, Offer, Offers};
use crate::mutex::lock;
use crate::quota::QuotaLimits;
use crate::reason::why;

/// Where servers come from.
#[derive(Clone, Debug)]
pub enum Supply {
    /// These, for everybody.
    Fixed(BTreeMap<String, Offer>),
    /// What a configuration says.
    File(config::File),
}

/// All clients, with what they have brought along.
#[derive(Debug)]
pub(crate) struct Roster {
    /// The gateway's own variables; a client's come before them.
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    supply: Supply,
    /// What lets clients on HTTP in, as the configuration says.
    passes: Arc<[Arc<Pass>]>,
    guests: Vec<Guest>,
    /// With so many guests it is time to look who has gone.
    look_at: usize,
}

/// A client, or one that has left instances behind that others of its agent may use.
#[derive(Debug)]
pub(crate) struct Guest {
    menu: Arc<Menu>,
    variables: Environment,
    cwd: PathBuf,
    /// The servers that it may use; all, if that is not said.
    allowed: Option<Names>,
}

/// It is not worth looking at fewer.
const FEW: usize = 64;

impl Roster {
    pub(crate) fn new(supply: Supply, environment: Environment) -> Self {
        let passes = supply.passes(&environment, &[]);
        let state = State { supply, passes, guests: Vec::new(), look_at: FEW };
        Self { environment, state: Mutex::new(state) }
    }

    /// The variables that clients are asked for.
    pub(crate) fn variables(&self) -> Names {
        match &lock(&self.state).supply {
            Supply::Fixed(_) => Names::default(),
            Supply::File(file) => file.variables(),
        }
    }

    /// The names of all servers that are not switched off.
    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.state).supply.names().into_iter().collect()
    }

    /// The names of all servers that are switched off.
    pub(crate) fn off(&self) -> Vec<String> {
        let state = lock(&self.state);
        let Supply::File(file) = &state.supply else { return Vec::new() };
        let off = file.servers.iter().filter(|(_, entry)| !entry.enabled);
        off.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a server is there, and switched off.
    pub(crate) fn is_off(&self, name: &str) -> bool {
        lock(&self.state).supply.entry(name).is_some_and(|entry| !entry.enabled)
    }

    /// What lets clients on HTTP in, as the configuration says.
    pub(crate) fn passes(&self) -> Arc<[Arc<Pass>]> {
        Arc::clone(&lock(&self.state).passes)
    }

    /// What is wrong with the tokens of clients on HTTP.
    pub(crate) fn token_warnings(&self) -> Vec<String> {
        match &lock(&self.state).supply {
            Supply::Fixed(_) => Vec::new(),
            Supply::File(file) => config::token_warnings(file, &self.environment),
        }
    }

    /// How long a client on HTTP may be away, if the configuration says it.
    pub(crate) fn detach_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).supply {
            Supply::Fixed(_) => None,
            Supply::File(file) => file.detach_timeout,
        }
    }

    /// How long an agent that ostler recognised by itself outlives its last session, if the configuration says it.
    pub(crate) fn agent_timeout(&self) -> Option<Duration> {
        match &lock(&self.state).supply {
            Supply::Fixed(_) => None,
            Supply::File(file) => file.agent_timeout,
        }
    }

    /// The servers as they are for this one.
    pub(crate) fn welcome(&self, gateway: &Gateway, mut guest: Guest) -> Arc<Menu> {
        let mut state = lock(&self.state);
        if state.guests.len() >= state.look_at {
            state.forget_who_has_gone(gateway);
        }
        guest.menu = gateway.menu(self.offers(&state.supply, &guest));
        let menu = Arc::clone(&guest.menu);
        state.guests.push(guest);
        menu
    }

    /// Takes over another configuration. What is unchanged for a client stays as it is for it.
    pub(crate) fn replace(&self, gateway: &Gateway, supply: Supply) -> (Changes, Departure) {
        let mut state = lock(&self.state);
        let changes = changes(&state.supply, &supply);
        let passes = supply.passes(&self.environment, &state.passes);
        let is_kept = |old: &Arc<Pass>| passes.iter().any(|pass| Arc::ptr_eq(pass, old));
        state.passes.iter().filter(|old| !is_kept(old)).for_each(|old| old.withdraw());
        state.passes = passes;
        gateway.quotas().configure(supply.quotas());
        state.supply = supply;
        state.forget_who_has_gone(gateway);
        let offers = |guest: &Guest| (Arc::clone(&guest.menu), self.offers(&state.supply, guest));
        let menus = state.guests.iter().map(offers).collect();
        (changes, gateway.replace_menus(menus, state.supply.caps()))
    }

    /// The servers that somebody can't have, and why.
    pub(crate) fn missing(&self) -> BTreeSet<(Arc<str>, Arc<str>)> {
        let state = lock(&self.state);
        let present = state.guests.iter().filter(|guest| guest.is_present());
        present.flat_map(|guest| guest.menu.all_missing()).collect()
    }

    fn offers(&self, supply: &Supply, guest: &Guest) -> Offers {
        let environment = self.environment.for_client(guest.variables.clone());
        let mut offers = supply.offers(&environment, &guest.cwd);
        offers.retain(|name, _| guest.allowed.as_ref().is_none_or(|names| names.contains(name)));
        offers
    }
}

impl State {
    /// Whoever has left nothing behind is forgotten, and with it what only it could have used.
    fn forget_who_has_gone(&mut self, gateway: &Gateway) {
        let instances = gateway.keeper().snapshot().instances.into_iter();
        let used: BTreeSet<Arc<str>> = instances.map(|view| view.key.server).collect();
        self.guests.retain(|guest| {
            guest.is_present() || guest.menu.ids().iter().any(|id| used.contains(id))
        });
        let kept: BTreeSet<Arc<str>> =
            self.guests.iter().flat_map(|guest| guest.menu.ids()).collect();
        gateway.keeper().retain(|id| kept.contains(id));
        self.look_at = FEW.max(2 * self.guests.len());
    }
}

impl Guest {
    /// One with these variables, who works in this directory.
    pub(crate) fn new(variables: Environment, cwd: PathBuf, allowed: Option<Names>) -> Self {
        Self { menu: Arc::default(), variables, cwd, allowed }
    }

    /// Whether anybody else has its menu.
    fn is_present(&self) -> bool {
        Arc::strong_count(&self.menu) > 1
    }
}

impl Supply {
    pub(crate) fn caps(&self) -> Caps {
        match self {
            Self::Fixed(_) => Caps::default(),
            Self::File(file) => file.caps,
        }
    }

    /// The limits of the principals that have some of their own.
    pub(crate) fn quotas(&self) -> BTreeMap<Principal, QuotaLimits> {
        let Self::File(file) = self else { return BTreeMap::new() };
        file.tokens.iter().map(|entry| (Pass::principal_of(&entry.name), entry.limits)).collect()
    }

    fn offers(&self, environment: &Environment, cwd: &Path) -> Offers {
        match self {
            Self::Fixed(offers) => {
                offers.iter().map(|(name, offer)| (name.clone(), Ok(offer.clone()))).collect()
            }
            Self::File(file) => {
                let offer = |entry: &config::ServerEntry| {
                    let resolved = config::resolve(entry, environment, cwd);
                    let Resolved { server, identity } = resolved.map_err(|reason| why(&reason))?;
                    Ok(Offer { server, identity, tools: entry.tools.clone() })
                };
                let on = file.servers.iter().filter(|(_, entry)| entry.enabled);
                on.map(|(name, entry)| (name.clone(), offer(entry))).collect()
            }
        }
    }

    /// A pass for each token that can be had. One that is as it was stays the same.
    fn passes(&self, environment: &Environment, old: &[Arc<Pass>]) -> Arc<[Arc<Pass>]> {
        let Self::File(file) = self else { return Arc::default() };
        let mut passes: Vec<Arc<Pass>> = Vec::new();
        for entry in &file.tokens {
            let pass = entry.secret(environment).ok().map(|secret| Pass::of(entry, secret));
            // Whose a client is has to be known.
            let pass = pass.filter(|pass| !passes.iter().any(|other| other.is_like(pass)));
            passes.extend(pass.map(|pass| {
                let same = old.iter().find(|one| one.is_same(&pass)).cloned();
                same.unwrap_or_else(|| Arc::new(pass))
            }));
        }
        passes.into()
    }

    fn names(&self) -> BTreeSet<String> {
        match self {
            Self::Fixed(offers) => offers.keys().cloned().collect(),
            Self::File(file) => {
                let on = file.servers.iter().filter(|(_, entry)| entry.enabled);
                on.map(|(name, _)| name.clone()).collect()
            }
        }
    }

    fn entry(&self, name: &str) -> Option<&config::ServerEntry> {
        match self {
            Self::Fixed(_) => None,
            Self::File(file) => file.servers.get(name),
        }
    }
}

/// The difference as its author sees it.
fn changes(old: &Supply, new: &Supply) -> Changes {
    let (before, after) = (old.names(), new.names());
    let is_same = |name: &&String| old.entry(name) == new.entry(name);
    let (kept, changed) = before.intersection(&after).partition(is_same);
    let cloned = |names: Vec<&String>| names.into_iter().cloned().collect();
    Changes {
        kept: cloned(kept),
        changed: cloned(changed),
        removed: before.difference(&after).cloned().collect(),
        added: after.difference(&before).cloned().collect(),
    }
}
