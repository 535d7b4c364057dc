//! What each principal uses of the gateway, and how much it may use.
//!
//! # Theory of operation
//!
//! Every principal has an [`Account`], with a counter for each thing that clients can make more of. Counting is a few
//! atomic operations, so that it costs calls next to nothing; every counted thing is given back by the drop of the
//! guard that stands for it.
//!
//! Bytes and connections are shared by all principals, out of a [`Pool`]. The last quarter of a pool is divided among
//! the principals that use it: a principal that has more than its share gets nothing out of that quarter, and others
//! do. So no principal can keep another one from being served.
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

/// Bytes of requests that may wait in the whole gateway, with what it takes to keep them; answers have as many.
const BYTES: usize = 256 << 20;
/// The same for one principal, if the configuration does not say it.
const BYTES_OF_PRINCIPAL: usize = 128 << 20;
/// The most that a configuration can allow one principal: a pool gives nobody more.
pub(crate) const MOST_BYTES: usize = BYTES - BYTES / pool::RESERVED;
/// Less could not hold a request of a usual size.
pub(crate) const LEAST_BYTES: usize = 64 << 10;

/// Sessions on HTTP at one time, of all principals together.
pub(crate) const MOST_SESSIONS: usize = 4096;

/// The limits of one principal; what is not set has none of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Sessions on HTTP at one time.
    pub sessions: Option<usize>,
    /// Requests on HTTP that are not answered yet.
    pub requests: Option<usize>,
    /// Requests on HTTP in a minute.
    pub requests_per_minute: Option<u32>,
    /// Bytes of requests that wait.
    pub waiting_bytes: Option<usize>,
}

/// Why a principal does not get more of something that it shares with others.
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

/// All accounts.
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

/// What one principal uses.
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
            bytes: Part::new(Arc::clone(&self.bytes)),
            unread: Part::new(Arc::clone(&self.unread)),
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
        self.bytes.allow(limits.waiting_bytes.unwrap_or(BYTES_OF_PRINCIPAL));
        self.unread.allow(BYTES_OF_PRINCIPAL);
    }

    /// How many sessions it may have.
    pub(crate) fn most_sessions(&self) -> usize {
        self.most_sessions.load(Ordering::Relaxed)
    }

    /// How many requests it may have in flight.
    pub(crate) fn most_requests(&self) -> usize {
        self.requests.most()
    }

    /// Permits for this many requests, if the principal may have so many more open.
    pub(crate) fn begin_requests(self: &Arc<Self>, count: usize) -> Option<RequestPermits> {
        RequestPermits::take(self, count)
    }

    /// Counts so many requests towards those of a minute. In how many seconds to try again if they are too many.
    pub(crate) fn pace(&self, requests: u32) -> Result<(), u64> {
        self.rate.count(requests)
    }

    /// Counts one more connection in use, which has to be given back. False if others need the rest.
    pub(crate) fn use_connection(&self) -> bool {
        self.connections.take(1, Spare::Nothing).is_ok()
    }

    pub(crate) fn give_back_connection(&self) {
        self.connections.give_back(1);
    }
}
