//! What lets a client in, and what it may use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::config::Names;
use crate::menu::Menu;

/// A token with a name.
pub struct Pass {
    /// What people call it. Sessions belong to it.
    pub(super) name: String,
    /// The token itself.
    pub(super) token: String,
    /// The agent that all of its clients belong to.
    pub(super) agent: Option<String>,
    /// The servers that they may use; all, if that is not said.
    pub(crate) servers: Option<Names>,
    /// What is on offer for them.
    menu: OnceLock<Arc<Menu>>,
}

impl Pass {
    /// A token for everything.
    pub fn new(name: &str, token: String) -> Self {
        let name = name.to_owned();
        Self { name, token, agent: None, servers: None, menu: OnceLock::new() }
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

    /// What is on offer for it; the same for all of its clients.
    pub(crate) fn menu(&self, make: impl FnOnce(Option<Names>) -> Arc<Menu>) -> Arc<Menu> {
        Arc::clone(self.menu.get_or_init(|| make(self.servers.clone())))
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, agent, servers, .. } = self;
        let mut shown = f.debug_struct("Pass");
        shown.field("name", name).field("agent", agent).field("servers", servers);
        shown.finish_non_exhaustive()
    }
}
