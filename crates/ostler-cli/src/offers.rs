//! What servers offer, from the catalog of a gateway or from its files, and the tools in it. Nothing is started.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use ostler_gateway::ServerSource;
use ostler_gateway::admin::{Offer, Offering, Request};
use ostler_gateway::config::{self, Environment, LoadError, NotFound};
use ostler_gateway::front::{GatewayConnection, GatewaySocket, Hello, LineError};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::commands::serve::life::catalog;
use crate::gateways::{AskError, Which, client_hello, followed_configuration, no_such};

/// Wait for the catalog to have what a server listed.
const KEPT_LIMIT: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub(crate) enum OffersError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("cannot find the current directory")]
    Directory(#[from] io::Error),
    #[error(
        "no gateway runs, and no configuration was found; `ostler warm` starts a gateway and lists its servers"
    )]
    Nowhere,
}

/// A tool, as far as people need to know it.
#[derive(Debug, Deserialize)]
pub(crate) struct Tool {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default, rename = "inputSchema")]
    schema: Map<String, Value>,
}

/// An argument of a tool.
#[derive(Debug)]
pub(crate) struct Argument<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_required: bool,
    schema: &'a Value,
}

/// What all servers offer to a client here.
pub(crate) fn offers(which: &Which) -> Result<Vec<Offer>, OffersError> {
    match which.dial() {
        Ok(gateway) => of_gateway(&gateway, None),
        Err(AskError::None) => of_files(),
        Err(error) => Err(error.into()),
    }
}

/// What one server of a gateway offers, or all of them.
pub(crate) fn of_gateway(
    gateway: &GatewayConnection,
    server: Option<&str>,
) -> Result<Vec<Offer>, OffersError> {
    let request = Request::Offers(client_hello(gateway, server.map(ToOwned::to_owned), None)?);
    gateway.say(&Hello::Admin(request), &[]).map_err(AskError::Untold)?;
    let mut offers = Vec::new();
    loop {
        match gateway.receive() {
            Ok(offer) => offers.push(offer),
            Err(LineError::Closed) => return Ok(offers),
            Err(error) => return Err(AskError::Gone(error).into()),
        }
    }
}

/// Waits until the catalog of the gateway has what this server listed; the gateway fills it in the background. It never
/// has a list that is too large, so the wait is bounded.
pub(crate) fn wait_until_kept(socket: &GatewaySocket, server: &str) {
    let end = Instant::now() + KEPT_LIMIT;
    let is_kept = || {
        let gateway = GatewayConnection::to(socket).ok()?;
        let offers = of_gateway(&gateway, Some(server)).ok()?;
        Some(offers.iter().all(|offer| !matches!(offer.offering, Offering::NeverListed)))
    };
    while is_kept() == Some(false) && Instant::now() < end {
        thread::sleep(LOOK_EVERY);
    }
}

fn of_files() -> Result<Vec<Offer>, OffersError> {
    let path = followed_configuration(None)?.0.ok_or(OffersError::Nowhere)?;
    let source = ServerSource::File(config::load(&path)?);
    let cwd = std::env::current_dir()?;
    Ok(Offer::all_in(catalog(), &source, &Environment::of_process(), &cwd))
}

/// Finds a tool, and its description by the server. The error names the most similar tool.
pub(crate) fn find_tool<'l>(
    listed: &'l [Box<RawValue>],
    server: &str,
    name: &str,
) -> Result<(&'l RawValue, Tool), String> {
    let parsed = listed.iter().filter_map(|raw| Some((&**raw, Tool::parse(raw)?)));
    let (found, others): (Vec<_>, Vec<_>) = parsed.partition(|(_, tool)| tool.name == name);
    found.into_iter().next().ok_or_else(|| {
        let known: Vec<&str> = others.iter().map(|(_, tool)| tool.name.as_str()).collect();
        no_such("tool", name, &known, &format!("ostler tools {server}"))
    })
}

impl Tool {
    /// Parses a tool; `None` if it has no name.
    pub(crate) fn parse(raw: &RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Its arguments: the required ones first.
    pub(crate) fn arguments(&self) -> Vec<Argument<'_>> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let mut all: Vec<Argument<'_>> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Argument { name, is_required: is_required(name), schema })
            .collect();
        all.sort_by_key(|argument| !argument.is_required);
        all
    }
}

impl Argument<'_> {
    /// Accepted JSON types; empty if the schema does not tell.
    pub(crate) fn types(&self) -> Vec<&str> {
        let variants = ["anyOf", "oneOf"].into_iter().filter_map(|key| self.schema[key].as_array());
        std::iter::once(self.schema)
            .chain(variants.flatten())
            .flat_map(|schema| match &schema["type"] {
                Value::String(one) => vec![one.as_str()],
                Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            })
            .collect()
    }

    pub(crate) fn description(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }
}
