//! What each principal uses of the gateway, and how much it may use.
//!
//! # Theory of operation
//!
//! Every principal has an [`Account`], with a counter for each thing that clients can make more of. Counting is a few
//! atomic operations, so that it costs calls next to nothing; every counted thing is given back by the drop of the
//! guard that stands for it.
//!
//! Connections are shared by all principals, out of a [`Pool`]. The last quarter of a pool is divided among
//! the principals that use it: a principal that has more than its share gets nothing out of that quarter, and others
//! do. So no principal can keep another one from being served.
//!
//! `tokens.NAME.limits` of the configuration sets further limits. A reload changes them in place.

mod count;
mod pool;
mod rate;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ostler::keeper::Principal;

use crate::gateway::lock;
use count::Count;
pub(crate) use count::InFlightRequest;
pub(crate) use pool::{Part, Pool};
use rate::Rate;

/// The limits of one principal; what is not set has none of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Sessions on HTTP at one time.
    pub sessions: Option<usize>,
    /// Requests on HTTP that are not answered yet.
    pub requests: Option<usize>,
    /// Requests on HTTP in a minute.
    pub requests_per_minute: Option<u32>,
}

/// A principal does not get more of something that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied;

/// All accounts.
#[derive(Debug)]
pub(crate) struct Quotas {
    connections: Arc<Pool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: BTreeMap<Principal, QuotaLimits>,
    accounts: HashMap<Principal, Arc<Account>>,
}

/// What one principal uses.
#[derive(Debug)]
pub(crate) struct Account {
    most_sessions: AtomicUsize,
    requests: Count,
    rate: Rate,
    connections: Part,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { connections: Arc::new(Pool::new(usize::MAX)), state: Mutex::default() }
    }
}

impl Quotas {
    /// The account of a principal.
    pub(crate) fn account(&self, principal: &Principal) -> Arc<Account> {
        let mut state = lock(&self.state);
        if let Some(account) = state.accounts.get(principal) {
            return Arc::clone(account);
        }
        let account = Account {
            most_sessions: AtomicUsize::default(),
            requests: Count::default(),
            rate: Rate::default(),
            connections: Part::new(Arc::clone(&self.connections)),
        };
        account.set(state.limits.get(principal).copied().unwrap_or_default());
        let account = Arc::new(account);
        state.accounts.insert(principal.clone(), Arc::clone(&account));
        account
    }

    /// Sets the limits of all principals; one that is not named has none of its own.
    pub(crate) fn configure(&self, limits: BTreeMap<Principal, QuotaLimits>) {
        let mut state = lock(&self.state);
        // An account that nobody uses any more has nothing to remember.
        state.accounts.retain(|_, account| Arc::strong_count(account) > 1);
        for (principal, account) in &state.accounts {
            account.set(limits.get(principal).copied().unwrap_or_default());
        }
        state.limits = limits;
    }

    /// Sets how many connections on HTTP there may be.
    pub(crate) fn allow_connections(&self, most: usize) {
        self.connections.allow(most);
    }
}

impl Account {
    fn set(&self, limits: QuotaLimits) {
        self.most_sessions.store(limits.sessions.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.requests.allow(limits.requests);
        self.rate.allow(limits.requests_per_minute);
    }

    /// How many sessions it may have.
    pub(crate) fn most_sessions(&self) -> usize {
        self.most_sessions.load(Ordering::Relaxed)
    }

    /// How many requests it may have in flight.
    pub(crate) fn most_requests(&self) -> usize {
        self.requests.most()
    }

    /// Counts one more request in flight until the guard is dropped. None if there are as many as there may be.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<InFlightRequest> {
        InFlightRequest::begin(self)
    }

    /// Counts so many requests towards those of a minute. In how many seconds to try again if they are too many.
    pub(crate) fn pace(&self, requests: u32) -> Result<(), u64> {
        self.rate.count(requests)
    }

    /// Its connections in use.
    pub(crate) fn connections(&self) -> &Part {
        &self.connections
    }
}
