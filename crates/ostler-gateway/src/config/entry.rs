//! The validated configuration.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use ostler::Resources;
use ostler::keeper::{Caps, ServerLimits};

use super::problem::Problem;
use super::template::Template;
use super::tokens::TokenEntry;
use super::words::{Engine, Era, Hold, Share};
use crate::environment::{Inheritance, Names};
use crate::remote::{Carrier, VARIABLES};

/// A validated configuration file.
#[derive(Clone, Debug)]
pub struct File {
    /// The servers, by name.
    pub servers: BTreeMap<String, ServerEntry>,
    /// Limits for all servers together.
    pub caps: Caps,
    /// Time without a connected client after which an HTTP session's servers stop; `None` for the default.
    pub detach_timeout: Option<Duration>,
    /// Time for which an agent that ostler recognised by itself outlives its last session; `None` for the default.
    pub agent_timeout: Option<Duration>,
    /// Bearer tokens for HTTP clients, in addition to the gateway's own token.
    pub tokens: Vec<TokenEntry>,
    /// Notices for the owner of the file.
    pub notices: Vec<Problem>,
}

/// A server entry with unfilled templates.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEntry {
    /// Name of the server.
    pub name: String,
    /// Whether clients may use the server.
    pub enabled: bool,
    /// A local process or a remote server.
    pub reach: Reach,
    /// Allowed and denied tools.
    pub tools: Tools,
    /// Which sessions share an instance.
    pub share: Share,
    /// Most instances for each group of sharing sessions; for servers that are not shared, most instances in total.
    pub max_instances: Option<NonZeroUsize>,
    /// Most concurrent calls for one instance.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Timeouts.
    pub limits: ServerLimits,
    /// Protocol generation.
    pub era: Era,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// A local process.
    Process(Launch),
    /// A remote server.
    Remote(Remote),
}

/// A local process.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Program to run.
    pub command: Template,
    /// Arguments of the program.
    pub args: Vec<Template>,
    /// Variables set for the process.
    pub env: BTreeMap<String, Template>,
    /// File with more variables.
    pub env_file: Option<Template>,
    /// Base of a relative `env_file`: the directory of the configuration.
    pub directory: PathBuf,
    /// Working directory.
    pub cwd: Option<Template>,
    /// Variables that the process inherits from the client.
    pub inherit: Inheritance,
    /// Time from the first step of stopping the process to SIGKILL.
    pub grace: Duration,
    /// Resource limits.
    pub resources: Resources,
    /// Container engine whose containers belong to the server.
    pub engine: Engine,
    /// Required containment.
    pub containment: Hold,
}

/// A remote server.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// URL of the MCP endpoint.
    pub url: Template,
    /// Headers sent with every request.
    pub headers: BTreeMap<String, Template>,
    /// File with a bearer token.
    pub token_file: Option<Template>,
    /// Base of a relative `token_file`: the directory of the configuration.
    pub directory: PathBuf,
    /// OAuth settings for `ostler login`.
    pub oauth: OAuth,
    /// Transport.
    pub carrier: Carrier,
}

/// OAuth settings of a remote server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OAuth {
    /// Client id; without it, ostler registers itself.
    pub client_id: Option<Template>,
    /// The only authorization server that a login may use [default: the one the remote server names].
    pub issuer: Option<PinnedIssuer>,
    /// Scopes to request instead of those that the server asks for.
    pub scopes: Option<Vec<String>>,
    /// Port of the redirect URI; without it, any free port.
    pub callback_port: Option<u16>,
}

/// An authorization server that the configuration names. Only such a server ever receives a client secret.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedIssuer {
    /// Issuer identifier, a URL.
    pub name: Template,
    /// Secret of the client id.
    pub client_secret: Option<Template>,
}

/// Allowed and denied tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// If set, only these tools are allowed.
    pub allow: Option<Names>,
    /// Denied tools, even if allowed.
    pub deny: Names,
}

impl Tools {
    /// Whether a tool may be used.
    pub fn permit(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool)) && !self.deny.contains(tool)
    }
}

impl File {
    /// Variables that the enabled servers need. Clients send these and no others.
    pub fn variables(&self) -> Names {
        let enabled = self.servers.values().filter(|entry| entry.enabled);
        enabled.flat_map(ServerEntry::variables).collect()
    }
}

impl ServerEntry {
    /// Variables in the entry's templates, and those that the server inherits.
    fn variables(&self) -> Vec<String> {
        let (templates, inherited): (Vec<&Template>, Vec<&str>) = match &self.reach {
            Reach::Process(launch) => {
                (launch.templates().collect(), launch.inherit.names().iter().collect())
            }
            Reach::Remote(remote) => (remote.templates().collect(), VARIABLES.to_vec()),
        };
        let named = templates.into_iter().flat_map(Template::variables);
        named.chain(inherited).map(str::to_owned).collect()
    }
}

impl Remote {
    /// All templates of the entry.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let OAuth { client_id, issuer, .. } = &self.oauth;
        let issuer =
            issuer.iter().flat_map(|one| [&one.name].into_iter().chain(&one.client_secret));
        let others = self.token_file.iter().chain(client_id).chain(issuer);
        self.headers.values().chain([&self.url]).chain(others)
    }
}

impl Launch {
    /// All templates of the entry.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let paths = self.env_file.iter().chain(&self.cwd);
        [&self.command].into_iter().chain(&self.args).chain(self.env.values()).chain(paths)
    }
}
