//! What waits for servers to say what they have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout_at;

use super::Session;
use super::parcel::{Parcel, Place};
use crate::catalog::Catalog;
use crate::message::{self, code};
use crate::names;
use crate::transport::{About, Weight};

/// How long a list waits for servers that were never seen. They are added when they are.
const GATHER: Duration = Duration::from_secs(5);
/// How long a request waits for the server that it names, which may have to be fetched before it starts. One that
/// fails to start is not waited for.
const NAMED: Duration = Duration::from_mins(2);
/// Requests of one client that wait for servers to say what they have. All of them are looked at whenever one does.
const MOST: usize = 256;

/// What waits for servers to say what they have.
pub(super) struct Gather {
    id: Bytes,
    /// The list that is waited for.
    method: &'static str,
    until: Instant,
    wants: Wants,
}

pub(super) enum Wants {
    /// The list itself, of all servers.
    List,
    /// What is called like this.
    Named(Box<Parcel>, Path, String),
}

impl Wants {
    /// Those of these servers that matter.
    fn of(&self, mut servers: Vec<Arc<str>>) -> Vec<Arc<str>> {
        if let Self::Named(_, _, name) = self {
            servers.retain(|server| names::may_be_of(name, server));
        }
        servers
    }
}

/// Where a request names something.
pub(super) type Path = &'static [&'static str];

/// What is worth another look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    since: u64,
    until: Option<Instant>,
}

impl News {
    /// Waits until something was learned, or it is time.
    pub(super) async fn come(self, catalog: &Catalog) {
        let news = catalog.changed_since(self.since);
        match self.until {
            Some(until) => drop(timeout_at(until.into(), news).await),
            None => news.await,
        }
    }
}

impl Session {
    /// Waits for what is not known yet, which is started, once.
    pub(super) fn gather(&mut self, method: &'static str, id: &Bytes, wants: Wants) {
        self.seen = self.gateway.hub().catalog.edition();
        let missing = wants.of(self.unknown(method));
        for server in &missing {
            self.failures.remove(server);
            self.reach_for(server);
        }
        let limit = match wants {
            Wants::List => GATHER,
            Wants::Named(..) => NAMED,
        };
        let gather = Gather { id: id.clone(), method, until: Instant::now() + limit, wants };
        if self.is_hopeless(&missing) {
            self.finish_gather(gather, &missing);
        } else if self.gathers.len() >= MOST {
            let text = format!("{MOST} requests wait for servers to say what they have already");
            self.client.fail(id, code::INTERNAL, &text, Some("busy"));
        } else {
            let number = self.waiting.insert(id.clone(), Place::Gather);
            self.gathers.insert(number, gather);
        }
    }

    /// What somebody here waits to hear of the catalog, if anybody does.
    pub(super) fn news_wanted(&self) -> Option<News> {
        let is_wanted = !self.gathers.is_empty() || !self.promised.is_empty();
        let until = self.gathers.values().map(|gather| gather.until).min();
        is_wanted.then_some(News { since: self.seen, until })
    }

    /// Something was learned, or it is time.
    pub(super) fn heed_news(&mut self) {
        self.seen = self.gateway.hub().catalog.edition();
        self.keep_promises();
        self.finish_gathers();
    }

    /// Goes on with those that have all that they wait for.
    pub(super) fn finish_gathers(&mut self) {
        let now = Instant::now();
        let mut unknown: BTreeMap<&str, Vec<Arc<str>>> = BTreeMap::new();
        for (number, gather) in std::mem::take(&mut self.gathers) {
            let all = unknown.entry(gather.method).or_insert_with(|| self.unknown(gather.method));
            let missing = gather.wants.of(all.clone());
            if gather.until <= now || self.is_hopeless(&missing) {
                self.waiting.remove(&gather.id);
                self.finish_gather(gather, &missing);
            } else {
                self.gathers.insert(number, gather);
            }
        }
    }

    /// Whether none of these servers will say what it has.
    fn is_hopeless(&self, missing: &[Arc<str>]) -> bool {
        missing.iter().all(|server| self.failures.contains_key(server))
    }

    fn finish_gather(&mut self, gather: Gather, missing: &[Arc<str>]) {
        let Gather { id, method, wants, .. } = gather;
        match wants {
            Wants::List => {
                let result = self.put_together(method);
                self.client.reply(&id, message::answer(&id, result.as_bytes()));
                self.promise(method, missing.len());
            }
            Wants::Named(parcel, path, name) => {
                if self.forward_known(*parcel, method, path, &name).is_some() {
                    let text = self.why_unknown(missing, &name);
                    self.client.fail(&id, code::INVALID_PARAMS, &text, None);
                }
            }
        }
    }

    /// Why nobody is known to have what is called like this.
    fn why_unknown(&self, silent: &[Arc<str>], name: &str) -> String {
        let reason = silent.iter().find_map(|server| self.failures.get(server));
        match (reason, silent.first()) {
            (Some(reason), _) => reason.clone(),
            (None, Some(server)) => format!("{server} has not said in time what it has"),
            (None, None) => format!("nothing is called {name}"),
        }
    }

    /// Who got a list without some servers hears when they are known.
    fn promise(&mut self, method: &'static str, unknown: usize) {
        self.promised.remove(method);
        if unknown > 0 {
            self.promised.insert(method, unknown);
        }
    }

    fn keep_promises(&mut self) {
        for (method, before) in std::mem::take(&mut self.promised) {
            let unknown = self.unknown(method).len();
            if unknown < before {
                let kind = method.split('/').next().unwrap_or_default();
                let changed = format!("notifications/{kind}/list_changed");
                let line = message::notification(&changed, None);
                self.client.send(line, About::Nothing, Weight::Notice);
            }
            self.promise(method, unknown);
        }
    }
}
