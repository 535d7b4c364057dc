//! What servers offer, from the catalog of a gateway or from its files, and the tools in it. Nothing is started.

use std::io;

use ostler_gateway::ServerSource;
use ostler_gateway::admin::{Offer, Request};
use ostler_gateway::config::{self, Environment, LoadError, NotFound};
use ostler_gateway::front::{GatewayConnection, Hello, LineError};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::commands::serve::life::catalog;
use crate::gateways::{AskError, Which, client_hello, configuration_to_follow};

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
        Ok(gateway) => of_gateway(&gateway),
        Err(AskError::None) => of_files(),
        Err(error) => Err(error.into()),
    }
}

fn of_gateway(gateway: &GatewayConnection) -> Result<Vec<Offer>, OffersError> {
    let request = Request::Offers(client_hello(gateway, None, None)?);
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

fn of_files() -> Result<Vec<Offer>, OffersError> {
    let path = configuration_to_follow(None)?.ok_or(OffersError::Nowhere)?;
    let source = ServerSource::File(config::load(&path)?);
    let cwd = std::env::current_dir()?;
    Ok(Offer::all_in(catalog(), &source, &Environment::of_process(), &cwd))
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
