//! The protocol: the part of MCP that clients need.

use std::collections::VecDeque;
use std::io::{self, BufRead, StdinLock, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::{Answer, ServerArgs};
use crate::call::Wishes;
use crate::{idle, report};

const PROTOCOL: &str = "2025-06-18";
/// Interval of the notifications of `--answer progress`.
const PROGRESS: Duration = Duration::from_millis(5);

/// Outcome of a request.
enum Next {
    Say(Value),
    SayAndExit(Value),
    SayLine(&'static str),
    Nothing,
    Exit,
}

struct Server<'a> {
    args: &'a ServerArgs,
    /// Number of received `tools/call`.
    calls: u64,
    stdin: StdinLock<'static>,
    /// Messages that arrived while a response was awaited.
    unread: VecDeque<Vec<u8>>,
}

/// Answers until stdin ends or a switch ends it.
pub(crate) fn serve(args: &ServerArgs) -> ExitCode {
    let (stdin, unread) = (io::stdin().lock(), VecDeque::new());
    let mut server = Server { args, calls: 0, stdin, unread };
    loop {
        let next = server.unread.pop_front().or_else(|| server.read());
        let Some(line) = next else { return at_eof(args) };
        let exit = match server.on_line(&line) {
            Next::Say(answer) => say(&answer.to_string()).is_err(),
            Next::SayLine(text) => say(text).is_err(),
            Next::SayAndExit(answer) => {
                let _ = say(&answer.to_string());
                true
            }
            Next::Nothing => false,
            Next::Exit => true,
        };
        if exit {
            return ExitCode::from(args.exit_code);
        }
    }
}

fn at_eof(args: &ServerArgs) -> ExitCode {
    if args.spin_on_eof {
        loop {
            std::hint::spin_loop();
        }
    }
    if args.ignore_eof {
        idle::forever();
    }
    ExitCode::from(args.exit_code)
}

pub(crate) fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

impl Server<'_> {
    /// The next line, if there is one.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        if !matches!(self.stdin.read_until(b'\n', &mut line), Ok(1..)) {
            return None;
        }
        if let Some(path) = &self.args.transcript {
            // A failed write shows as a missing line of the transcript.
            let _ = report::append(path, String::from_utf8_lossy(&line).trim_end());
        }
        Some(line)
    }

    /// Sends a request to the client, and waits for the response.
    fn ask(&mut self, method: &str) -> Option<Value> {
        let id = format!("ask {}", self.calls);
        say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}).to_string())
            .ok()?;
        loop {
            let line = self.read()?;
            let message: Option<Value> = serde_json::from_slice(&line).ok();
            match message.filter(|message| message["id"] == id.as_str()) {
                Some(answer) => return Some(answer),
                None => self.unread.push_back(line),
            }
        }
    }

    fn on_line(&mut self, line: &[u8]) -> Next {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            let error = json!({"code": -32700, "message": "not JSON"});
            return Next::Say(json!({"jsonrpc": "2.0", "id": null, "error": error}));
        };
        let Some(id) = message.get("id") else { return Next::Nothing };
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        match message.get("method").and_then(Value::as_str) {
            Some("initialize") => self.greet(id, line),
            Some("ping") => Next::Say(result(id, &json!({}))),
            Some("tools/list") if self.args.never_list => Next::Nothing,
            Some("tools/list") => Next::Say(result(id, &tools())),
            Some("tools/call") => self.call(id, &params),
            Some(_) => {
                let error = json!({"code": -32601, "message": "unknown method"});
                Next::Say(json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
            None => Next::Nothing,
        }
    }

    fn greet(&self, id: &Value, line: &[u8]) -> Next {
        let line = String::from_utf8_lossy(line);
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| line.contains(text));
        if has(&self.args.exit_on_hello) {
            return Next::Exit;
        }
        if has(&self.args.refuse_hello) {
            let error = json!({"code": -32602, "message": "not with these capabilities"});
            return Next::Say(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        self.initialize(id)
    }

    fn initialize(&self, id: &Value) -> Next {
        write_noise(self.args.stderr_bytes);
        if let Some(path) = &self.args.init_log {
            // A failed write shows as a missing handshake in the log.
            let _ = report::append_pid(path);
        }
        let version = match self.args.answer {
            Answer::Never => return Next::Nothing,
            Answer::Garbage => return Next::SayLine("Starting server, please wait..."),
            Answer::Progress => return progress_for_ever(),
            Answer::Wrong => "1789-07-14",
            Answer::Slow => {
                sleep(Duration::from_millis(self.args.slow_ms));
                PROTOCOL
            }
            Answer::Ok => PROTOCOL,
        };
        let answer = result(
            id,
            &json!({
                "protocolVersion": version,
                "capabilities": {"tools": {"listChanged": self.args.list_changed}},
                "serverInfo": {"name": "ostler-stub", "version": env!("CARGO_PKG_VERSION")},
            }),
        );
        if self.args.list_changed {
            let _ = say(&answer.to_string());
            return Next::Say(notification("notifications/tools/list_changed"));
        }
        if self.args.exit_after_init { Next::SayAndExit(answer) } else { Next::Say(answer) }
    }

    fn call(&mut self, id: &Value, params: &Value) -> Next {
        self.calls += 1;
        if self.args.exit_on_call == Some(self.calls) {
            return Next::Exit;
        }
        let wishes = Wishes::of(params);
        if !wishes.before(&params["_meta"]["progressToken"]) {
            return Next::Nothing;
        }
        if wishes.exit {
            return Next::Exit;
        }
        if let Some(message) = &wishes.error {
            let error = json!({"code": -32602, "message": message});
            return Next::Say(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
        if let Some(wished) = &wishes.result {
            return Next::Say(result(id, wished));
        }
        let mut params = params.clone();
        if let Some(method) = &wishes.ask {
            let Some(answer) = self.ask(method) else { return Next::Exit };
            params["asked"] = answer;
        }
        let text = json!({"type": "text", "text": params.to_string()});
        let answer = result(id, &json!({"content": [text], "structuredContent": params}));
        if say(&answer.to_string()).is_err() {
            return Next::Exit;
        }
        wishes.after();
        Next::Nothing
    }
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn progress_for_ever() -> Next {
    let params = json!({"progressToken": 1, "progress": 1});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    while say(&progress.to_string()).is_ok() {
        sleep(PROGRESS);
    }
    Next::Exit
}

fn tools() -> Value {
    json!({"tools": [{
        "name": "echo",
        "description": "returns its parameters",
        "inputSchema": {"type": "object"},
    }]})
}

/// Blocks while stderr is not drained, as any server would.
pub(crate) fn write_noise(bytes: u64) {
    let mut left = bytes;
    let chunk = [b'e'; 4096];
    let mut stderr = io::stderr().lock();
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(chunk.len()).min(chunk.len());
        if stderr.write_all(&chunk[..now]).is_err() {
            return;
        }
        left -= now as u64;
    }
}
