//! Quotas: the use that each principal makes of the gateway, and its limits.
//!
//! # Theory of operation
//!
//! Every principal has an [`Account`] with a counter for each resource that clients can use more of: sessions,
//! requests in flight, requests per minute, bytes and connections. Counting takes a few atomic operations, so it
//! costs a call next to nothing. A guard stands for each counted use, and its drop gives the use back.
//!
//! All principals share bytes and connections, out of a [`Pool`]. The last quarter of a pool is divided among the
//! principals that use it: a principal above its share gets nothing out of that quarter, and the others do. So no
//! principal can keep another one from being served.
//!
//! `tokens.NAME.limits` of the configuration sets further limits. A reload changes them in place.

mod budget;
mod count;
mod pool;
mod rate;
mod unread;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ostler::keeper::Principal;

use crate::mutex::lock;
pub(crate) use budget::{ByteBudget, Charge};
use count::Count;
pub(crate) use count::RequestPermits;
use pool::{Part, Pool, Spare};
use rate::Rate;

/// Bytes of requests that may wait in the whole gateway, with their overhead. Responses have as many.
const BYTES: usize = 256 << 20;
/// The same for one principal, unless the configuration sets it.
const BYTES_OF_PRINCIPAL: usize = 128 << 20;
/// Most bytes that a configuration can allow one principal: the pool grants no principal more.
pub(crate) const MOST_BYTES: usize = BYTES - BYTES / pool::RESERVED;
/// Fewest bytes that a configuration can allow: less could not hold a request of usual size.
pub(crate) const LEAST_BYTES: usize = 64 << 10;

/// HTTP sessions at the same time, of all principals together.
pub(crate) const MOST_SESSIONS: usize = 4096;

/// Limits of one principal; `None` is no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// HTTP sessions at the same time.
    pub sessions: Option<usize>,
    /// HTTP requests in flight.
    pub requests: Option<usize>,
    /// HTTP requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Bytes of waiting requests.
    pub waiting_bytes: Option<usize>,
}

/// Why a principal gets no more of a shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuotaExceeded {
    #[error(
        "this session already has {0} bytes of waiting requests; try again when some are answered"
    )]
    Session(usize),
    #[error(
        "this token already has {0} bytes of waiting requests; try again when some are answered"
    )]
    Principal(usize),
    #[error("this request has more than the {0} bytes that may wait for this token")]
    Never(usize),
    #[error("the gateway is busy with requests of other clients; try again later")]
    Shared,
}

/// Accounts of all principals, and the pools that they share.
#[derive(Debug)]
pub(crate) struct Quotas {
    bytes: Arc<Pool>,
    unread: Arc<Pool>,
    connections: Arc<Pool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limits: BTreeMap<Principal, QuotaLimits>,
    accounts: HashMap<Principal, Arc<Account>>,
}

/// Use and limits of one principal.
#[derive(Debug)]
pub(crate) struct Account {
    most_sessions: AtomicUsize,
    requests: Count,
    rate: Rate,
    bytes: Part,
    unread: Part,
    connections: Part,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            bytes: Arc::new(Pool::new(BYTES)),
            unread: Arc::new(Pool::new(BYTES)),
            connections: Arc::new(Pool::new(usize::MAX)),
            state: Mutex::default(),
        }
    }
}

impl Quotas {
    /// Account of a principal, created at its first use.
    pub(crate) fn account(&self, principal: &Principal) -> Arc<Account> {
        let mut state = lock(&self.state);
        if let Some(account) = state.accounts.get(principal) {
            return Arc::clone(account);
        }
        let account = Account {
            most_sessions: AtomicUsize::default(),
            requests: Count::default(),
            rate: Rate::default(),
            bytes: Part::new(Arc::clone(&self.bytes)),
            unread: Part::new(Arc::clone(&self.unread)),
            connections: Part::new(Arc::clone(&self.connections)),
        };
        account.set(state.limits.get(principal).copied().unwrap_or_default());
        let account = Arc::new(account);
        state.accounts.insert(principal.clone(), Arc::clone(&account));
        account
    }

    /// Sets the limits of all principals; those not named get the defaults.
    pub(crate) fn configure(&self, limits: BTreeMap<Principal, QuotaLimits>) {
        let mut state = lock(&self.state);
        // An account that only this map holds has nothing in use, and need not be kept.
        state.accounts.retain(|_, account| Arc::strong_count(account) > 1);
        for (principal, account) in &state.accounts {
            account.set(limits.get(principal).copied().unwrap_or_default());
        }
        state.limits = limits;
    }

    /// Sets the limit on HTTP connections.
    pub(crate) fn allow_connections(&self, most: usize) {
        self.connections.allow(most);
    }
}

impl Account {
    fn set(&self, limits: QuotaLimits) {
        self.most_sessions.store(limits.sessions.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.requests.allow(limits.requests);
        self.rate.allow(limits.requests_per_minute);
        self.bytes.allow(limits.waiting_bytes.unwrap_or(BYTES_OF_PRINCIPAL));
        self.unread.allow(BYTES_OF_PRINCIPAL);
    }

    /// Limit on sessions.
    pub(crate) fn most_sessions(&self) -> usize {
        self.most_sessions.load(Ordering::Relaxed)
    }

    /// Limit on requests in flight.
    pub(crate) fn most_requests(&self) -> usize {
        self.requests.most()
    }

    /// Permits for this many requests; `None` if they exceed the limit on requests in flight.
    pub(crate) fn begin_requests(self: &Arc<Self>, count: usize) -> Option<RequestPermits> {
        RequestPermits::take(self, count)
    }

    /// Counts requests towards the rate limit, or returns the number of seconds after which to try again.
    pub(crate) fn pace(&self, requests: u32) -> Result<(), u64> {
        self.rate.count(requests)
    }

    /// Counts a busy connection, which the caller has to give back. False if the rest is reserved for others.
    pub(crate) fn use_connection(&self) -> bool {
        self.connections.take(1, Spare::Nothing).is_ok()
    }

    pub(crate) fn give_back_connection(&self) {
        self.connections.give_back(1);
    }
}
