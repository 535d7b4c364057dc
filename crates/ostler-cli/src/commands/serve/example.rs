//! What is offered without a configuration.

use std::collections::BTreeMap;
use std::io;

use ostler::ServerSpec;
use ostler::keeper::{Server, Sharing};
use ostler_gateway::config::{Environment, Names};
use ostler_gateway::{Offer, Tools};

/// What people call it.
const NAME: &str = "example";

/// Our own small server, one for all.
pub(super) fn offers() -> io::Result<BTreeMap<String, Offer>> {
    let spec = ServerSpec {
        name: NAME.into(),
        program: std::env::current_exe()?.into_os_string(),
        args: vec!["example-server".into()],
        env: Environment::of_process().only(&Names::inherited()).into_iter().collect(),
        cwd: None,
    };
    let server = Server { sharing: Sharing::All, ..Server::new(spec) };
    Ok(BTreeMap::from([(NAME.to_owned(), Offer::new(server, Tools::default()))]))
}
