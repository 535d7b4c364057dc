//! `ostler logs`: stderr of servers, from files that gateways write.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Output;

use ostler_testkit::{Launched, Stage, binary, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::test_gateway::{PATIENCE, TestGateway};

/// Writes a control character, a secret and half a line to stderr, and exits with status 7.
const DYING: &str =
    r"printf 'cannot open \033[31mthe database\nusing token=s3cret\nbye' >&2; exit 7";

/// Writes about 650 KB per second to stderr, and is a stub.
const FLOODING: &str =
    "while :; do head -c 65536 /dev/zero | tr '\\0' x | fold -w 99; sleep 0.1; done >&2 & exec";

/// Largest size of a log, in bytes: five files of 1 MiB, each with at most one more block.
const LARGEST_LOG: u64 = 5 * ((1 << 20) + (256 << 10));

fn directory(test_gateway: &TestGateway) -> PathBuf {
    test_gateway.sandbox.state().join("ostler/logs")
}

fn connect_in_vain(test_gateway: &TestGateway, server: &str) {
    let mut client = Launched::start(&mut test_gateway.connect_command(&[server]));
    let answer = client.initialize();
    assert!(answer["error"].is_object(), "{answer}");
}

/// Digits of times become zeros, and numbers and ids of instances one name.
fn shape(line: &str) -> String {
    let (time, rest) = line.split_at(23);
    let time: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let rest = rest.trim_start().split_once(' ').unwrap().1;
    format!("{time} {rest}")
}

fn failure(output: &Output) -> (Option<i32>, String) {
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// `ostler logs -f`, which prints to a pipe.
fn follow(test_gateway: &TestGateway, words: &[&str]) -> Launched {
    let mut command = test_gateway.command(test_gateway.program());
    Launched::start(command.args(["logs", "-f"]).args(words))
}

fn next_line(follower: &mut Launched) -> String {
    String::from_utf8(follower.line(PATIENCE).unwrap().unwrap()).unwrap()
}

#[test]
fn the_stderr_of_a_server_that_fails_to_start_is_in_its_log() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let dying = json!({ "command": "sh", "args": ["-c", DYING] });
    test_gateway.configure(&[("a", dying), ("b", json!({ "command": "/no/such" }))]);
    let mut gateway = test_gateway.serve(&[]);
    connect_in_vain(&test_gateway, "a");
    connect_in_vain(&test_gateway, "b");
    let config = fs::read(test_gateway.config()).unwrap();
    test_gateway.down_with(&mut gateway);
    // Neither a gateway nor a configuration is needed.
    fs::remove_file(test_gateway.config()).unwrap();

    let text = test_gateway.ostler(&["logs", "a"]);
    assert_eq!(
        text.lines().map(shape).collect::<Vec<_>>(),
        [
            r"0000-00-00 00:00:00.000 | cannot open \u{1b}[31mthe database",
            "0000-00-00 00:00:00.000 | using token=…",
            "0000-00-00 00:00:00.000 | bye",
            "0000-00-00 00:00:00.000 * it has exited (exit status: 7)",
            r"0000-00-00 00:00:00.000 * command: sh -c 'printf '\''cannot open \033[31mthe database\nusing token=…'",
        ]
    );
    let lines = test_gateway.ostler(&["logs", "a", "--json"]);
    assert!(!lines.contains('\u{1b}'), "{lines}");
    let mut first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(first["number"].is_u64() && first["instance"].as_str().unwrap().len() == 32, "{first}");
    assert_eq!(first["at"].as_str().unwrap().len(), "2026-11-18T10:45:33.123Z".len());
    for key in ["number", "instance", "at"] {
        first[key] = Value::Null;
    }
    let text = "cannot open \u{1b}[31mthe database";
    let expected = json!({
        "at": null, "server": "a", "instance": null, "number": null, "source": "stderr",
        "text": text, "cut": false,
    });
    assert_eq!(first, expected);
    let why = test_gateway.ostler(&["logs", "b"]);
    let why: Vec<String> = why.lines().map(|line| shape(line)[24..].to_owned()).collect();
    assert_eq!(
        why[..2],
        ["* it could not be started: /no/such: command not found", "* command: /no/such"]
    );
    assert!(why[2].starts_with("* what to do: "), "{why:?}");

    let logs = directory(&test_gateway);
    assert_eq!(fs::metadata(&logs).unwrap().permissions().mode() & 0o777, 0o700);
    let log = logs.join("a.log");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(log).unwrap().contains("s3cret"));
    fs::write(test_gateway.config(), config).unwrap();
}

#[test]
fn a_flood_of_several_instances_keeps_within_the_bound_and_says_what_was_dropped() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let stub = test_gateway.sandbox.reachable(&binary("ostler-stub"));
    let script = format!("{FLOODING} {}", stub.display());
    let flooding =
        json!({ "command": "sh", "args": ["-c", script], "share": "session", "grace": "300ms" });
    test_gateway.configure(&[("a", flooding), ("b", test_gateway.stub("b", &[], &json!({})))]);
    let mut gateway = test_gateway.serve(&[]);
    let logs = directory(&test_gateway);
    let generation = |age: u8| logs.join(format!("a.log.{age}"));
    for age in 1..=4 {
        fs::write(generation(age), vec![age; 1 << 20]).unwrap();
    }
    let mut clients: Vec<_> = (0..4).map(|_| test_gateway.client(&["a"])).collect();
    for client in &mut clients {
        client.echo();
    }
    let size = || {
        let sizes = fs::read_dir(&logs).unwrap().flatten().filter_map(|file| file.metadata().ok());
        sizes.map(|found| found.len()).sum::<u64>()
    };
    wait_until("its log was rotated twice", PATIENCE, || {
        assert!(size() <= LARGEST_LOG, "{}", size());
        fs::read(generation(4)).is_ok_and(|oldest| oldest[0] == 2)
    });
    // Other servers, and calls of the flooding one, go on.
    test_gateway.client(&["b"]).echo();
    for client in &mut clients {
        client.echo();
    }
    assert!(!generation(5).exists());
    let lines = test_gateway.ostler(&["logs", "a", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let numbers: BTreeSet<u64> = lines.iter().filter_map(|line| line["number"].as_u64()).collect();
    assert_eq!(numbers.len(), 4, "{numbers:?}");
    let is_note = |line: &&Value| line["source"] == "ostler";
    let note = lines.iter().find(is_note).unwrap()["text"].as_str().unwrap();
    assert!(
        note.starts_with("lines dropped: ")
            && note.ends_with(" (more than 256 KiB/s, or a slow disk)"),
        "{note}"
    );
    let is_whole = |line: &Value| line["text"].as_str().unwrap().bytes().all(|byte| byte == b'x');
    assert!(lines.iter().filter(|line| !is_note(line)).all(is_whole));
    for client in clients {
        client.end();
    }
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_follower_prints_new_lines_until_its_reader_is_gone() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let mut gateway = test_gateway.serve(&[]);
    // It waits for a log that does not exist yet.
    let mut early = follow(&test_gateway, &["a"]);
    wait_until("it waits", PATIENCE, || early.stderr().contains("no log yet"));
    let mut client = test_gateway.client(&["a"]);
    client.tool("echo", &json!({ "complain": "one" }));
    assert!(next_line(&mut early).ends_with(" | one"));
    let mut late = follow(&test_gateway, &["a", "--json"]);
    assert!(next_line(&mut late).contains(r#""text":"one""#));
    for text in ["two", "three"] {
        client.tool("echo", &json!({ "complain": text }));
        assert!(next_line(&mut early).ends_with(&format!(" | {text}")));
        assert!(next_line(&mut late).contains(&format!(r#""text":"{text}""#)));
    }
    // Both end, although the server is silent.
    early.close_stdout();
    assert!(early.wait_exit(PATIENCE).success(), "{}", early.stderr());
    late.signal(Signal::INT);
    late.wait_exit(PATIENCE);
    assert_eq!(late.stderr(), "");
    client.end();
    test_gateway.down_with(&mut gateway);
}

#[test]
fn lines_are_chosen_by_number_time_and_instance() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({ "share": "session" }));
    let mut gateway = test_gateway.serve(&[]);
    let mut clients = ["one", "two"].map(|text| (text, test_gateway.client(&["a"])));
    for (text, client) in &mut clients {
        client.tool("echo", &json!({ "complain": text }));
    }
    let log = |words: &[&str]| test_gateway.ostler(&[&["logs", "a", "--json"], words].concat());
    wait_until("both have written", PATIENCE, || log(&[]).lines().count() == 2);
    let lines: Vec<Value> =
        log(&[]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let all = log(&[]);
    let [first, second] = [all.lines().next().unwrap(), all.lines().nth(1).unwrap()];
    assert_eq!(log(&["-n", "1"]).trim_end(), second);
    assert_eq!(log(&["-n", "0"]), "");
    assert_eq!(log(&["--since", "10m"]), all);
    assert_eq!(log(&["--since", "2100-01-01"]), "");
    assert_eq!(log(&["--since", lines[0]["at"].as_str().unwrap()]), all);
    assert_eq!(log(&["--instance", &lines[0]["number"].to_string()]).trim_end(), first);
    let id = lines[1]["instance"].as_str().unwrap();
    assert_eq!(log(&["--instance", &id[..8]]).trim_end(), second);
    for words in [&["--since", "soon"][..], &["--instance", "x"], &["-n", "-1"]] {
        let refused = test_gateway.try_ostler(&[&["logs", "a"], words].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    for (_, client) in clients {
        client.end();
    }
    test_gateway.down_with(&mut gateway);
}

#[test]
fn a_server_without_a_log_is_explained() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let remote = json!({ "url": "http://127.0.0.1:1/mcp" });
    test_gateway
        .configure(&[("quiet", test_gateway.stub("quiet", &[], &json!({}))), ("far", remote)]);
    let mut gateway = test_gateway.serve(&[]);
    let logs = |server: &str| failure(&test_gateway.try_ostler(&["logs", server]));
    let silent = "no log yet: it has written nothing to stderr, and no start of it has failed\n";
    assert_eq!(logs("quiet"), (Some(0), format!("ostler: quiet: {silent}")));
    let remote = "no log yet: a remote server has no stderr, and no connection to it has failed\n";
    assert_eq!(logs("far"), (Some(0), format!("ostler: far: {remote}")));
    let unknown = "ostler: there is no server 'qiuet'; did you mean 'quiet'?\n";
    assert_eq!(logs("qiuet"), (Some(3), unknown.to_owned()));
    let (code, text) = logs("\u{1b}[2J/../../x");
    assert_eq!(code, Some(3));
    let unknown = r"ostler: there is no server '\u{1b}[2J/../../x'; `ostler status` lists them";
    assert_eq!(text.trim_end(), unknown);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn the_stderr_of_a_wrapped_server_goes_to_its_client_and_logs_says_so() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let mut server = test_gateway.wrap(&[]);
    server.initialize();
    let (code, text) = failure(&test_gateway.try_ostler(&["logs", "ostler-stub"]));
    assert_eq!(code, Some(3));
    let pid = test_gateway.sandbox.pids()[0];
    let why = format!("pid {pid} runs under `ostler run` without --log, so its stderr goes to ");
    assert!(text.starts_with(&format!("ostler: ostler-stub: no log: {why}")), "{text}");
    assert!(text.contains(&format!("({})", std::process::id())), "{text}");
    server.close_stdin();
    server.wait_exit(PATIENCE);
    test_gateway.expect_no_process();
}

#[test]
fn a_link_in_place_of_a_log_is_neither_written_nor_read() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a", "b"], &json!({}));
    let logs = directory(&test_gateway);
    let precious = test_gateway.sandbox.file("precious");
    fs::write(&precious, "precious\n").unwrap();
    let mut gateway = test_gateway.serve(&[]);
    symlink(&precious, logs.join("a.log")).unwrap();
    let mut client = test_gateway.client(&["a"]);
    client.tool("echo", &json!({ "complain": "one" }));
    let (code, text) = failure(&test_gateway.try_ostler(&["logs", "a"]));
    assert_eq!(code, Some(1));
    let path = logs.join("a.log").display().to_string();
    assert!(text.starts_with(&format!("ostler: cannot read {path}: ")), "{text}");
    // Logs are written in the order of names, so that of `a` was tried before this one.
    test_gateway.client(&["b"]).tool("echo", &json!({ "complain": "one" }));
    wait_until("the other log is written", PATIENCE, || logs.join("b.log").exists());
    fs::remove_file(logs.join("a.log")).unwrap();
    client.tool("echo", &json!({ "complain": "two" }));
    let lines = || String::from_utf8(test_gateway.try_ostler(&["logs", "a"]).stdout).unwrap();
    wait_until("it is written again", PATIENCE, || lines().contains("| two"));
    assert!(lines().contains("* lines that could not be written: 1 ("), "{}", lines());
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious\n");
    client.end();
    test_gateway.down_with(&mut gateway);
}

#[test]
fn logs_that_cannot_be_kept_hinder_no_server() {
    let test_gateway = TestGateway::with(Stage::leaf(), &["a"], &json!({}));
    let state = test_gateway.sandbox.state().join("ostler");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("logs"), "").unwrap();
    let mut gateway = test_gateway.serve(&[]);
    assert!(gateway.stderr().contains("warning: cannot keep logs of servers: "));
    let mut client = test_gateway.client(&["a"]);
    client.tool("echo", &json!({ "complain": "one" }));
    client.end();
    test_gateway.down_with(&mut gateway);
}
