//! What a configuration says, once it is known to make sense.

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

/// A configuration.
#[derive(Clone, Debug)]
pub struct File {
    /// The servers, by name.
    pub servers: BTreeMap<String, ServerEntry>,
    /// What they may use together.
    pub caps: Caps,
    /// How long a client on HTTP may be away before its session's servers end.
    pub detach_timeout: Option<Duration>,
    /// How long an agent that ostler recognised by itself outlives its last session.
    pub agent_timeout: Option<Duration>,
    /// What lets clients on HTTP in, beside the token that is always there.
    pub tokens: Vec<TokenEntry>,
    /// What its owner should know about it.
    pub notices: Vec<Problem>,
}

/// One server, with its variables not yet looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEntry {
    /// What people call it.
    pub name: String,
    /// Whether it is there at all.
    pub enabled: bool,
    /// What it is.
    pub reach: Reach,
    /// Which of its tools are there.
    pub tools: Tools,
    /// Who may use one instance.
    pub share: Share,
    /// How many instances those who share may have; for servers that are not shared, how many there may be in all.
    pub max_instances: Option<NonZeroUsize>,
    /// How many calls one instance gets at a time.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Its times.
    pub limits: ServerLimits,
    /// Which generation of the protocol it speaks.
    pub era: Era,
}

/// What a server is.
#[derive(Clone, Debug, PartialEq)]
pub enum Reach {
    /// A process that is started.
    Process(Launch),
    /// A remote server.
    Remote(Remote),
}

/// A process that is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The program.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Variables for it.
    pub env: BTreeMap<String, Template>,
    /// A file with variables for it.
    pub env_file: Option<Template>,
    /// Where a path of that file starts that is not absolute.
    pub directory: PathBuf,
    /// Its working directory.
    pub cwd: Option<Template>,
    /// The variables that it inherits.
    pub inherit: Inheritance,
    /// From the first step of stopping it to KILL.
    pub grace: Duration,
    /// How much of the machine it may use.
    pub resources: Resources,
    /// The engine whose containers belong to it.
    pub engine: Engine,
    /// How firmly it is held.
    pub containment: Hold,
}

/// A remote server.
#[derive(Clone, Debug, PartialEq)]
pub struct Remote {
    /// Where it is reached.
    pub url: Template,
    /// Headers of every request.
    pub headers: BTreeMap<String, Template>,
    /// A file that holds a bearer token.
    pub token_file: Option<Template>,
    /// Where a path of that file starts that is not absolute.
    pub directory: PathBuf,
    /// How somebody logs in.
    pub oauth: OAuth,
    /// How its messages travel.
    pub carrier: Carrier,
}

/// How somebody logs in to a remote server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OAuth {
    /// What this client is called.
    pub client_id: Option<Template>,
    /// The only authorization server that a login may use [default: the one the remote server names].
    pub issuer: Option<PinnedIssuer>,
    /// What to ask for.
    pub scopes: Option<Vec<String>>,
    /// The port that the browser comes back to.
    pub callback_port: Option<u16>,
}

/// An authorization server that the configuration names. Only such a server can get a client secret.
#[derive(Clone, Debug, PartialEq)]
pub struct PinnedIssuer {
    /// Its issuer identifier: a url.
    pub name: Template,
    /// What proves to it who this client is.
    pub client_secret: Option<Template>,
}

/// Which tools are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// Only these, if any are named.
    pub allow: Option<Names>,
    /// Not these.
    pub deny: Names,
}

impl Tools {
    /// Whether a tool is there.
    pub fn permit(&self, tool: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.contains(tool)) && !self.deny.contains(tool)
    }
}

impl File {
    /// The variables that it names. A client sends these, and no other, for its servers to be filled in.
    pub fn variables(&self) -> Names {
        let enabled = self.servers.values().filter(|entry| entry.enabled);
        enabled.flat_map(ServerEntry::variables).collect()
    }
}

impl ServerEntry {
    /// The variables that it names, and those that it inherits.
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
    /// All that has variables in it.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let OAuth { client_id, issuer, .. } = &self.oauth;
        let issuer =
            issuer.iter().flat_map(|one| [&one.name].into_iter().chain(&one.client_secret));
        let others = self.token_file.iter().chain(client_id).chain(issuer);
        self.headers.values().chain([&self.url]).chain(others)
    }
}

impl Launch {
    /// All that has variables in it.
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let paths = self.env_file.iter().chain(&self.cwd);
        [&self.command].into_iter().chain(&self.args).chain(self.env.values()).chain(paths)
    }
}
