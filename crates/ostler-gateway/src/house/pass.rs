//! What lets a client in, and what it may use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ostler::keeper::Principal;
use tokio_util::sync::CancellationToken;

use crate::config::{Names, TokenEntry};
use crate::menu::Menu;
use crate::quota::{Account, Quotas};

/// A token with a name.
pub struct Pass {
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
    menu: OnceLock<Arc<Menu>>,
    /// What its principal uses of the gateway.
    account: OnceLock<Arc<Account>>,
    withdrawn: CancellationToken,
}

impl Pass {
    /// The local user's token, for everything.
    pub fn new(name: &str, token: String) -> Self {
        Self {
            principal: Principal::default(),
            name: name.to_owned(),
            token,
            agent: None,
            servers: None,
            menu: OnceLock::new(),
            account: OnceLock::new(),
            withdrawn: CancellationToken::new(),
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
        let mut pass = Self::named(&entry.name, secret);
        (pass.agent, pass.servers) = (entry.agent.clone(), entry.servers.clone());
        pass
    }

    /// Whether it lets in the same clients to the same servers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let all = |pass: &Self| {
            let Self { name, token, agent, servers, .. } = pass;
            (name.clone(), token.clone(), agent.clone(), servers.clone())
        };
        all(self) == all(other)
    }

    /// Whether both have the same token.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// It lets nobody in any more, and who is in has to go.
    pub(crate) fn withdraw(&self) {
        self.withdrawn.cancel();
    }

    /// Cancelled when it is withdrawn.
    pub(crate) fn withdrawn(&self) -> &CancellationToken {
        &self.withdrawn
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
    pub(crate) fn menu(&self, make: impl FnOnce(Option<Names>) -> Arc<Menu>) -> Arc<Menu> {
        Arc::clone(self.menu.get_or_init(|| make(self.servers.clone())))
    }
}

/// So that nobody is called like the token that is always there.
fn named(name: &str) -> String {
    format!("tokens.{name}")
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agent, servers, .. } = self;
        let mut shown = f.debug_struct("Pass");
        shown.field("name", name).field("agent", agent).field("servers", servers);
        shown.finish_non_exhaustive()
    }
}
