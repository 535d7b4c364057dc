//! MCP session with one server through the gateway, over pipes of our own.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;

use ostler_gateway::front::{
    Admission, DialError, GatewayConnection, GatewaySocket, Hello, LineError,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::gateways::client_hello;
use crate::offers::wait_until_kept;

/// Bound on the pages of a list.
const MOST_PAGES: usize = 1000;

/// Number of items that a server lists.
#[derive(Debug, Default, Serialize)]
pub(super) struct Offered {
    pub(super) tools: usize,
    pub(super) prompts: usize,
    pub(super) resources: usize,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the gateway has ended")]
    Gone(#[from] LineError),
    #[error("the connection to the gateway failed")]
    Failed(#[from] io::Error),
    /// Reason given by the gateway or the server.
    #[error("{0}")]
    Refused(String),
    #[error("the gateway has closed the session")]
    Closed,
}

/// Lists a server. Only `startTimeout` limits how long its start takes.
pub(super) fn list(socket: &GatewaySocket, server: &str) -> Result<Offered, SessionError> {
    let mut session = Session::open(socket, server)?;
    let info = json!({ "name": "ostler-warm", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
    let welcome = session.call("initialize", &hello)?;
    session.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
    let mut count = |kind: &str| match welcome["capabilities"].get(kind) {
        Some(_) => session.count(kind),
        None => Ok(0),
    };
    let offered = Offered {
        tools: count("tools")?,
        prompts: count("prompts")?,
        resources: count("resources")?,
    };
    wait_until_kept(socket, server);
    Ok(offered)
}

struct Session {
    input: PipeWriter,
    output: BufReader<PipeReader>,
    last: u64,
    /// Keeps the session open.
    _gateway: GatewayConnection,
}

impl Session {
    fn open(socket: &GatewaySocket, server: &str) -> Result<Self, SessionError> {
        let gateway = GatewayConnection::to(socket)?;
        let hello = client_hello(&gateway, Some(server.to_owned()), None)?;
        let (theirs_in, input) = io::pipe()?;
        let (output, theirs_out) = io::pipe()?;
        gateway.say(&Hello::Client(hello), &[theirs_in.as_fd(), theirs_out.as_fd()])?;
        match gateway.receive()? {
            Admission::Direct => {}
            Admission::Bridge => return Err(SessionError::Closed),
            Admission::Refused(reason) => return Err(SessionError::Refused(reason)),
        }
        let output = BufReader::new(output);
        Ok(Self { input, output, last: 0, _gateway: gateway })
    }

    fn say(&mut self, message: &Value) -> io::Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes())
    }

    /// Sends a request and waits for its result. Requests of the server are refused.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value, SessionError> {
        self.last += 1;
        let id = json!(self.last);
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(SessionError::Closed);
            }
            let mut answer: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
            if answer["method"].is_string() && !answer["id"].is_null() {
                let error = json!({ "code": -32601, "message": "ostler warm only lists" });
                self.say(&json!({ "jsonrpc": "2.0", "id": answer["id"], "error": error }))?;
            } else if answer["id"] == id {
                let error = answer["error"]["message"].as_str().map(ToOwned::to_owned);
                return error.map_or(Ok(answer["result"].take()), |error| {
                    Err(SessionError::Refused(error))
                });
            }
        }
    }

    /// Counts the items of a list, over all pages.
    fn count(&mut self, kind: &str) -> Result<usize, SessionError> {
        let (mut count, mut params) = (0, json!({}));
        for _ in 0..MOST_PAGES {
            let page = self.call(&format!("{kind}/list"), &params)?;
            count += page[kind].as_array().map_or(0, Vec::len);
            match &page["nextCursor"] {
                Value::Null => break,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
        Ok(count)
    }
}
