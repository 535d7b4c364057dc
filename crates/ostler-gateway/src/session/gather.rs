//! What waits for servers to say what they have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ostler::Frame;
use tokio::time::timeout_at;

use super::Session;
use crate::catalog::Catalog;
use crate::message::{self, code};
use crate::names;
use crate::transport::{About, Weight};

/// How long a list waits for servers that were never seen. They are added when they are.
const GATHER: Duration = Duration::from_secs(5);
/// How long a request waits for the server that it names, which may have to be fetched before it starts. One that
/// fails to start is not waited for.
const NAMED: Duration = Duration::from_mins(2);

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
    Named(Frame, Path, String),
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

impl Gather {
    pub(super) fn is_for(&self, id: &[u8]) -> bool {
        self.id == id
    }
}

impl Session {
    /// Waits for what is not known yet, which is started, once.
    pub(super) fn gather(&mut self, method: &'static str, id: &Bytes, wants: Wants) {
        self.seen = self.gateway.hub().catalog.edition();
        for server in self.missing(method, &wants) {
            self.failures.remove(&server);
            self.reach_for(&server);
        }
        let limit = match wants {
            Wants::List => GATHER,
            Wants::Named(..) => NAMED,
        };
        let until = Instant::now() + limit;
        self.gathers.push(Gather { id: id.clone(), method, until, wants });
        self.finish_gathers();
    }

    /// What somebody here waits to hear of the catalog, if anybody does.
    pub(super) fn news_wanted(&self) -> Option<News> {
        let is_wanted = !self.gathers.is_empty() || !self.promised.is_empty();
        let until = self.gathers.iter().map(|gather| gather.until).min();
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
        for gather in std::mem::take(&mut self.gathers) {
            let missing = self.missing(gather.method, &gather.wants);
            let is_hopeless = |server: &Arc<str>| self.failures.contains_key(server);
            if gather.until <= now || missing.iter().all(is_hopeless) {
                self.finish_gather(gather, missing.len());
            } else {
                self.gathers.push(gather);
            }
        }
    }

    fn finish_gather(&mut self, Gather { id, method, wants, .. }: Gather, missing: usize) {
        match wants {
            Wants::List => {
                let result = self.put_together(method);
                self.client.reply(&id, message::answer(&id, result.as_bytes()));
                self.promise(method, missing);
            }
            Wants::Named(frame, path, name) => {
                if !self.forward_known(&frame, method, path, &name) {
                    let silent = self.missing(method, &Wants::Named(frame, path, name.clone()));
                    let text = self.why_unknown(&silent, &name);
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

    /// The servers that matter and of which it is not known what they have.
    fn missing(&self, method: &str, wants: &Wants) -> Vec<Arc<str>> {
        let mut servers = self.unknown(method);
        if let Wants::Named(_, _, name) = wants {
            servers.retain(|server| names::may_be_of(name, server));
        }
        servers
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
