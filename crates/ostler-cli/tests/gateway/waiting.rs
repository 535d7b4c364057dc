//! Memory of the gateway for requests that wait for servers.

use std::net::TcpStream;

use ostler_testkit::web::{Reply, Web, request};
use ostler_testkit::{Launched, Stage, rss_of, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway, serve};

/// Number of calls, and the size of each.
const CALLS: u64 = 12;
const LARGE: usize = (16 << 20) - 1000;
/// Bound on their memory, in KiB: far less than the sum of their sizes.
const COST: u64 = 128 << 10;
/// Bound on the memory of unread responses, in KiB: the 128 MiB of one token, those on their way through the
/// gateway, and the allocator's overhead. The sum of all responses is larger.
const UNREAD_COST: u64 = 288 << 10;

/// A gateway with one server, and its memory before the first request.
struct Scene {
    test_gateway: TestGateway,
    gateway: Launched,
    memory: u64,
    web: Web,
}

impl Scene {
    fn new(switches: &[&str], path: &str) -> Self {
        Self::with(switches, path, &json!({}))
    }

    /// All sessions use one instance.
    fn shared() -> Self {
        Self::with(&[], "/mcp/a", &json!({ "share": "all" }))
    }

    fn with(switches: &[&str], path: &str, more: &Value) -> Self {
        let test_gateway = TestGateway::new(Stage::leaf());
        test_gateway.configure(&[("a", test_gateway.stub("a", switches, more))]);
        let (gateway, address, token) = serve(&test_gateway);
        let memory = rss_of(gateway.pid());
        let web = Web::new(address, path, &token).enter();
        Self { test_gateway, gateway, memory, web }
    }

    /// Sends a large call until the server has it. The gateway refuses it while the server has not read enough of the
    /// calls before it.
    fn begin_when_there_is_room(&self, id: u64) -> TcpStream {
        let mut begun = None;
        wait_until("the server has the call", PATIENCE, || {
            let stream = begun.get_or_insert_with(|| self.web.begin("POST", &call(id, "x", LARGE)));
            stream.set_nonblocking(true).unwrap();
            if stream.peek(&mut [0]).is_ok() {
                begun = None;
            }
            self.test_gateway.calls() == id
        });
        begun.unwrap()
    }

    fn expect_cost(&self, most: u64) {
        let cost = rss_of(self.gateway.pid()).saturating_sub(self.memory);
        assert!(cost <= most, "{cost} KiB");
    }

    fn end(mut self) {
        self.test_gateway.down_with(&mut self.gateway);
    }
}

/// A call of this many bytes that is never answered.
fn call(id: u64, tool: &str, bytes: usize) -> String {
    let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call""#);
    let text = "x".repeat(bytes);
    let arguments = format!(r#"{{"never":true,"text":"{text}"}}"#);
    format!(r#"{head},"params":{{"name":"{tool}","arguments":{arguments}}}}}"#)
}

#[test]
fn a_call_that_its_server_has_keeps_nothing_of_its_bytes() {
    let scene = Scene::new(&[], "/mcp/a");
    let waiting: Vec<TcpStream> =
        (1..=CALLS).map(|id| scene.begin_when_there_is_room(id)).collect();
    scene.expect_cost(COST);
    drop(waiting);
    scene.end();
}

#[test]
fn calls_on_http_that_wait_for_a_server_to_start_have_a_limit() {
    let scene = Scene::new(&["--answer", "never"], "/mcp");
    let mut waiting = Vec::new();
    for id in 1..=CALLS {
        let stream = scene.web.begin("POST", &call(id, "a__x", LARGE));
        // A refusal comes at once; a call that waits shows no sign.
        stream.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        match stream.peek(&mut [0]) {
            Ok(_) => {
                let mut reply = Reply::read(stream).unwrap();
                assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
                let text = reply.message()["error"]["message"].to_string();
                assert!(text.contains("bytes of waiting requests"), "{text}");
            }
            Err(_) => waiting.push(stream),
        }
    }
    assert!((1..=4).contains(&waiting.len()), "{} wait", waiting.len());
    scene.expect_cost(COST);
    let small = scene.web.send("POST", &request(&json!(0), "ping", &json!({})));
    assert_eq!(small.status, 200, "small requests find room");
    drop(waiting);
    scene.end();
}

#[test]
fn calls_on_stdio_that_wait_for_a_server_to_start_have_a_limit() {
    let scene = Scene::new(&["--answer", "never"], "/mcp");
    let mut client = scene.test_gateway.client(&[]);
    let mut refused = 0;
    for id in 1..=CALLS {
        client.0.write(format!("{}\n", call(id, "a__x", LARGE)).as_bytes(), PATIENCE).unwrap();
        refused += refusals_before(&mut client, 1000 + id);
    }
    assert!(refused >= CALLS - 4, "{refused} were refused");
    scene.expect_cost(COST);
    drop(client);
    scene.end();
}

/// Number of refusals before the response to a ping with this id, which always finds room.
fn refusals_before(client: &mut Client, id: u64) -> u64 {
    client.0.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    let mut refused = 0;
    loop {
        let answer: Value = client.0.message(PATIENCE);
        if answer["id"] == json!(id) {
            assert!(answer["result"].is_object(), "{answer}");
            return refused;
        }
        assert_eq!(answer["error"]["data"]["gateway"]["reason"], "busy", "{answer}");
        refused += 1;
    }
}

#[test]
fn calls_that_wait_for_a_server_to_read_them_have_a_limit() {
    let scene = Scene::new(&[], "/mcp/a");
    scene.web.tool("x", &json!({ "deaf": true }));
    let waiting: Vec<TcpStream> =
        (1..=CALLS).map(|id| scene.web.begin("POST", &call(id, "x", LARGE))).collect();
    let small = scene.web.send("POST", &request(&json!(0), "ping", &json!({})));
    assert_eq!(small.status, 200, "small requests find room");
    scene.expect_cost(COST);
    drop(waiting);
    scene.end();
}

#[test]
fn answers_that_clients_do_not_read_have_a_limit() {
    const SESSIONS: usize = 20;
    let scene = Scene::shared();
    let arriving = scene.web.clone().without("Mcp-Session-Id");
    let text = call(1, "x", LARGE).replace(r#""never":true,"#, "");
    let mut refused = 0;
    let unread: Vec<TcpStream> = (0..SESSIONS)
        .map(|_| {
            let stream = arriving.enter().begin("POST", &text);
            let mut head = [0; 1024];
            let length = stream.peek(&mut head).expect("an answer");
            refused += usize::from(String::from_utf8_lossy(&head[..length]).contains("busy"));
            stream
        })
        .collect();
    // The number depends on how soon the gateway gives up on the first of them.
    assert!((1..SESSIONS).contains(&refused), "{refused} of {SESSIONS} were refused");
    scene.expect_cost(UNREAD_COST);
    drop(unread);
    scene.end();
}
