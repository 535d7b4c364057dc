//! Behaviours of the stub that call arguments request, and its reports.

use std::time::{Duration, Instant};

use ostler_testkit::{Launched, Sandbox, pids_in};
use rustix::process::Signal;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);
/// Time to watch for messages that must not come.
const SHORT: Duration = Duration::from_millis(100);

fn start(sandbox: &Sandbox, switches: &[&str]) -> Launched {
    let stub = Launched::start(sandbox.stub().args(switches));
    sandbox.wait_ready(LIMIT);
    stub
}

fn call(stub: &mut Launched, arguments: &Value) -> Value {
    stub.call("tools/call", &json!({"name": "echo", "arguments": arguments}))
}

#[test]
fn it_complains_makes_noise_and_takes_its_time_before_it_answers() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &[]);
    let begin = Instant::now();
    let arguments = json!({"stderrBytes": 70_000, "complain": "no luck", "delayMs": 100});
    assert_eq!(call(&mut stub, &arguments)["result"]["structuredContent"]["arguments"], arguments);
    assert!(begin.elapsed() >= Duration::from_millis(100));
    assert_eq!(stub.stderr().len(), 70_000 + "no luck\n".len());
    let params = json!({"arguments": {"noise": 2}});
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
    stub.send(&request);
    for _ in 0..2 {
        let line = stub.line(LIMIT).ok().flatten().unwrap_or_default();
        assert!(line.starts_with(b"[debug]"));
    }
    assert_eq!(stub.message(LIMIT)["id"], 9);
}

#[test]
fn it_answers_never_or_when_it_may_or_exits() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--exit-code", "7"]);
    let params = json!({"arguments": {"never": true}});
    stub.send(&json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}));
    assert!(stub.call("ping", &json!({})).get("result").is_some());
    let file = sandbox.file("go");
    let params = json!({"arguments": {"until": file}});
    stub.send(&json!({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": params}));
    assert!(stub.line(SHORT).is_err());
    assert!(std::fs::write(file, "").is_ok());
    assert_eq!(stub.message(LIMIT)["id"], 10);
    let params = json!({"arguments": {"exit": true}});
    stub.send(&json!({"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": params}));
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(7));
}

#[test]
fn it_keeps_writing_after_the_response_and_stops_reading() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &[]);
    call(&mut stub, &json!({"notifications": 3, "everyMs": 1, "deaf": true}));
    for _ in 0..3 {
        assert_eq!(stub.message(LIMIT)["method"], "notifications/message");
    }
    let megabyte = vec![b' '; 1 << 20];
    assert!(stub.write(&megabyte, SHORT).is_err());
}

#[test]
fn it_says_that_its_tools_have_changed_or_that_it_makes_progress() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--list-changed"]);
    stub.initialize();
    assert_eq!(stub.message(LIMIT)["method"], "notifications/tools/list_changed");
    let mut stub = start(&sandbox, &["--answer", "progress"]);
    stub.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    for _ in 0..3 {
        assert_eq!(stub.message(LIMIT)["method"], "notifications/progress");
    }
}

#[test]
fn it_counts_handshakes_and_instances_alive_at_its_start() {
    let sandbox = Sandbox::new();
    let (inits, census) = (sandbox.file("inits"), sandbox.file("census"));
    let command = |sandbox: &Sandbox| {
        let mut command = sandbox.stub();
        command.arg("--init-log").arg(&inits).arg("--census").arg(&census);
        command
    };
    let mut stubs: Vec<Launched> = Vec::new();
    for _ in 0..3 {
        let mut stub = Launched::start(&mut command(&sandbox));
        stub.initialize();
        stubs.push(stub);
    }
    let pids: Vec<u32> = stubs.iter().map(Launched::pid).collect();
    assert_eq!((pids_in(&inits), pids_in(&census)), (pids.clone(), pids));
    for mut stub in stubs.drain(1..) {
        stub.signal(Signal::KILL);
        stub.wait_exit(LIMIT);
    }
    let mut last = Launched::start(&mut command(&sandbox));
    last.initialize();
    assert_eq!(pids_in(&sandbox.file("census.alive")), [1, 2, 3, 2]);
}
