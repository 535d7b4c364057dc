//! Transports and addresses with which clients reach a gateway.

use std::net::SocketAddr;

use ostler_testkit::{Launched, Stage};
use serde_json::{Value, json};

use crate::cut::Cable;
use crate::test_gateway::{TestGateway, serve};
use crate::{NPX, Published, UVX, Way};

/// Transport between a client and a gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Stdio,
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// Address of a server for a client.
#[derive(Debug)]
pub(crate) enum Reach {
    /// The command of the server itself.
    Itself(Vec<String>),
    /// The command of `ostler connect`.
    Connect(Vec<String>),
    Http {
        url: String,
        token: String,
    },
}

impl Reach {
    /// A server without a gateway.
    pub(crate) fn itself(server: &Published) -> Self {
        Self::Itself(server.start.iter().map(ToString::to_string).collect())
    }

    /// One server of a gateway, or all.
    pub(crate) fn connect(test_gateway: &TestGateway, server: Option<&str>) -> Self {
        let config = test_gateway.config().display().to_string();
        let words = [test_gateway.program(), "connect".into()].into_iter();
        let words = words.chain(server.map(ToOwned::to_owned));
        Self::Connect(words.chain(["--config".into(), config]).collect())
    }
}

/// A gateway to both servers.
pub(crate) struct Gateway {
    pub(crate) test_gateway: TestGateway,
    listening: Option<Listening>,
}

struct Listening {
    process: Launched,
    address: SocketAddr,
    token: String,
    /// Path in front of a server's name.
    path: &'static str,
}

impl Gateway {
    /// A gateway for clients with this transport; `more` is added to each server.
    pub(crate) fn open(transport: Transport, more: &Value) -> Self {
        Self::open_with(transport, more, &json!({}))
    }

    /// The same with further keys in the configuration.
    pub(crate) fn open_with(transport: Transport, more: &Value, keys: &Value) -> Self {
        let test_gateway = TestGateway::new(Stage::leaf());
        NPX.fetch(&test_gateway);
        UVX.fetch(&test_gateway);
        let servers = [NPX, UVX].map(|server| (server.name, server.entry(more)));
        test_gateway.configure_with(&servers, keys);
        let path = match transport {
            // It is started by its first client.
            Transport::Stdio => None,
            Transport::StreamableHttp => Some("/mcp"),
            Transport::Sse => Some("/sse"),
        };
        let listening = path.map(|path| {
            let (process, address, token) = serve(&test_gateway);
            Listening { process, address, token, path }
        });
        Self { test_gateway, listening }
    }

    /// To one server, by its name.
    pub(crate) fn way(&self, server: &'static Published) -> Way<'_> {
        let reach = self.reach(Some(server.name));
        Way { stage: &self.test_gateway, server, reach, prefix: String::new() }
    }

    /// To one server through the endpoint of all servers.
    pub(crate) fn way_among_all(&self, server: &'static Published) -> Way<'_> {
        let prefix = format!("{}__", server.name);
        Way { stage: &self.test_gateway, server, reach: self.reach(None), prefix }
    }

    fn reach(&self, server: Option<&str>) -> Reach {
        let Some(listening) = &self.listening else {
            return Reach::connect(&self.test_gateway, server);
        };
        let server = server.map(|name| format!("/{name}")).unwrap_or_default();
        let url = format!("http://{}{}{server}", listening.address, listening.path);
        Reach::Http { url, token: listening.token.clone() }
    }

    /// Routes clients on HTTP through a relay.
    pub(crate) fn behind_cable(&mut self) -> Cable {
        let listening = self.listening.as_mut().unwrap();
        let cable = Cable::to(listening.address);
        listening.address = cable.address;
        cable
    }

    /// Ends it, with proof.
    pub(crate) fn down(mut self) {
        match &mut self.listening {
            None => self.test_gateway.down(),
            Some(listening) => self.test_gateway.down_with(&mut listening.process),
        }
    }
}
