//! The configuration, from JSON.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ostler::keeper::{BackoffLimits, Caps, Config, Server, ServerLimits, Sharing};
use ostler::{Containment, Limits, ServerSpec, Terms};
use serde::Deserialize;

use crate::greet::Mcp;

/// Settings that all configurations of a host share.
#[derive(Debug, Args)]
pub(crate) struct Setting {
    /// The program of every server
    #[arg(long)]
    program: PathBuf,
    /// The level of containment
    #[arg(long, default_value = "auto")]
    containment: Containment,
    #[arg(skip)]
    pub(crate) mcp: Mcp,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wanted {
    servers: BTreeMap<String, WantedServer>,
    #[serde(default)]
    caps: WantedCaps,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WantedServer {
    switches: Vec<String>,
    env: BTreeMap<String, String>,
    credentials: String,
    share: Share,
    max_instances: Option<NonZeroUsize>,
    max_concurrency: Option<NonZeroUsize>,
    cap: Option<NonZeroUsize>,
    grace_ms: Option<u64>,
    limits: WantedLimits,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Share {
    All,
    #[default]
    Agent,
    Session,
    Call,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WantedLimits {
    idle_ms: Option<u64>,
    /// Instead of `idle_ms`.
    never_idle: bool,
    start_ms: Option<u64>,
    call_ms: Option<u64>,
    drain_ms: Option<u64>,
    write_ms: Option<u64>,
    line: Option<usize>,
    backlog: Option<usize>,
    /// First delay, longest delay, and the uptime that resets it.
    backoff_ms: Option<[u64; 3]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WantedCaps {
    instances: Option<usize>,
    starting: Option<usize>,
    queue: Option<usize>,
    queue_ms: Option<u64>,
}

/// Short, so that no test waits for the default.
const GRACE_MS: u64 = 300;

impl Setting {
    pub(crate) fn config(&self, json: &str) -> Result<Config, String> {
        let wanted: Wanted = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let servers = wanted.servers.into_iter().map(|(name, server)| {
            let server = self.server(&name, server);
            (name, server)
        });
        Ok(Config { servers: servers.collect(), caps: wanted.caps.into() })
    }

    fn server(&self, name: &str, wanted: WantedServer) -> Server {
        let env = wanted.env.into_iter().map(|(name, value)| (name.into(), value.into()));
        let spec = ServerSpec {
            name: name.to_owned(),
            program: self.program.clone().into(),
            args: wanted.switches.into_iter().map(Into::into).collect(),
            env: std::env::vars_os().chain(env).collect(),
            cwd: None,
        };
        let grace = Duration::from_millis(wanted.grace_ms.unwrap_or(GRACE_MS));
        let base = Server::new(spec);
        Server {
            terms: Terms {
                containment: self.containment,
                limits: Limits { grace, ..Limits::default() },
                ..Terms::default()
            },
            credentials: wanted.credentials.into_bytes(),
            sharing: wanted.share.into(),
            max_instances: wanted.max_instances.unwrap_or(base.max_instances),
            max_concurrency: wanted.max_concurrency,
            cap: wanted.cap,
            limits: wanted.limits.into(),
            handshake: Arc::new(self.mcp.clone()),
            listener: Arc::new(self.mcp.clone()),
            ..base
        }
    }
}

impl From<Share> for Sharing {
    fn from(share: Share) -> Self {
        match share {
            Share::All => Self::All,
            Share::Agent => Self::Agent,
            Share::Session => Self::Session,
            Share::Call => Self::Call,
        }
    }
}

impl From<WantedLimits> for ServerLimits {
    fn from(wanted: WantedLimits) -> Self {
        let base = Self::default();
        let or = |ms: Option<u64>, base| ms.map_or(base, Duration::from_millis);
        Self {
            idle: wanted
                .idle_ms
                .map(Duration::from_millis)
                .or(base.idle)
                .filter(|_| !wanted.never_idle),
            start: or(wanted.start_ms, base.start),
            call: or(wanted.call_ms, base.call),
            drain: or(wanted.drain_ms, base.drain),
            write: or(wanted.write_ms, base.write),
            line: wanted.line.unwrap_or(base.line),
            backlog: wanted.backlog.unwrap_or(base.backlog),
            backoff: wanted.backoff_ms.map_or(base.backoff, backoff),
            ..base
        }
    }
}

fn backoff(ms: [u64; 3]) -> BackoffLimits {
    let [first, most, sustained] = ms.map(Duration::from_millis);
    BackoffLimits { first, most, sustained }
}

impl From<WantedCaps> for Caps {
    fn from(wanted: WantedCaps) -> Self {
        let base = Self::default();
        Self {
            instances: wanted.instances.unwrap_or(base.instances),
            starting: wanted.starting.unwrap_or(base.starting),
            queue: wanted.queue.unwrap_or(base.queue),
            queue_timeout: wanted.queue_ms.map_or(base.queue_timeout, Duration::from_millis),
            ..base
        }
    }
}
