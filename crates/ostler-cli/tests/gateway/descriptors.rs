//! Gateways with few file descriptors, and clients that try to use all of them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ostler_testkit::web::Web;
use ostler_testkit::{Authority, Launched, Stage, fds_of, wait_until};
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway, address_in, token_of};
use crate::tls::{authority, greet, words};

/// Descriptor limit of the gateway, and number of connections that hostile clients open.
const DESCRIPTORS: usize = 256;
const CONNECTIONS: usize = 320;
/// Bound on an operator's command; far below the time limits that would end a hostile connection.
const PROMPT: Duration = Duration::from_secs(4);
/// The beginning of a TLS handshake that never ends.
const HANDSHAKE: [u8; 9] = [0x16, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb];

/// A gateway with few file descriptors.
struct Scene {
    test_gateway: TestGateway,
    gateway: Launched,
    address: SocketAddr,
}

impl Scene {
    fn new(words: &[&str]) -> Self {
        let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
        let mut command = test_gateway.command("sh");
        let script = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, &test_gateway.program(), "serve"]).args(words);
        command.arg("--config").arg(test_gateway.config());
        let gateway = Launched::start(&mut command);
        wait_until("the gateway serves", PATIENCE, || gateway.stderr().contains("ostler.json at"));
        let address = address_in(&gateway.stderr());
        Self { test_gateway, gateway, address }
    }

    fn plain() -> Self {
        Self::new(&["--listen", "127.0.0.1:0"])
    }

    fn secured(authority: &Authority) -> Self {
        let words = words(authority, "gateway.pem", "gateway.key");
        Self::new(&words.each_ref().map(String::as_str))
    }

    fn socket(&self) -> PathBuf {
        let said = self.gateway.stderr();
        let line = said.lines().find_map(|line| line.split_once("ostler.json at "));
        PathBuf::from(line.unwrap().1)
    }

    /// Connections that each send this and nothing else.
    fn connections(&self, sent: impl Fn(usize) -> Vec<u8>) -> Vec<TcpStream> {
        let connect = |number| {
            let mut stream = TcpStream::connect(self.address).unwrap();
            // The gateway may have closed it already.
            let _ = stream.write_all(&sent(number));
            stream
        };
        (0..CONNECTIONS).map(connect).collect()
    }

    /// A connection to the unix socket, after the gateway's greeting. None if that does not come in time.
    fn visit(&self) -> Option<BufReader<UnixStream>> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PROMPT)).unwrap();
        let mut stream = BufReader::new(stream);
        let read = stream.read_line(&mut String::new());
        read.is_ok_and(|length| length > 0).then_some(stream)
    }

    /// Operators are served at once.
    fn serves_operators(&self) {
        for _ in 0..3 {
            let begin = Instant::now();
            self.test_gateway.ostler_json(&["sessions", "--json"]);
            assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
        }
    }

    fn end(mut self) {
        self.test_gateway.down_with(&mut self.gateway);
    }
}

#[test]
fn handshakes_that_do_not_end_leave_descriptors_to_operators_and_clients() {
    let authority = authority();
    let scene = Scene::secured(&authority);
    for sent in [&HANDSHAKE[..], b""] {
        let silent = scene.connections(|_| sent.to_vec());
        scene.serves_operators();
        let begin = Instant::now();
        let answer = greet(&scene.test_gateway, &authority, scene.address);
        assert_eq!(answer.as_deref(), Some("HTTP/1.1 200 OK"));
        assert!(begin.elapsed() < PROMPT, "it took {:?}", begin.elapsed());
        drop(silent);
    }
    scene.end();
}

#[test]
fn plain_connections_of_clients_without_a_token_leave_descriptors_to_operators_and_clients() {
    let scene = Scene::plain();
    let friend = Web::new(scene.address, "/mcp/a", &token_of(&scene.test_gateway));
    let refused = Web::new(scene.address, "/mcp/a", "wrong").text("GET", "");
    // Nothing, a head that does not end, and requests that are refused on connections that stay.
    let sent = [Vec::new(), b"GET /mcp HTTP/1.1\r\nX: ".to_vec(), refused.into_bytes()];
    let silent = scene.connections(|number| sent[number % sent.len()].clone());
    scene.serves_operators();
    friend.enter().tool("echo", &json!({ "message": "x" }));
    drop(silent);
    scene.end();
}

#[test]
fn silent_connections_to_the_unix_socket_leave_descriptors_to_operators_and_clients() {
    let scene = Scene::plain();
    let silent: Vec<_> =
        (0..CONNECTIONS).map(|_| UnixStream::connect(scene.socket()).unwrap()).collect();
    scene.serves_operators();
    scene.test_gateway.client(&["a"]).echo();
    drop(silent);
    scene.end();
}

#[test]
fn clients_that_use_up_all_descriptors_are_refused_and_operators_are_not() {
    let scene = Scene::plain();
    let words = |bytes: &str| json!({ "Unix": bytes.as_bytes() });
    let hello = json!({ "client": {
        "server": "a", "agent": null, "cwd": words("/"), "variables": []
    } });
    let mut sessions = Vec::new();
    let refusal = loop {
        let mut stream = scene.visit().unwrap();
        stream.get_mut().write_all(format!("{hello}\n").as_bytes()).unwrap();
        let mut admission = String::new();
        stream.read_line(&mut admission).unwrap();
        sessions.push(stream);
        match serde_json::from_str::<Value>(&admission).unwrap() {
            Value::String(_) => assert!(sessions.len() < DESCRIPTORS, "descriptors have no end"),
            refused => break refused["refused"].to_string(),
        }
    };
    assert!(refusal.contains("no file descriptors left"), "{refusal}");
    scene.serves_operators();
    sessions.truncate(sessions.len() / 2);
    wait_until("there is room again", PATIENCE, || {
        fds_of(scene.gateway.pid()).len() < DESCRIPTORS / 2 + 32
    });
    scene.test_gateway.client(&["a"]).echo();
    drop(sessions);
    scene.end();
}
