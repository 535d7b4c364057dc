//! Commands on a terminal: the question before a change, and the first contact.

use std::path::Path;
use std::time::Duration;

use ostler_testkit::{Terminal, wait_until};

use crate::home::{CURSOR, Home};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs ostler on a terminal, and types the keys once this is shown. Returns the exit code and all that was shown.
fn on_terminal(home: &Home, words: &[&str], shown: &str, keys: &str) -> (Option<i32>, String) {
    let mut command = home.command(Path::new("/usr/bin/setsid"));
    command.args(["--ctty", "--wait"]).arg(ostler_testkit::binary("ostler")).args(words);
    let mut terminal = Terminal::attach(&mut command);
    let mut child = command.spawn().unwrap();
    drop(command);
    wait_until(shown, PATIENCE, || {
        terminal.read();
        terminal.text().contains(shown)
    });
    terminal.type_keys(keys);
    let mut status = None;
    wait_until("it ends", PATIENCE, || {
        terminal.read();
        status = child.try_wait().unwrap();
        status.is_some()
    });
    terminal.read();
    (status.and_then(|status| status.code()), terminal.text())
}

/// Answers the question of `ostler link cursor`.
fn answer(home: &Home, keys: &str) -> (Option<i32>, String) {
    on_terminal(home, &["link", "cursor"], "Write these changes? [y/N] ", keys)
}

#[test]
fn without_a_command_it_says_what_is_here_and_what_to_do_next() {
    let home = Home::with_clients();
    let (code, shown) = on_terminal(&home, &[], "all commands: ostler --help", "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Cursor (") && shown.contains("next: ostler link "), "{shown}");
    assert!(shown.lines().count() <= 10 && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn yes_writes_and_anything_else_does_not() {
    for keys in ["\n", "n\n", "yesss\n", "\u{4}"] {
        let home = Home::with_clients();
        let (code, shown) = answer(&home, keys);
        assert_eq!(code, Some(2), "{shown}");
        assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
    }
    let home = Home::with_clients();
    let (code, shown) = answer(&home, "Y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(home.read(".cursor/mcp.json").contains("connect"));
    assert!(!shown.contains("s3cret"), "{shown}");
}
