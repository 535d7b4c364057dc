//! Small MCP server with the tools `echo`, `add` and `wait`: the example of a gateway without a configuration, also used by benchmarks.
//!
//! One thread, no runtime. Calls of `wait` are kept in a list until they are due, so that other calls overtake them.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler::{Frame, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::out::protocol;

const VERSION: &str = "2025-11-25";
/// Capacity of a pipe, in bytes.
const CHUNK: usize = 64 << 10;
/// Longest message, in bytes.
const LONGEST: usize = 64 << 20;
/// Longest wait of the tool `wait`.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

const INVALID_PARAMS: i32 = -32602;
const METHOD_NOT_FOUND: i32 = -32601;

#[derive(Debug, Args)]
pub(crate) struct ExampleServerArguments {
    /// Tell clients why the example is offered instead of their own servers
    #[arg(long, value_name = "TEXT")]
    instead_of: Option<String>,
}

pub(crate) fn run(arguments: ExampleServerArguments) -> ExitCode {
    let server = Server { instead_of: arguments.instead_of, ..Server::default() };
    match server.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => crate::exit::FAILED.into(),
    }
}

#[derive(Default)]
struct Server {
    /// Input that is not a complete line yet.
    input: Vec<u8>,
    output: Vec<u8>,
    /// Pending calls of `wait`: due time and request id.
    waiting: Vec<(Instant, Vec<u8>)>,
    /// Reason why no configuration was found.
    instead_of: Option<String>,
}

/// Parameters of `tools/call`.
#[derive(Deserialize)]
struct Call<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Server {
    fn serve(mut self) -> io::Result<()> {
        let mut stdin = io::stdin().lock();
        let mut stdout = protocol().lock();
        let mut chunk = vec![0; CHUNK];
        loop {
            self.answer_who_has_waited();
            if !self.output.is_empty() {
                stdout.write_all(&self.output)?;
                stdout.flush()?;
                self.output.clear();
            }
            if !self.is_there_input(&stdin)? {
                continue;
            }
            let read = stdin.read(&mut chunk)?;
            if read == 0 {
                return Ok(());
            }
            self.hear(&chunk[..read])?;
        }
    }

    /// Waits for input or for the next due call. Returns whether there is input.
    fn is_there_input(&self, stdin: &impl AsFd) -> io::Result<bool> {
        let Some(next) = self.waiting.iter().map(|(until, _)| *until).min() else {
            return Ok(true);
        };
        let rest = next.saturating_duration_since(Instant::now());
        let rest = Timespec::try_from(rest).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&rest)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn answer_who_has_waited(&mut self) {
        let now = Instant::now();
        let (over, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(until, _)| *until <= now);
        self.waiting = waiting;
        let over: Vec<(Instant, Vec<u8>)> = over;
        for (_, id) in over {
            self.answer(&id, br#"{"content":[{"type":"text","text":"done"}]}"#);
        }
    }

    fn hear(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.input.extend_from_slice(chunk);
        let mut input = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Some(end) = input[at..].iter().position(|byte| *byte == b'\n') {
            if let Ok(frame) = Frame::parse(input[at..at + end].to_vec()) {
                self.message(&frame);
            }
            at += end + 1;
        }
        input.drain(..at);
        self.input = input;
        if self.input.len() > LONGEST { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    fn message(&mut self, frame: &Frame) {
        match (frame.kind(), frame.method()) {
            (Kind::Request, b"tools/call") => self.call(frame),
            (Kind::Request, b"ping") => self.answer(frame.id(), b"{}"),
            (Kind::Request, b"initialize") => {
                let result = initialize(self.instead_of.as_deref());
                self.answer(frame.id(), result.to_string().as_bytes());
            }
            (Kind::Request, b"tools/list") => {
                let result = tools(self.instead_of.is_some());
                self.answer(frame.id(), result.to_string().as_bytes());
            }
            (Kind::Request, _) => self.refuse(frame, METHOD_NOT_FOUND, "no such method"),
            (Kind::Notification, b"notifications/cancelled") => self.cancel(frame),
            _ => {}
        }
    }

    fn call(&mut self, frame: &Frame) {
        let Ok(Call { name, arguments }) = serde_json::from_slice(frame.body()) else {
            return self.refuse(frame, INVALID_PARAMS, "a tool has a name");
        };
        let arguments = arguments.map_or("{}", RawValue::get);
        match name.as_str() {
            "echo" => self.echo(frame, arguments),
            "add" => self.add(frame, arguments),
            "wait" => self.wait(frame, arguments),
            _ => self.refuse(frame, INVALID_PARAMS, "no such tool"),
        }
    }

    fn echo(&mut self, frame: &Frame, arguments: &str) {
        #[derive(Deserialize)]
        struct Arguments<'a> {
            #[serde(borrow)]
            message: &'a RawValue,
        }
        let message = serde_json::from_str(arguments).map(|Arguments { message }| message.get());
        match message {
            // The string is returned byte for byte, escapes included.
            Ok(text) if text.starts_with('"') => {
                let parts: [&[u8]; 3] =
                    [br#"{"content":[{"type":"text","text":"#, text.as_bytes(), b"}]}"];
                self.answer(frame.id(), &parts.concat());
            }
            _ => self.refuse(frame, INVALID_PARAMS, "echo takes a text: message"),
        }
    }

    fn add(&mut self, frame: &Frame, arguments: &str) {
        #[derive(Deserialize)]
        struct Arguments {
            a: f64,
            b: f64,
        }
        match serde_json::from_str(arguments) {
            Ok(Arguments { a, b }) => {
                let sum = a + b;
                let result = json!({
                    "content": [{ "type": "text", "text": sum.to_string() }],
                    "structuredContent": { "sum": sum },
                });
                self.answer(frame.id(), result.to_string().as_bytes());
            }
            Err(_) => self.refuse(frame, INVALID_PARAMS, "add takes two numbers: a and b"),
        }
    }

    fn wait(&mut self, frame: &Frame, arguments: &str) {
        #[derive(Deserialize)]
        struct Arguments {
            ms: u64,
        }
        match serde_json::from_str(arguments) {
            Ok(Arguments { ms }) => {
                let until = Instant::now() + Duration::from_millis(ms).min(LONGEST_WAIT);
                self.waiting.push((until, frame.id().to_vec()));
            }
            Err(_) => self.refuse(frame, INVALID_PARAMS, "wait takes a whole number: ms"),
        }
    }

    /// Drops a pending call; cancelled calls get no response.
    fn cancel(&mut self, frame: &Frame) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            id: &'a RawValue,
        }
        if let Ok(Cancelled { id }) = serde_json::from_slice(frame.body()) {
            self.waiting.retain(|(_, one)| one != id.get().as_bytes());
        }
    }

    fn answer(&mut self, id: &[u8], result: &[u8]) {
        let parts: [&[u8]; 5] =
            [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#, result, b"}\n"];
        self.output.extend_from_slice(&parts.concat());
    }

    fn refuse(&mut self, frame: &Frame, code: i32, message: &str) {
        self.output.extend_from_slice(&frame.refusal(code, message));
        self.output.push(b'\n');
    }
}

fn initialize(instead_of: Option<&str>) -> Value {
    let usual = "This server is part of ostler, and shows that it works. Put your own servers into ostler.json.";
    let instructions = instead_of.map_or(usual.to_owned(), |why| {
        format!("Only an example: ostler found none of your own servers, because {why}. {usual}")
    });
    json!({
        "protocolVersion": VERSION,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "ostler-example", "version": env!("CARGO_PKG_VERSION") },
        "instructions": instructions,
    })
}

fn tools(is_instead: bool) -> Value {
    let remark = if is_instead { " (only an example: ostler found no configuration)" } else { "" };
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({
            "name": name,
            "description": format!("{description}{remark}"),
            "inputSchema": { "type": "object", "properties": properties, "required": required },
        })
    };
    let number = json!({ "type": "number" });
    json!({ "tools": [
        tool("echo", "Returns a text as it is", json!({ "message": { "type": "string" } }), &["message"]),
        tool("add", "Adds two numbers", json!({ "a": number, "b": number }), &["a", "b"]),
        tool(
            "wait",
            "Answers after so many milliseconds",
            json!({ "ms": { "type": "integer", "minimum": 0 } }),
            &["ms"],
        ),
    ] })
}
