//! What lets a client in, and what it may use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ostler::keeper::Principal;
use tokio_util::sync::CancellationToken;

use crate::config::{Names, TokenEntry};
use crate::quota::{Account, Quotas};
use crate::server_set::ServerSet;

/// A token with a name.
pub struct Credential {
    /// The party that its clients belong to.
    pub(crate) principal: Principal,
    /// What people call it. Sessions belong to it.
    pub(crate) name: String,
    /// The token itself.
    pub(crate) token: String,
    /// The agent that all of its clients belong to.
    pub(crate) agent: Option<String>,
    /// The servers that they may use; all, if that is not said.
    pub(crate) servers: Option<Names>,
    /// What is on offer for them.
    server_set: OnceLock<Arc<ServerSet>>,
    /// What its principal uses of the gateway.
    account: OnceLock<Arc<Account>>,
    revoked: CancellationToken,
}

impl Credential {
    /// The local user's token, for everything.
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

    /// A token of a principal of its own.
    pub fn named(name: &str, token: String) -> Self {
        Self { principal: Self::principal_of(name), ..Self::new(&named(name), token) }
    }

    /// The principal of a token with this name.
    pub(crate) fn principal_of(name: &str) -> Principal {
        Principal::named(&named(name))
    }

    /// What a configuration says, with the token that it stands for.
    pub(crate) fn of(entry: &TokenEntry, secret: String) -> Self {
        let mut credential = Self::named(&entry.name, secret);
        (credential.agent, credential.servers) = (entry.agent.clone(), entry.servers.clone());
        credential
    }

    /// Whether it lets in the same clients to the same servers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let all = |credential: &Self| {
            let Self { name, token, agent, servers, .. } = credential;
            (name.clone(), token.clone(), agent.clone(), servers.clone())
        };
        all(self) == all(other)
    }

    /// Whether both have the same token.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// It lets nobody in any more, and who is in has to go.
    pub(crate) fn revoke(&self) {
        self.revoked.cancel();
    }

    /// Cancelled when it is withdrawn.
    pub(crate) fn revoked(&self) -> &CancellationToken {
        &self.revoked
    }

    /// The same, for clients of this agent.
    #[must_use]
    pub fn of_agent(mut self, agent: String) -> Self {
        self.agent = Some(agent);
        self
    }

    /// The same, for these servers only.
    #[must_use]
    pub fn to_servers(mut self, servers: Names) -> Self {
        self.servers = Some(servers);
        self
    }

    /// What its principal uses of the gateway.
    pub(crate) fn account(&self, quotas: &Quotas) -> &Arc<Account> {
        self.account.get_or_init(|| quotas.account(&self.principal))
    }

    /// What is on offer for it; the same for all of its clients.
    pub(crate) fn server_set(
        &self,
        make: impl FnOnce(Option<Names>) -> Arc<ServerSet>,
    ) -> Arc<ServerSet> {
        Arc::clone(self.server_set.get_or_init(|| make(self.servers.clone())))
    }
}

/// So that nobody is called like the token that is always there.
fn named(name: &str) -> String {
    format!("tokens.{name}")
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agent, servers, .. } = self;
        let mut shown = f.debug_struct("Pass");
        shown.field("name", name).field("agent", agent).field("servers", servers);
        shown.finish_non_exhaustive()
    }
}
