//! `ostler call`: results, errors and exit codes as the user sees them, and cancellation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output};

use ostler_testkit::{Launched, Stage, Terminal, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// Exit code, stdout and stderr.
fn seen(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn call(test_gateway: &TestGateway, words: &[&str]) -> (Option<i32>, String, String) {
    seen(&test_gateway.try_ostler(&[&["call"], words].concat()))
}

/// Calls the stub, which answers with this result.
fn result(
    test_gateway: &TestGateway,
    result: &Value,
    more: &[&str],
) -> (Option<i32>, String, String) {
    let arguments = json!({ "result": result }).to_string();
    call(test_gateway, &[&["stub", "echo", &arguments], more].concat())
}

fn ok(stdout: &str) -> (Option<i32>, String, String) {
    (Some(0), stdout.to_owned(), String::new())
}

fn failed(code: i32, stderr: &str) -> (Option<i32>, String, String) {
    (Some(code), String::new(), stderr.to_owned())
}

/// A gateway with a stub and the example server.
fn test_gateway() -> (TestGateway, Launched) {
    let test_gateway = TestGateway::new(Stage::leaf());
    let transcript = test_gateway.sandbox.file("transcript").display().to_string();
    let stub =
        test_gateway.stub("stub", &["--transcript", &transcript], &json!({ "share": "all" }));
    let off = test_gateway.stub("off", &[], &json!({ "enabled": false }));
    let lacking = test_gateway.stub("lacking", &[], &json!({ "env": { "X": "${NOT_SET}" } }));
    let broken = json!({ "command": "/no/such/program" });
    test_gateway.configure(&[
        ("stub", stub),
        ("example", test_gateway.example(&json!({}))),
        ("off", off),
        ("lacking", lacking),
        ("broken", broken),
    ]);
    let gateway = test_gateway.serve(&[]);
    (test_gateway, gateway)
}

#[test]
fn call_shows_results_for_a_terminal_and_as_json() {
    let (test_gateway, mut gateway) = test_gateway();
    // Never listed before: the call lists it, and reads values by the schema.
    assert_eq!(call(&test_gateway, &["example", "echo", "message=5"]), ok("5\n"));
    let sum = "3\n{\n  \"sum\": 3.0\n}\n";
    assert_eq!(call(&test_gateway, &["example", "add", "a=1", "b=2"]), ok(sum));
    assert_eq!(call(&test_gateway, &["example", "add", r#"{"a": 1, "b": 2}"#]), ok(sum));

    let text = json!({ "content": [{ "type": "text", "text": "a\u{1b}[2J\nb\tc" }] });
    assert_eq!(result(&test_gateway, &text, &[]), ok("a\\u{1b}[2J\nb\tc\n"));
    assert_eq!(result(&test_gateway, &json!({ "toolResult": "old" }), &[]), ok("\"old\"\n"));
    let json = "{\n  \"content\": [\n    {\n      \"text\": \"a\\u001b[2J\\nb\\tc\",\n      \
        \"type\": \"text\"\n    }\n  ]\n}\n";
    assert_eq!(result(&test_gateway, &text, &["--json"]), ok(json));

    let error = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true });
    let said = "ostler: echo: the tool reported an error\n".to_owned();
    assert_eq!(result(&test_gateway, &error, &[]), (Some(1), "no\n".into(), said));
    let (code, stdout, stderr) = result(&test_gateway, &error, &["--json"]);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap(), error);
    // All of that on one warm instance.
    assert_eq!(test_gateway.starts("stub").len(), 1);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn call_reports_errors_with_their_exit_codes() {
    let (test_gateway, mut gateway) = test_gateway();
    let all = [
        (&["exmaple", "echo"][..], 3, "there is no server 'exmaple'; did you mean 'example'?"),
        (
            &["x\u{1b}\u{202e}", "echo"],
            3,
            "there is no server 'x\\u{1b}\\u{202e}'; `ostler status`",
        ),
        (&["example", "zz\u{9b}zz"], 3, "there is no tool 'zz\\u{9b}zz'; `ostler tools example`"),
        (&["x", "echo"], 3, "there is no server 'x'; `ostler status` lists them"),
        (&["example", "ecko"], 3, "there is no tool 'ecko'; did you mean 'echo'?"),
        (&["example", "zzzzzz"], 3, "there is no tool 'zzzzzz'; `ostler tools example` lists them"),
        (&["off", "echo"], 1, "off: the configuration disables it"),
        (&["lacking", "echo"], 1, "lacking: unavailable: "),
        (&["broken", "echo"], 1, "broken: "),
        (
            &["example", "echo", "nonsense"],
            2,
            "'nonsense' is not key=value; give key=value pairs, one JSON object, or - to read one from stdin",
        ),
        (&["example", "echo", "{"], 2, "the arguments are not valid JSON: EOF while parsing"),
        (&["stub", "echo", "error=bad\u{1b}"], 1, "bad\\u{1b}"),
    ];
    for (words, code, message) in all {
        let (status, stdout, stderr) = call(&test_gateway, words);
        assert_eq!((status, stdout.as_str()), (Some(code), ""), "{words:?}: {stderr}");
        assert!(stderr.starts_with(&format!("ostler: {message}")), "{words:?}: {stderr}");
        assert!(stderr.ends_with('\n') && !stderr.contains('\u{1b}'), "{words:?}: {stderr:?}");
    }
    let hints = "ostler: echo takes a text: message\n\
        ostler: the tool has no argument 'mesage'; did you mean 'message'?\n\
        ostler: the tool requires the argument 'message'\n";
    assert_eq!(call(&test_gateway, &["example", "echo", "mesage=x"]), failed(1, hints));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn call_reads_arguments_from_stdin_and_starts_the_gateway() {
    let test_gateway = TestGateway::new(Stage::leaf());
    test_gateway.configure(&[("example", test_gateway.example(&json!({})))]);
    let with_input = |input: &str| {
        let mut command = test_gateway.command(test_gateway.program());
        command.args(["call", "example", "echo", "-"]).env("OSTLER_CONFIG", test_gateway.config());
        let mut caller = Launched::start(&mut command);
        caller.write(input.as_bytes(), PATIENCE).unwrap();
        caller.close_stdin();
        let code = caller.wait_exit(PATIENCE).code();
        let line = caller.line(PATIENCE).unwrap().unwrap_or_default();
        (code, String::from_utf8(line).unwrap(), caller.stderr())
    };
    // Line breaks between tokens must not reach the line protocol.
    assert_eq!(with_input("{\n\t\"message\":\r\n\"of stdin\"\n}\n"), ok("of stdin"));
    let refused = "ostler: the arguments are not a JSON object\n";
    assert_eq!(with_input("[]"), failed(2, refused));
    assert_eq!(test_gateway.gateways().len(), 1);
    test_gateway.down();
}

#[test]
fn files_of_a_result_are_saved_and_never_replaced() {
    let (test_gateway, mut gateway) = test_gateway();
    let directory = test_gateway.sandbox.file("saved");
    let save = ["--save", directory.to_str().unwrap()];
    let image = json!({ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" });
    let link = json!({ "type": "resource_link", "uri": "file:///x", "name": "x" });
    let blob = json!({ "uri": "file:///y", "blob": "aGk=" });
    let blob = json!({ "type": "resource", "resource": blob });
    let content = json!({ "content": [image, link, blob] });
    let plain =
        "[image image/png, 5 B]\n[link file:///x, x]\n[blob of unknown type, 2 B, file:///y]\n";
    assert_eq!(result(&test_gateway, &content, &[]), ok(plain));
    for numbers in [[1, 2], [2, 3]] {
        let name = |number: usize, extension: &str| {
            directory.join(format!("echo-{}.{extension}", numbers[number]))
        };
        let (png, bin) = (name(0, "png"), name(1, "bin"));
        let (code, stdout, stderr) = result(&test_gateway, &content, &save);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        assert!(stdout.contains(&format!("saved as {}\n", png.display())), "{stdout}");
        assert_eq!(fs::read(&png).unwrap(), b"hello");
        assert_eq!(fs::metadata(&png).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(&bin).unwrap(), b"hi");
    }
    // Neither a draft nor anything else.
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
    let bad = json!({ "content": [{ "type": "image", "data": "%" }] });
    let refused = "ostler: cannot save a file of the result: it is not valid base64\n";
    assert_eq!(result(&test_gateway, &bad, &save), failed(1, refused));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
    test_gateway.down_with(&mut gateway);
}

/// Whether the stub was told to cancel a call.
fn is_cancelled(test_gateway: &TestGateway) -> bool {
    let transcript = fs::read_to_string(test_gateway.sandbox.file("transcript"));
    transcript.is_ok_and(|text| text.contains("the client has cancelled it"))
}

#[test]
fn an_interrupt_cancels_the_call_and_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (test_gateway, mut gateway) = test_gateway();
        let mut command = test_gateway.command(test_gateway.program());
        let mut caller = Launched::start(command.args(["call", "stub", "echo", "never=true"]));
        test_gateway.expect_calls(1);
        caller.signal(signal);
        assert_eq!(caller.wait_exit(PATIENCE).code(), Some(code), "{}", caller.stderr());
        assert_eq!(caller.stderr(), "ostler: cancelled\n");
        wait_until("the server is told", PATIENCE, || is_cancelled(&test_gateway));
        test_gateway.expect_calls(0);
        test_gateway.down_with(&mut gateway);
    }
}

#[test]
fn a_timeout_cancels_the_call() {
    let (test_gateway, mut gateway) = test_gateway();
    let words = ["stub", "echo", "never=true", "--timeout", "2s"];
    let said = "ostler: no result after 2s; the call is cancelled\n";
    assert_eq!(call(&test_gateway, &words), failed(1, said));
    wait_until("the server is told", PATIENCE, || is_cancelled(&test_gateway));
    test_gateway.down_with(&mut gateway);
}

/// A call with a terminal as its stdin, stdout and stderr.
fn call_on_terminal(test_gateway: &TestGateway, words: &[&str]) -> (Child, Terminal) {
    let mut command = test_gateway.command("setsid");
    command.args(["--ctty", "--wait", &test_gateway.program(), "call"]).args(words);
    let terminal = Terminal::attach(&mut command);
    terminal.resize(80, 24);
    (command.spawn().unwrap(), terminal)
}

fn expect(terminal: &mut Terminal, text: &str) {
    wait_until(text, PATIENCE, || {
        terminal.read();
        terminal.text().contains(text)
    });
}

#[test]
fn progress_is_shown_on_a_terminal_and_removed() {
    let (test_gateway, mut gateway) = test_gateway();
    let file = test_gateway.sandbox.file("go");
    let progress = [
        json!({ "progress": 1, "total": 4, "message": "un\u{1b}[2Jpacking" }),
        json!({ "progress": "odd" }),
    ];
    let result = json!({ "content": [{ "type": "text", "text": "unpacked" }] });
    let arguments = json!({ "progress": progress, "until": file, "result": result }).to_string();
    let (mut caller, mut terminal) = call_on_terminal(&test_gateway, &["stub", "echo", &arguments]);
    let mut shows = |text: &str| expect(&mut terminal, text);
    shows("\r\u{1b}[Kstub echo: 1/4 un\\u{1b}[2Jpacking");
    fs::write(&file, "").unwrap();
    shows("\r\u{1b}[Kunpacked\r\n");
    assert!(caller.wait().unwrap().success());
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_slow_start_is_shown_on_a_terminal() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let slow = test_gateway.stub("slow", &["--answer", "slow", "--slow-ms", "3000"], &json!({}));
    test_gateway.configure(&[("slow", slow)]);
    let mut gateway = test_gateway.serve(&[]);
    let words = ["slow", "echo", r#"result={"content":[]}"#];
    let (mut caller, mut terminal) = call_on_terminal(&test_gateway, &words);
    expect(&mut terminal, "slow echo: waiting, 1s");
    assert!(caller.wait().unwrap().success());
    terminal.read();
    assert!(terminal.text().ends_with("\r\u{1b}[K"), "{:?}", terminal.text());
    test_gateway.down_with(&mut gateway);
}
