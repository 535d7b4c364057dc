//! Clients that end in every way, and clients that do not read.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use ostler_testkit::{Stage, is_alive, rows, threads_of, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{Client, PATIENCE, TestGateway};

const NONBLOCKING: u32 = 0o4000;

rows! {
    fn l38_a_killed_client_ends_its_session_at_once(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut client = test_gateway.client(&["a"]);
        client.echo();
        let server = test_gateway.starts("a")[0];
        client.0.signal(Signal::KILL);
        client.0.wait_exit(PATIENCE);
        wait_until("its server is gone", PATIENCE, || !is_alive(server));
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    /// A shell between the client and the killed launcher lives on, and the client keeps its pipes open.
    fn a_killed_launcher_ends_its_session_at_once(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let mut launcher = test_gateway.command("sh");
        launcher.args(["-c", r#"sh -c '"$@"; true' sh "$@"; true"#, "sh"]);
        launcher.args([&test_gateway.program(), "connect", "a", "--config"]).arg(test_gateway.config());
        let mut client = Client::start(&mut launcher);
        client.echo();
        let server = test_gateway.starts("a")[0];
        client.0.signal(Signal::KILL);
        client.0.wait_exit(PATIENCE);
        wait_until("its server is gone", PATIENCE, || !is_alive(server));
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    fn a_client_that_does_not_read_delays_no_other_client(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({ "share": "all" }));
        let mut deaf = test_gateway.client(&["a"]);
        let mut other = test_gateway.client(&["a"]);
        let long = "x".repeat(32 << 10);
        (0..16).for_each(|id| deaf.begin(1000 + id, "echo", &json!({ "message": long })));
        (0..20).for_each(|_| other.echo());
        other.end();
        drop(deaf);
        test_gateway.down();
    }

    fn responses_arrive_after_the_client_closed_stdin(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("a", test_gateway.example(&json!({})))]);
        let mut client = test_gateway.client(&["a"]);
        client.begin(77, "wait", &json!({ "ms": 300 }));
        client.0.close_stdin();
        assert_eq!(client.0.message(PATIENCE)["id"], 77);
        assert!(client.0.wait_exit(PATIENCE).success());
        test_gateway.down();
    }

    fn a_missing_response_does_not_keep_a_client_that_closed_stdin(stage) {
        let test_gateway = TestGateway::new(stage);
        test_gateway.configure(&[("a", test_gateway.example(&json!({})))]);
        let mut client = test_gateway.client(&["a"]);
        client.begin(77, "wait", &json!({ "ms": 600_000 }));
        client.0.close_stdin();
        assert!(client.0.wait_exit(PATIENCE).success());
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    fn a_socket_is_used_as_it_is(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = test_gateway.connect_command(&["a"]);
        let stdin: OwnedFd = theirs.try_clone().unwrap().into();
        let mut child = command.stdin(stdin).stdout(OwnedFd::from(theirs)).spawn().unwrap();
        drop(command);
        let answer = talk(&ours);
        assert!(answer["result"].is_object(), "{answer}");
        assert_eq!(flags(child.id(), 0) & NONBLOCKING, 0);
        assert_eq!(threads_of(child.id()), 1, "it copies although it need not");
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        wait_until("it ends", PATIENCE, || child.try_wait().unwrap().map(|status| assert!(status.success())));
        test_gateway.expect_no_server();
        test_gateway.down();
    }

    fn a_file_is_copied(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        let (input, output) = (test_gateway.sandbox.file("input"), test_gateway.sandbox.file("output"));
        std::fs::write(&input, requests()).unwrap();
        let mut command = test_gateway.connect_command(&["a"]);
        command.stdin(File::open(&input).unwrap()).stdout(File::create(&output).unwrap());
        assert!(command.status().unwrap().success());
        let said = std::fs::read_to_string(output).unwrap();
        assert!(said.lines().any(|line| line.contains("\"id\":2")), "{said}");
        test_gateway.down();
    }

    fn a_killed_client_whose_input_is_copied_ends_its_session(stage) {
        let test_gateway = TestGateway::with(stage, &["a"], &json!({}));
        // `/dev/zero` never ends, like a terminal.
        let mut input = test_gateway.command("sh");
        input.args(["-c", "exec \"$@\" <>\"$0\"", "/dev/zero", &test_gateway.program(), "connect", "a"]);
        input.arg("--config").arg(test_gateway.config());
        let file = test_gateway.sandbox.file("output");
        let mut child = input.stdout(File::create(file).unwrap()).spawn().unwrap();
        wait_until("it is connected", PATIENCE, || {
            let sessions = test_gateway.try_ostler(&["sessions", "--json"]);
            String::from_utf8_lossy(&sessions.stdout).contains("\"pid\"")
        });
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("its session is over", PATIENCE, || {
            test_gateway.ostler_json(&["sessions", "--json"]).as_array().unwrap().is_empty()
        });
        test_gateway.down();
    }
}

#[test]
fn l37_a_stopped_client_delays_no_other_client() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({ "share": "all" }));
    let mut stopped = test_gateway.client(&["a"]);
    let mut other = test_gateway.client(&["a"]);
    stopped.echo();
    stopped.0.signal(Signal::STOP);
    let long = "x".repeat(32 << 10);
    (0..8).for_each(|id| stopped.begin(1000 + id, "echo", &json!({ "message": long })));
    (0..20).for_each(|_| other.echo());
    // The stopped client's input ends, and its session with it.
    stopped.0.close_stdin();
    stopped.0.close_stdout();
    wait_until("its session is over", PATIENCE, || {
        test_gateway.ostler_json(&["sessions", "--json"]).as_array().unwrap().len() == 1
    });
    other.echo();
    stopped.0.signal(Signal::CONT);
    other.end();
    drop(stopped);
    test_gateway.down();
}

#[test]
fn a_pipe_keeps_its_flags() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut client = test_gateway.client(&["a"]);
    client.echo();
    assert_eq!(flags(client.0.pid(), 0) & NONBLOCKING, 0);
    assert_eq!(flags(client.0.pid(), 1) & NONBLOCKING, 0);
    assert_eq!(threads_of(client.0.pid()), 1, "it copies although it need not");
    client.end();
    test_gateway.down();
}

#[test]
fn a_gateway_that_hangs_keeps_no_client_that_ends() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut client = test_gateway.client(&["a"]);
    client.echo();
    let gateway = test_gateway.gateways()[0];
    test_gateway.signal(gateway, Signal::STOP);
    client.0.close_stdin();
    assert!(client.0.wait_exit(PATIENCE).success());
    test_gateway.signal(gateway, Signal::CONT);
    test_gateway.down();
}

fn flags(pid: u32, fd: u32) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap()
}

fn requests() -> String {
    let client = json!({ "name": "raw", "version": "0" });
    let params =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let params = json!({ "name": "echo", "arguments": {} });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    format!("{hello}\n{call}\n")
}

/// The response to the second of two requests.
fn talk(mut stream: &UnixStream) -> Value {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(requests().as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines();
    let messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    messages.into_iter().find(|message| message["id"] == 2).unwrap()
}
