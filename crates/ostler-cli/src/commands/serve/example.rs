//! The example server that a gateway without a configuration offers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use ostler::ServerSpec;
use ostler::keeper::{Server, Sharing};
use ostler_gateway::config::{Environment, Names};
use ostler_gateway::{AvailableServer, Tools};

use crate::gateways::why_no_configuration;

const NAME: &str = "example";

/// The example server, shared by all clients. It tells them where ostler looked for a configuration.
pub(super) fn offers() -> io::Result<BTreeMap<String, AvailableServer>> {
    let mut args = vec![OsString::from("example-server")];
    args.extend(
        why_no_configuration().into_iter().flat_map(|why| ["--instead-of".into(), why.into()]),
    );
    let spec = ServerSpec {
        name: NAME.into(),
        program: std::env::current_exe()?.into_os_string(),
        args,
        env: Environment::of_process().only(&Names::inherited()).into_iter().collect(),
        cwd: None,
    };
    let server = Server { sharing: Sharing::All, ..Server::new(spec) };
    Ok(BTreeMap::from([(NAME.to_owned(), AvailableServer::new(server, Tools::default()))]))
}
