//! `ostler top` on a real pseudo-terminal, read through a terminal emulator.

use std::num::NonZero;
use std::process::{Child, ExitStatus};

use ostler_testkit::{Launched, Stage, Terminal, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Termios};
use serde_json::json;

use crate::test_gateway::{Client, PATIENCE, TestGateway};

fn size(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

/// `ostler top` on a terminal.
struct Top {
    child: Child,
    terminal: Terminal,
    emulator: vt100::Parser,
    /// Bytes of the output that the emulator has seen.
    seen: usize,
    before: Termios,
}

impl Top {
    fn start(test_gateway: &TestGateway, columns: u16, rows: u16) -> Self {
        let mut command = test_gateway.command("setsid");
        command.args(["--ctty", &test_gateway.program(), "top"]);
        let terminal = Terminal::attach(&mut command);
        terminal.resize(columns, rows);
        let before = terminal.modes();
        let child = command.spawn().unwrap();
        let emulator = vt100::Parser::new(size(rows), size(columns), 0);
        let mut top = Self { child, terminal, emulator, seen: 0, before };
        top.expect("q quit");
        top
    }

    fn screen(&mut self) -> String {
        self.terminal.read();
        self.emulator.process(&self.terminal.bytes()[self.seen..]);
        self.seen = self.terminal.bytes().len();
        self.emulator.screen().contents()
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        wait_until(what, PATIENCE, || {
            screen = self.screen();
            is_so(&screen)
        });
        screen
    }

    fn expect(&mut self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    fn press(&mut self, keys: &str) {
        self.terminal.type_keys(keys);
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.screen_mut().set_size(size(rows), size(columns));
        self.terminal.resize(columns, rows);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        wait_until("top has ended", PATIENCE, || self.child.try_wait().unwrap())
    }

    /// The end, after which the terminal is as it was.
    fn end_restored(&mut self) -> ExitStatus {
        let status = self.end();
        self.screen();
        let screen = self.emulator.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        let after = self.terminal.modes();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
        status
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway with two instances, and a wrapped server.
fn scene() -> (TestGateway, Launched, Vec<Client>, Launched) {
    let test_gateway = TestGateway::with(Stage::leaf(), &["alpha", "beta"], &json!({}));
    let gateway = test_gateway.serve(&[]);
    let mut clients: Vec<Client> =
        ["alpha", "beta"].iter().map(|name| test_gateway.client(&[name])).collect();
    clients.iter_mut().for_each(Client::echo);
    let wrapped = test_gateway.wrap(&[]);
    (test_gateway, gateway, clients, wrapped)
}

fn drive(columns: u16, rows: u16) {
    let (test_gateway, mut gateway, clients, mut wrapped) = scene();
    let mut top = Top::start(&test_gateway, columns, rows);
    assert!(!top.terminal.modes().local_modes.contains(LocalModes::ICANON));
    let screen = top.expect("ostler-stub");
    for text in ["ostler top  3 instances", "alpha", "beta", "ready", "running", "SESSIONS"] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    let is_full = screen.lines().all(|line| line.chars().count() <= usize::from(columns));
    assert!(is_full && screen.contains("CLIENT") == (columns > 100), "{screen}");

    top.press("ssss");
    top.expect("by memory");
    top.press("/bet\r");
    let screen = top.expect("1 instance,");
    assert!(screen.contains("beta") && !screen.contains("alpha"), "{screen}");
    top.press("\r");
    let screen = top.expect("#");
    for text in ["processes: 1", "ostler-stub --pid-file", "events:", "ready", "Esc back"] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    // Arrow keys and an escape byte are told apart.
    top.press("\u{1b}[B\u{1b}");
    top.expect("q quit");
    top.expect("SERVER");
    top.press("?");
    top.expect("invert the order");
    top.press("?");
    top.press("x");
    top.expect("? y/N");
    top.press("y");
    top.wait("it is gone", |screen| screen.contains("no match"));
    top.press("\u{1b}");
    let screen = top.expect("2 instances");
    assert!(!screen.contains("beta"), "{screen}");
    top.press("/stub\rxy");
    wait_until("the wrapped server has ended", PATIENCE, || wrapped.try_exit());
    top.press("q");
    assert_eq!(top.end_restored().code(), Some(0));
    drop(clients);
    test_gateway.down_with(&mut gateway);
}

#[test]
fn top_is_driven_at_80_by_24() {
    drive(80, 24);
}

#[test]
fn top_is_driven_at_200_by_60() {
    drive(200, 60);
}

#[test]
fn a_resize_draws_the_screen_anew() {
    let (test_gateway, mut gateway, clients, wrapped) = scene();
    let mut top = Top::start(&test_gateway, 80, 24);
    top.resize(140, 40);
    top.expect("CLIENT");
    top.resize(30, 5);
    top.wait("it is small", |screen| screen.contains("SERVER") && !screen.contains("CLIENT"));
    top.press("q");
    assert_eq!(top.end_restored().code(), Some(0));
    drop((clients, wrapped));
    test_gateway.down_with(&mut gateway);
}

#[test]
fn the_terminal_is_restored_after_an_interrupt_and_signals() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let mut top = Top::start(&test_gateway, 80, 24);
    top.expect("no servers");
    top.press("\u{3}");
    assert_eq!(top.end_restored().code(), Some(0));
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut top = Top::start(&test_gateway, 80, 24);
        top.signal(signal);
        assert_eq!(top.end_restored().code(), Some(code));
    }
    test_gateway.expect_no_process();
}

#[test]
fn top_ends_when_its_terminal_hangs_up() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let mut top = Top::start(&test_gateway, 80, 24);
    let mut command = test_gateway.command("true");
    // Replaced by another terminal, so that its own one is closed.
    top.terminal = Terminal::attach(&mut command);
    assert_eq!(top.end().code(), Some(129));
    test_gateway.expect_no_process();
}

#[test]
fn without_a_terminal_top_names_ps() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let output = test_gateway.try_ostler(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "ostler: top needs a terminal; `ostler ps` prints the same once\n");
}

#[test]
fn hostile_text_does_not_reach_the_screen() {
    let test_gateway = TestGateway::new(Stage::leaf());
    let hostile = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}b";
    let init_log = test_gateway.sandbox.file(hostile).display().to_string();
    let stub = test_gateway.stub("a", &["--init-log", &init_log], &json!({}));
    test_gateway.configure(&[("a", stub)]);
    let mut gateway = test_gateway.serve(&[]);
    let mut client = Launched::start(&mut test_gateway.connect_command(&["a"]));
    let info = json!({ "name": hostile, "version": "0" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    client.call("initialize", &params);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.call("tools/call", &json!({ "name": "echo", "arguments": {} }));
    let mut top = Top::start(&test_gateway, 200, 24);
    let escaped = r"a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}b";
    top.expect(escaped);
    top.press("\r");
    top.expect("processes: 1");
    top.expect(escaped);
    top.press("/\u{1b}");
    assert!(!top.terminal.text().contains(['\u{7}', '\u{9b}', '\u{202e}']));
    assert!(!top.terminal.text().contains("\u{1b}]"));
    top.press("q");
    assert_eq!(top.end_restored().code(), Some(0));
    drop(client);
    test_gateway.down_with(&mut gateway);
}
