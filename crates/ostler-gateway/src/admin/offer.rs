//! What servers offer, as the catalog knows it. Nothing is started.
//!
//! A gateway answers from its own catalog. Without a gateway, [`Offer::all_in`] reads the files of the catalog for the
//! servers of a configuration.

use std::path::{Path, PathBuf};

use ostler::keeper::Principal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::catalog::{Catalog, Known};
use crate::config::Environment;
use crate::gateway::{ClientHello, Gateway, ServerSource};
use crate::protocol::initialize::Initialize;
use crate::protocol::lists::{field_of, items};
use crate::server_set::{AvailableServer, AvailableServers, Unavailable};

/// A configured server, and what it offers to clients of the local user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Name of the server.
    pub server: String,
    /// What it offers.
    pub offering: Offering,
}

/// What a server offers, as far as it is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offering {
    /// The server listed its tools.
    Listed(Listed),
    /// The server was never asked.
    NeverListed,
    /// The client can't use the server, for this reason.
    Unavailable(String),
    /// The configuration disables the server.
    Disabled,
}

/// What a server listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Listed {
    /// Its tools as it describes them, without those that the configuration hides.
    pub tools: Vec<Box<RawValue>>,
    /// Number of prompts, if known.
    pub prompts: Option<usize>,
    /// Number of resources, if known.
    pub resources: Option<usize>,
}

impl Offer {
    /// What the servers of a gateway offer to such a client.
    pub(crate) fn all_of(gateway: &Gateway, client: ClientHello) -> Vec<Self> {
        let wanted = client.server.clone();
        let (servers, off) = gateway.servers_for(client);
        let mut all = all(servers, off, gateway.router().catalog());
        all.retain(|offer| wanted.as_ref().is_none_or(|wanted| *wanted == offer.server));
        all
    }

    /// What these servers offer to a client with this environment and directory, from the files in `catalog`.
    pub fn all_in(
        catalog: Option<PathBuf>,
        source: &ServerSource,
        environment: &Environment,
        cwd: &Path,
    ) -> Vec<Self> {
        all(source.available(environment, cwd), source.off(), &Catalog::reading(catalog))
    }
}

fn all(servers: AvailableServers, off: Vec<String>, catalog: &Catalog) -> Vec<Offer> {
    let offering = |server: Result<AvailableServer, Unavailable>| match server {
        Ok(server) => offering_of(&server, catalog),
        Err(unavailable) => Offering::Unavailable(unavailable.reason.to_string()),
    };
    let on = servers.into_iter().map(|(name, server)| (name, offering(server)));
    let off = off.into_iter().map(|name| (name, Offering::Disabled));
    let mut all: Vec<Offer> =
        on.chain(off).map(|(server, offering)| Offer { server, offering }).collect();
    all.sort_by(|one, other| one.server.cmp(&other.server));
    all
}

fn offering_of(server: &AvailableServer, catalog: &Catalog) -> Offering {
    let profile = Initialize::plain().list_profile(server.server.sharing);
    let name = server.catalog_name(&Principal::default(), profile);
    let found = catalog.find(&name);
    let listed = found.and_then(|found| listed(&found.known, server));
    listed.map_or(Offering::NeverListed, Offering::Listed)
}

/// `None` if the server never listed its tools.
fn listed(known: &Known, server: &AvailableServer) -> Option<Listed> {
    let method = "tools/list";
    let tools = server.tools.filter(method, known.whole_list(method)?);
    let tools = items(&tools, field_of(method)).into_iter().map(ToOwned::to_owned).collect();
    let count = |method| Some(items(&known.whole_list(method)?, field_of(method)).len());
    Some(Listed { tools, prompts: count("prompts/list"), resources: count("resources/list") })
}
