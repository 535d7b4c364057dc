//! What is offered without a configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use ostler::ServerSpec;
use ostler::keeper::{Server, Sharing};
use ostler_gateway::config::{Environment, Names};
use ostler_gateway::{AvailableServer, Tools};

use crate::gateways::why_no_configuration;

/// What people call it.
const NAME: &str = "example";

/// Our own small server, one for all. It tells its clients where a configuration was looked for.
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
