//! Credentials: tokens of HTTP clients, and the servers that their clients may use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ostler::keeper::Principal;
use tokio_util::sync::CancellationToken;

use crate::config::{Names, TokenEntry};
use crate::quota::{Account, Quotas};
use crate::server_set::ServerSet;

/// A named token.
pub struct Credential {
    /// Principal of its clients.
    pub(crate) principal: Principal,
    /// Name of the token for people. Sessions belong to it.
    pub(crate) name: String,
    /// The secret.
    pub(crate) token: String,
    /// Agent of all its clients.
    pub(crate) agent: Option<String>,
    /// Servers that its clients may use; `None` for all.
    pub(crate) servers: Option<Names>,
    /// Server set of its clients, made for the first one.
    server_set: OnceLock<Arc<ServerSet>>,
    /// Quota account of its principal.
    account: OnceLock<Arc<Account>>,
    revoked: CancellationToken,
}

impl Credential {
    /// A token of the local user, for all servers.
    pub fn new(name: &str, token: String) -> Self {
        Self {
            principal: Principal::default(),
            name: name.to_owned(),
            token,
            agent: None,
            servers: None,
            server_set: OnceLock::new(),
            account: OnceLock::new(),
            revoked: CancellationToken::new(),
        }
    }

    /// A token with a principal of its own.
    pub fn named(name: &str, token: String) -> Self {
        Self { principal: Self::principal_of(name), ..Self::new(&named(name), token) }
    }

    /// Principal of the token with this name.
    pub(crate) fn principal_of(name: &str) -> Principal {
        Principal::named(&named(name))
    }

    /// Makes a credential from a configuration entry and its resolved secret.
    pub(crate) fn of(entry: &TokenEntry, secret: String) -> Self {
        let mut credential = Self::named(&entry.name, secret);
        (credential.agent, credential.servers) = (entry.agent.clone(), entry.servers.clone());
        credential
    }

    /// Whether both admit the same clients to the same servers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let all = |credential: &Self| {
            let Self { name, token, agent, servers, .. } = credential;
            (name.clone(), token.clone(), agent.clone(), servers.clone())
        };
        all(self) == all(other)
    }

    /// Whether both have the same secret.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// Revokes the token: no more clients are admitted, and present ones are disconnected.
    pub(crate) fn revoke(&self) {
        self.revoked.cancel();
    }

    /// Cancelled when the token is revoked.
    pub(crate) fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }

    /// Assigns all its clients to this agent.
    #[must_use]
    pub fn of_agent(mut self, agent: String) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Restricts its clients to these servers.
    #[must_use]
    pub fn to_servers(mut self, servers: Names) -> Self {
        self.servers = Some(servers);
        self
    }

    /// Quota account of its principal.
    pub(crate) fn account(&self, quotas: &Quotas) -> &Arc<Account> {
        self.account.get_or_init(|| quotas.account(&self.principal))
    }

    /// The server set of all its clients; `make` makes it for the first one.
    pub(crate) fn server_set(
        &self,
        make: impl FnOnce(Option<Names>) -> Arc<ServerSet>,
    ) -> Arc<ServerSet> {
        Arc::clone(self.server_set.get_or_init(|| make(self.servers.clone())))
    }
}

/// Prefixes a configured name, so that it differs from the name of the local user's token.
fn named(name: &str) -> String {
    format!("tokens.{name}")
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agent, servers, .. } = self;
        let mut shown = f.debug_struct("Credential");
        shown.field("name", name).field("agent", agent).field("servers", servers);
        shown.finish_non_exhaustive()
    }
}
