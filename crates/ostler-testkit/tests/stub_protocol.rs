//! The stub's protocol, and how it ends.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use ostler_testkit::{Launched, Sandbox, cpu_ticks_of, wait_until};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);
/// Time to watch for messages that must not come; a wrong stub is caught at least sometimes.
const SHORT: Duration = Duration::from_millis(200);

fn start(sandbox: &Sandbox, switches: &[&str]) -> Launched {
    let stub = Launched::start(sandbox.stub().args(switches));
    sandbox.wait_ready(LIMIT);
    stub
}

#[test]
fn it_answers_like_a_server() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &[]);
    assert_eq!(stub.initialize()["result"]["serverInfo"]["name"], "ostler-stub");
    assert_eq!(stub.call("ping", &json!({}))["result"], json!({}));
    assert_eq!(stub.call("tools/list", &json!({}))["result"]["tools"][0]["name"], "echo");
    let params = json!({"name": "echo", "arguments": {"a": 1}});
    assert_eq!(stub.call("tools/call", &params)["result"]["structuredContent"], params);
    assert_eq!(stub.call("no/such", &json!({}))["error"]["code"], -32601);
}

#[test]
fn it_survives_bytes_that_are_no_text() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &[]);
    assert!(stub.write(b"\xff\xfe{\n", LIMIT).is_ok());
    assert_eq!(stub.message(LIMIT)["error"]["code"], -32700);
    stub.initialize();
}

#[test]
fn it_does_not_panic_when_stdout_is_closed() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--exit-code", "9"]);
    stub.close_stdout();
    stub.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(9));
    assert_eq!(stub.stderr(), "");
}

#[test]
fn it_answers_initialize_never_slowly_or_wrongly() {
    let ping = json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"});
    let initialize = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize"});

    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--answer", "never"]);
    stub.send(&initialize);
    stub.send(&ping);
    assert_eq!(stub.message(LIMIT)["id"], "ping", "nothing else was said before");

    let mut stub = start(&sandbox, &["--answer", "slow", "--slow-ms", "150"]);
    let begin = Instant::now();
    stub.request(&initialize);
    assert!(begin.elapsed() >= Duration::from_millis(150));

    let mut stub = start(&sandbox, &["--answer", "wrong"]);
    assert_eq!(stub.request(&initialize)["result"]["protocolVersion"], "1789-07-14");

    let mut stub = start(&sandbox, &["--answer", "garbage"]);
    stub.send(&initialize);
    let line = stub.line(LIMIT).ok().flatten().unwrap_or_default();
    assert!(line.starts_with(b"Starting"));
}

#[test]
fn it_exits_with_the_code_at_the_moment_that_was_asked_for() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--exit-code", "7"]);
    stub.close_stdin();
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(7), "at the end of stdin");

    let mut stub = start(&sandbox, &["--exit-after-init", "--exit-code", "8"]);
    stub.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert_eq!(stub.message(LIMIT)["id"], 1);
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(8), "after initialize");

    let mut stub = start(&sandbox, &["--exit-on-call", "2", "--exit-code", "9"]);
    stub.call("tools/call", &json!({"name": "echo"}));
    stub.send(&json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call"}));
    assert!(matches!(stub.line(LIMIT), Ok(None)), "the second call is not answered");
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(9), "on the second call");

    let mut stub = start(&sandbox, &["--exit-at-once", "--exit-code", "10"]);
    assert_eq!(stub.wait_exit(LIMIT).code(), Some(10), "at once");
}

#[test]
fn it_dies_by_the_signal_that_was_asked_for() {
    let sandbox = Sandbox::new();
    for (name, number) in [("KILL", 9), ("SIGTERM", 15), ("10", 10)] {
        let mut stub = start(&sandbox, &["--kill-self", name]);
        assert_eq!(stub.wait_exit(LIMIT).signal(), Some(number));
    }
}

#[test]
fn it_ends_itself_when_its_lifetime_is_over() {
    let sandbox = Sandbox::new();
    let mut stub =
        start(&sandbox, &["--ignore-eof", "--hop-ms", "5", "--child", "--lifetime", "1"]);
    assert_eq!(stub.wait_exit(LIMIT).signal(), Some(14));
    sandbox.expect_no_survivors(LIMIT);
}

#[test]
fn it_survives_a_term() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--ignore-term"]);
    stub.signal(rustix::process::Signal::TERM);
    // A signal is handled before the process comes to read the request.
    stub.initialize();
}

#[test]
fn it_dies_of_a_term_by_default() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &[]);
    stub.signal(rustix::process::Signal::TERM);
    assert_eq!(stub.wait_exit(LIMIT).signal(), Some(15));
}

#[test]
fn it_lives_on_when_stdin_ends() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--ignore-eof"]);
    stub.close_stdin();
    wait_until("it sleeps instead of reading", LIMIT, || {
        std::fs::read_to_string(format!("/proc/{}/wchan", stub.pid()))
            .is_ok_and(|place| place.contains("nanosleep"))
    });
    assert_eq!(stub.try_exit(), None);
}

#[test]
fn it_spins_when_stdin_ends() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--spin-on-eof"]);
    let before = cpu_ticks_of(stub.pid());
    stub.close_stdin();
    wait_until("it burns the processor", LIMIT, || cpu_ticks_of(stub.pid()) >= before + 10);
}

#[test]
fn it_writes_to_stderr_before_it_answers() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--stderr-bytes", "262145"]);
    assert_eq!(stub.stderr().len(), 0);
    stub.initialize();
    assert_eq!(stub.stderr().len(), 262_145);
}

#[test]
fn it_writes_a_line_without_an_end() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--endless-line"]);
    let error = stub.line(SHORT).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::TimedOut));
    stub.signal(rustix::process::Signal::KILL);
    let line = stub.line(LIMIT).ok().flatten().unwrap_or_default();
    assert!(line.len() > 100_000 && line.iter().all(|byte| *byte == b'x'), "{}", line.len());
}

#[test]
fn it_never_reads() {
    let sandbox = Sandbox::new();
    let mut stub = start(&sandbox, &["--never-read"]);
    let error = stub.write(&vec![b'\n'; 1 << 20], SHORT).err().map(|error| error.kind());
    assert_eq!(error, Some(ErrorKind::TimedOut), "the pipe stays full");
}
