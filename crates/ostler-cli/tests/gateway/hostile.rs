//! Hostile clients on HTTP, and their cost in memory and processor time.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ostler_testkit::web::{Reply, Web, request};
use ostler_testkit::{Launched, Stage, fds_of, rss_of, wait_until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::json;

use crate::test_gateway::{PATIENCE, TestGateway, serve};

/// Connections that an attacker opens, and the most that a gateway keeps.
const CONNECTIONS: usize = 10_000;
const KEPT: usize = 4096;
/// Bound on the memory of all of them together, in KiB.
const CONNECTIONS_COST: u64 = 128 << 10;
/// Bound on the memory of bodies that are being read, in KiB, including read buffers.
const BODIES_COST: u64 = 160 << 10;

/// A gateway, a client that it must serve at all times, and its resources with only that client.
struct Scene {
    test_gateway: TestGateway,
    gateway: Launched,
    friend: Web,
    memory: u64,
    descriptors: usize,
}

impl Scene {
    fn new() -> Self {
        let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
        let (gateway, address, token) = serve(&test_gateway);
        let friend = Web::new(address, "/mcp/a", &token).enter();
        friend.tool("echo", &json!({ "message": "x" }));
        let (memory, descriptors) = (rss_of(gateway.pid()), fds_of(gateway.pid()).len());
        Self { test_gateway, gateway, friend, memory, descriptors }
    }

    fn serves_its_friend(&self) {
        assert_eq!(self.friend.send("POST", &ping()).status, 200);
    }

    fn expect_cost(&self, most: u64) {
        let cost = rss_of(self.gateway.pid()).saturating_sub(self.memory);
        assert!(cost <= most, "{cost} KiB");
    }

    /// Expects the same resources as at the start.
    fn end(mut self) {
        wait_until("all connections are closed", PATIENCE, || {
            fds_of(self.gateway.pid()).len() <= self.descriptors
        });
        self.serves_its_friend();
        self.test_gateway.down_with(&mut self.gateway);
    }
}

fn ping() -> String {
    request(&json!(1), "ping", &json!({}))
}

/// Sets the descriptor limit of this process and its children.
fn allow_descriptors(count: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum.map(|most| most.max(count));
    let limit = Rlimit { current: Some(count), maximum };
    let set = setrlimit(Resource::Nofile, limit);
    assert!(
        set.is_ok(),
        "without root the test needs a hard limit of {count} descriptors: {set:?}"
    );
}

#[test]
fn ten_thousand_connections_cost_little_and_delay_no_client() {
    allow_descriptors(CONNECTIONS as u64 + 2000);
    let scene = Scene::new();
    let head = format!("GET /mcp HTTP/1.1\r\nX: {}", "x".repeat(15 << 10));
    let mut idle = Vec::new();
    for number in 0..CONNECTIONS {
        let mut stream = scene.friend.connect();
        // Nothing, or a head that never ends.
        if number % 2 == 0 {
            stream.write_all(head.as_bytes()).unwrap();
        }
        idle.push(stream);
        if number % 1000 == 0 {
            scene.serves_its_friend();
        }
    }
    scene.serves_its_friend();
    let first = &mut idle[0];
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "the oldest has given way");
    wait_until("no more than those that may stay have stayed", PATIENCE, || {
        fds_of(scene.gateway.pid()).len() <= scene.descriptors + KEPT
    });
    scene.expect_cost(CONNECTIONS_COST);
    drop(idle);
    scene.end();
}

#[test]
fn bodies_that_never_end_take_bounded_memory_and_delay_no_client() {
    let scene = Scene::new();
    let body = vec![b' '; 16 << 20];
    let head = scene.friend.text("POST", "").replace("Length: 0", &format!("Length: {}", 16 << 20));
    let slow: Vec<TcpStream> = (0..24)
        .map(|_| {
            let mut stream = scene.friend.connect();
            stream.write_all(head.as_bytes()).unwrap();
            offer(&mut stream, &body[1..]);
            scene.serves_its_friend();
            stream
        })
        .collect();
    scene.expect_cost(BODIES_COST);
    drop(slow);
    scene.end();
}

/// Sends as much as the gateway accepts; it may refuse the rest.
fn offer(stream: &mut TcpStream, mut bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn without_free_descriptors_the_gateway_serves_its_open_connections() {
    let scene = Scene::new();
    let pid = scene.gateway.pid();
    let mut kept = scene.friend.begin("POST", &ping());
    kept = finished(kept);
    let taken: Vec<u32> = fds_of(pid).into_iter().map(|(number, _)| number).collect();
    let free = (0..=u32::MAX).find(|number| !taken.contains(number)).unwrap();
    let before = limit(pid, Rlimit { current: Some(free.into()), maximum: None });
    let waiting: Vec<TcpStream> = (0..20).map(|_| scene.friend.begin("POST", &ping())).collect();
    for _ in 0..20 {
        kept.write_all(scene.friend.text("POST", &ping()).as_bytes()).unwrap();
        kept = finished(kept);
    }
    // An accept loop without a pause would use the CPU all the time.
    wait_until("it rests", PATIENCE, || rests(pid));
    limit(pid, before);
    for stream in waiting {
        assert_eq!(Reply::read(stream).unwrap().status, 200);
    }
    drop(kept);
    scene.end();
}

/// The connection of a request, once that is answered.
fn finished(stream: TcpStream) -> TcpStream {
    let mut reply = Reply::read(stream).unwrap();
    assert_eq!(reply.message()["id"], 1);
    reply.into_stream()
}

/// Whether all threads of a process are sleeping.
fn rests(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut states = threads.flat_map(|thread| fs::read_to_string(thread.path().join("stat")));
    states.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')))
}

/// Sets the descriptor limit of a process, and returns the previous one.
fn limit(pid: u32, limit: Rlimit) -> Rlimit {
    let pid = Pid::from_raw(pid.try_into().unwrap());
    let maximum = limit.maximum.or(getrlimit(Resource::Nofile).maximum);
    prlimit(pid, Resource::Nofile, Rlimit { maximum, ..limit }).unwrap()
}
