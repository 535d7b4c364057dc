//! MCP client of one server, for commands that list or call tools.
//!
//! The gateway serves it over two pipes, as it serves a client of `ostler connect`. Nothing blocks but [`lines::wait`], which
//! ends with data, at the deadline or with a signal, so that a command can cancel its request at any time.

mod lines;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ostler_gateway::Agent;
use ostler_gateway::front::{
    Admission, DialError, GatewayConnection, GatewaySocket, Hello, LineError,
};
use rustix::event::PollFlags;
use rustix::io::ioctl_fionbio;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) use self::lines::Patience;
use self::lines::{Lines, Woken, wait};
use crate::gateways::client_hello;
use crate::json_text::compact;

const VERSION: &str = "2025-11-25";
/// Bound on the pages of a list.
const MOST_PAGES: usize = 1000;
const METHOD_NOT_FOUND: i32 = -32601;
/// Wait for the gateway to read a cancellation.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Token of progress notifications; a client has one request in flight.
pub(crate) const PROGRESS_TOKEN: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the gateway has ended")]
    Gone(#[from] LineError),
    #[error("the connection to the gateway failed")]
    Failed(#[from] io::Error),
    #[error("the gateway cannot use the pipes of this process")]
    NoPipes,
    /// Reason of the gateway or the server.
    #[error("{0}")]
    Refused(String),
    #[error("the gateway has closed the session")]
    Closed,
    #[error("a message of more than {0} bytes")]
    Long(usize),
    #[error("the response is not understood")]
    Strange(#[from] serde_json::Error),
    #[error("the time is up")]
    TimedOut,
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

/// Session with one server, after its handshake.
#[derive(Debug)]
pub(crate) struct Client {
    input: File,
    output: Lines,
    last: u64,
    /// Keeps the session open.
    gateway: GatewayConnection,
    patience: Patience,
    /// Capabilities of the server.
    capabilities: Value,
}

/// What a client hears while it waits for a response.
#[derive(Debug)]
pub(crate) enum News<'a> {
    Progress(&'a Progress),
    /// Nothing, for a while.
    Silence,
}

/// Receiver of news.
pub(crate) type Hear<'h> = dyn FnMut(News<'_>) + 'h;

/// Parameters of `notifications/progress`.
#[derive(Debug, Deserialize)]
pub(crate) struct Progress {
    #[serde(rename = "progress")]
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Incoming<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    error: Option<Refusal>,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    message: String,
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

/// Response to a request of the server.
#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'a str,
    id: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl Client {
    /// Opens a session with a server and shakes hands, under this name. Only `startTimeout` limits how long the start of
    /// the server takes.
    pub(crate) fn open(
        socket: &GatewaySocket,
        server: &str,
        agent: Option<Agent>,
        name: &str,
        patience: Patience,
        hear: &mut Hear<'_>,
    ) -> Result<Self, ClientError> {
        let gateway = GatewayConnection::to(socket)?;
        let hello = client_hello(&gateway, Some(server.to_owned()), agent)?;
        let (theirs_in, input) = io::pipe()?;
        let (output, theirs_out) = io::pipe()?;
        gateway.say(&Hello::Client(hello), &[theirs_in.as_fd(), theirs_out.as_fd()])?;
        match gateway.receive()? {
            Admission::Direct => {}
            Admission::Bridge => return Err(ClientError::NoPipes),
            Admission::Refused(reason) => return Err(ClientError::Refused(reason)),
        }
        ioctl_fionbio(&input, true).map_err(io::Error::from)?;
        let (input, output) = (File::from(OwnedFd::from(input)), Lines::new(output.into()));
        let mut client =
            Self { input, output, last: 0, gateway, patience, capabilities: Value::Null };
        client.shake_hands(name, hear)?;
        Ok(client)
    }

    fn shake_hands(&mut self, name: &str, hear: &mut Hear<'_>) -> Result<(), ClientError> {
        let info = json!({ "name": name, "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": info });
        let welcome = self.call("initialize", &hello, hear)?;
        let mut welcome: Value = serde_json::from_str(welcome.get())?;
        self.capabilities = welcome["capabilities"].take();
        self.notify("notifications/initialized", json!({}))
    }

    /// Whether the server has this kind of things: `tools`, `prompts`, `resources`.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.capabilities.get(kind).is_some()
    }

    /// Sends a request and waits for its result. Requests of the server are refused, because this client has no
    /// capabilities.
    pub(crate) fn call(
        &mut self,
        method: &str,
        params: &impl Serialize,
        hear: &mut Hear<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        self.last += 1;
        let id = self.last;
        self.send(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params })?;
        loop {
            let Some(line) = self.output.next(&self.patience)? else {
                hear(News::Silence);
                continue;
            };
            let message: Incoming<'_> = serde_json::from_slice(&line)?;
            match (&message.method, message.id) {
                (Some(method), Some(theirs)) => self.answer(theirs, method)?,
                (Some(method), None) if method == "notifications/progress" => {
                    let progress = message.params.map(|params| serde_json::from_str(params.get()));
                    if let Some(Ok(progress)) = progress {
                        hear(News::Progress(&progress));
                    }
                }
                (None, Some(answered)) if answered.get() == id.to_string() => {
                    return message.into_result();
                }
                _ => {}
            }
        }
    }

    /// All items of a list, over at most [`MOST_PAGES`] pages.
    pub(crate) fn list(
        &mut self,
        kind: &str,
        hear: &mut Hear<'_>,
    ) -> Result<Vec<Box<RawValue>>, ClientError> {
        let (mut items, mut params) = (Vec::new(), json!({}));
        for _ in 0..MOST_PAGES {
            let page = self.call(&format!("{kind}/list"), &params, hear)?;
            let mut page: BTreeMap<String, &RawValue> = serde_json::from_str(page.get())?;
            if let Some(of_page) = page.remove(kind) {
                items.extend(serde_json::from_str::<Vec<Box<RawValue>>>(of_page.get())?);
            }
            let next = page.remove("nextCursor").map(|cursor| serde_json::from_str(cursor.get()));
            match next.transpose()? {
                None | Some(Value::Null) => break,
                Some(cursor) => params = json!({ "cursor": cursor }),
            }
        }
        Ok(items)
    }

    /// Cancels the request in flight, and closes the session when the gateway has read that.
    pub(crate) fn cancel(self, reason: &str) {
        let params = json!({ "requestId": self.last, "reason": reason });
        let Self { mut input, gateway, .. } = self;
        // One small write; if the pipe is full, the end of the session cancels the request as well.
        let message =
            Outgoing { jsonrpc: "2.0", id: None, method: "notifications/cancelled", params };
        let _ = serde_json::to_string(&message).map(|line| writeln!(input, "{line}"));
        drop(input);
        let patience = Patience::for_at_most(CLOSE_LIMIT);
        while let Ok(Woken::Tick) = wait(&gateway, PollFlags::IN, &patience) {}
    }

    fn notify(&mut self, method: &str, params: Value) -> Result<(), ClientError> {
        self.send(&Outgoing { jsonrpc: "2.0", id: None, method, params })
    }

    fn answer(&mut self, id: &RawValue, method: &str) -> Result<(), ClientError> {
        let (result, error) = match method {
            "ping" => (Some(json!({})), None),
            _ => (None, Some(json!({ "code": METHOD_NOT_FOUND, "message": "not supported" }))),
        };
        self.send(&Answer { jsonrpc: "2.0", id, result, error })
    }

    fn send(&mut self, message: &impl Serialize) -> Result<(), ClientError> {
        let line = compact(&serde_json::to_string(message)?) + "\n";
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.input.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.input, PollFlags::OUT, &self.patience)?;
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(ClientError::Closed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Incoming<'_> {
    fn into_result(self) -> Result<Box<RawValue>, ClientError> {
        match (self.result, self.error) {
            (_, Some(error)) => Err(ClientError::Refused(error.message)),
            (Some(result), None) => Ok(result.to_owned()),
            (None, None) => Err(ClientError::Refused("a response without a result".into())),
        }
    }
}
