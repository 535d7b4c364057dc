//! Help texts, compared with tests/help/*.txt as a terminal of 80 columns shows them.
//!
//! `OSTLER_WRITE_HELP=1` writes the files instead. Read the diff before you commit it.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::{env, fs};

use ostler_testkit::Sandbox;

const TERMINAL: usize = 80;
/// Lines of a terminal that the overview may fill.
const SCREEN: usize = 48;
/// The file with the overview of all commands.
const OVERVIEW: &str = "ostler";

fn help(words: &[&str], columns: usize) -> String {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(ostler_testkit::binary("ostler"));
    command.args(words).arg("--help").env("COLUMNS", columns.to_string());
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the overview lists: an indented word each.
fn commands() -> Vec<String> {
    let overview = help(&[], TERMINAL);
    let lines = overview.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter_map(|line| line.split_whitespace().next()).map(Into::into).collect()
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help"))
}

#[test]
fn help_equals_the_committed_pages() {
    let mut pages = vec![(OVERVIEW.to_owned(), help(&[], TERMINAL))];
    pages.extend(commands().into_iter().map(|command| {
        let text = help(&[&command], TERMINAL);
        (command, text)
    }));
    let mut differing = Vec::new();
    for (name, text) in &pages {
        let path = directory().join(name).with_extension("txt");
        if env::var_os("OSTLER_WRITE_HELP").is_some() {
            fs::write(path, text).unwrap();
        } else if !fs::read_to_string(path).is_ok_and(|expected| expected == *text) {
            differing.push(format!("---- {name}.txt should be:\n{text}"));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    let files = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(files, pages.into_iter().map(|(name, _)| name).collect(), "files without a command");
}

#[test]
fn the_overview_fits_one_screen() {
    let overview = help(&[], TERMINAL);
    assert!(overview.lines().count() <= SCREEN, "{overview}");
}

#[test]
fn every_command_ends_with_examples() {
    for command in commands() {
        let text = help(&[&command], TERMINAL);
        let examples = text.split_once("\nExample").map(|(_, examples)| examples);
        let example = format!("\n  ostler {command}");
        assert!(examples.is_some_and(|text| text.contains(&example)), "{command}: {text}");
    }
}

#[test]
fn help_wraps_at_the_width_of_the_terminal() {
    let too_long = |text: &str, width: usize| -> Vec<String> {
        let lines = text.lines().filter(|line| line.chars().count() > width);
        lines.map(ToOwned::to_owned).collect()
    };
    assert_eq!(too_long(&help(&[], TERMINAL), TERMINAL), [""; 0]);
    for command in commands() {
        assert_eq!(too_long(&help(&[&command], TERMINAL), TERMINAL), [""; 0], "{command}");
        // Examples are indented, and may be longer than a narrow terminal.
        let paragraphs = help(&[&command], 60)
            .lines()
            .filter(|line| !line.starts_with(' '))
            .fold(String::new(), |text, line| text + line + "\n");
        assert_eq!(too_long(&paragraphs, 60), [""; 0], "{command}");
    }
}
