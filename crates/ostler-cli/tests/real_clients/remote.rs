//! Published remote servers: a client gets the same as from a server that it starts itself.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use ostler_testkit::{Launched, Stage, wait_until};
use serde_json::{Value, json};

use crate::published::{NPX, offline};
use crate::scripts::{Script, play};
use crate::test_gateway::{Client, TestGateway};
use crate::{PLAY, Reach, Way, compare, tools};

/// A published server on HTTP, and its address.
struct Far {
    _server: Launched,
    port: u16,
}

impl Far {
    /// Starts one on a port of its own.
    fn start(stage: &Stage, program: &str, words: &[&str]) -> Self {
        let probe = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = probe.local_addr().unwrap().port();
        drop(probe);
        let mut command = stage.command(program);
        command.args(words).env("PORT", port.to_string()).stdin(Stdio::null());
        let server = Launched::start(offline(&mut command));
        wait_until("it listens", PLAY, || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { _server: server, port }
    }

    fn entry(&self, path: &str) -> Value {
        json!({ "url": format!("http://127.0.0.1:{}/{path}", self.port) })
    }
}

/// A client of the whole of `everything` sees the same over HTTP.
fn everything_is_the_same(mode: &str, path: &str) {
    let stage = Stage::leaf();
    NPX.fetch(&stage);
    let script = Script::TypeScript("typescript-v1.mjs");
    let way = |stage, reach| Way { stage, server: &NPX, reach, prefix: String::new() };
    let direct = play(script, &way(&stage, Reach::itself(&NPX)));
    let words: Vec<&str> = NPX.start[1..].iter().copied().chain([mode]).collect();
    let far = Far::start(&stage, NPX.start[0], &words);
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.configure(&[(NPX.name, far.entry(path))]);
    let mut seen = play(script, &way(&test_gateway, Reach::connect(&test_gateway, Some(NPX.name))));
    // Over HTTP it names the session, which has no name over stdio.
    let said = seen["log"]["data"].as_str().unwrap().split("from session").next().unwrap();
    seen["log"]["data"] = json!(said);
    compare(&direct, &seen, mode);
    test_gateway.down();
}

#[test]
fn everything_by_streamable_http() {
    everything_is_the_same("streamableHttp", "mcp");
}

#[test]
fn everything_by_old_sse() {
    everything_is_the_same("sse", "sse");
}

/// A server that is a script of the SDK for Python.
const PYTHON: &str = r#"
import os, sys
from mcp.server.fastmcp import Context, FastMCP
server = FastMCP("python", host="127.0.0.1", port=int(os.environ["PORT"]), json_response=sys.argv[2] == "json")

@server.tool()
async def count(to: int, context: Context) -> int:
    for step in range(to):
        await context.report_progress(step, to)
    return to

server.run(transport=sys.argv[1])
"#;

fn counts(transport: &str, form: &str, path: &str) {
    let test_gateway = TestGateway::new(Stage::leaf());
    let script = test_gateway.sandbox.file("server.py");
    fs::write(&script, PYTHON).unwrap();
    let python = tools().join("mcp-1/bin/python").display().to_string();
    let far = Far::start(&test_gateway, &python, &[script.to_str().unwrap(), transport, form]);
    test_gateway.configure(&[("python", far.entry(path))]);
    let mut client: Client = test_gateway.client(&["python"]);
    for to in [1, 50] {
        let counted = client.tool("count", &json!({ "to": to }));
        assert_eq!(counted["structuredContent"]["result"], to, "{counted}");
    }
    client.end();
    test_gateway.ostler(&["down"]);
    drop(far);
    test_gateway.expect_no_process();
}

#[test]
fn python_by_streamable_http() {
    counts("streamable-http", "stream", "mcp");
}

#[test]
fn python_by_plain_answers() {
    counts("streamable-http", "json", "mcp");
}

#[test]
fn python_by_old_sse() {
    counts("sse", "stream", "sse");
}
