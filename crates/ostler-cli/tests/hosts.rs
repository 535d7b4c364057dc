//! Real agent hosts behind `ostler connect`, ended in several ways. `scripts/hosts` runs more hosts in more ways.

use std::time::Duration;

use ostler_gateway::LIST_LIMITS;
use ostler_testkit::hosts::facts::{Unanswered, limits};
use ostler_testkit::hosts::{Cell, End, Entry, Host, Tuning, Way};

/// Tolerance for a busy machine.
const TOLERANCE: Duration = Duration::from_secs(5);

/// A host that calls a tool leaves nothing after each kind of end.
fn connect_leaves_nothing(host: Host) {
    let ended = End::ALL.map(|end| Cell { host, way: Way::Connect, end }.begin());
    for ended in &ended {
        assert!(ended.has_called, "{ended}");
        ended.expect_nothing_left();
    }
}

/// The timeout of a host for a list equals the value in the gateway's table.
fn list_limit_is_true(host: Host) {
    let (name, measured) = limits(host, Unanswered::List);
    let known = LIST_LIMITS.iter().find(|known| known.client == name);
    let known = known.unwrap_or_else(|| panic!("{name} is not in the table")).gives_up_after;
    let measured = Duration::from_millis(measured.gives_up_ms);
    assert!(measured.abs_diff(known) < TOLERANCE, "{name}: {measured:?}, not {known:?}");
}

#[test]
fn codex_leaves_nothing_behind_connect() {
    connect_leaves_nothing(Host::Codex);
}

#[test]
fn claude_code_leaves_nothing_behind_connect() {
    connect_leaves_nothing(Host::ClaudeCode);
}

#[test]
fn codex_waits_for_a_list_as_long_as_the_table_says() {
    list_limit_is_true(Host::Codex);
}

#[test]
fn claude_code_waits_for_a_list_as_long_as_the_table_says() {
    list_limit_is_true(Host::ClaudeCode);
}

/// Without ostler a process is left, which proves that the other tests can count one.
#[test]
fn codex_alone_leaves_its_server() {
    let ended = Cell { host: Host::Codex, way: Way::Plain, end: End::Kill }.begin();
    assert!(ended.has_called, "{ended}");
    assert!(ended.left().servers > 0, "{ended}");
}

#[test]
fn the_page_shows_the_entries_that_are_played() {
    let page = include_str!("../../../docs/hosts.md");
    let entries =
        [Entry::command(&["ostler", "connect"]), Entry::Url("http://127.0.0.1:8639/mcp".into())];
    for host in Host::ALL {
        for entry in &entries {
            let text = entry.text(host, Tuning::Recommended);
            assert!(
                page.contains(&text),
                "docs/hosts.md lacks the entry of {}:\n{text}",
                host.title()
            );
        }
    }
}
