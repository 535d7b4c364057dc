//! Unlinking.

use std::fs;

use ostler_clients::{Action, Client, Edit, Mode};

use crate::fixtures::FIXTURES;
use crate::home::Home;

const MODES: [Mode; 3] = [Mode::Each, Mode::One, Mode::Wrap];

#[test]
fn an_untouched_file_comes_back_byte_for_byte() {
    for (client, text) in FIXTURES {
        for mode in MODES {
            let home = Home::with(client, text);
            home.link(client, mode);
            assert_ne!(home.read(client), *text, "{client}");
            let undo = home.unlink(client);
            assert!(undo.is_exact, "{client}");
            assert_eq!(home.read(client), *text, "{client}");
        }
    }
}

#[test]
fn in_a_file_that_changed_only_ostlers_edits_are_undone() {
    for (client, text) in FIXTURES {
        for mode in MODES {
            let format = Client::named(client).unwrap().files[0].format;
            let home = Home::with(client, text);
            home.link(client, mode);
            let other = || Edit::Set(vec!["other".to_owned()], "written since".into());
            home.write(client, &format.edit(&home.read(client), &[other()]).unwrap());
            let undo = home.unlink(client);
            assert!(!undo.is_exact && !undo.leaves_any(), "{client}");
            let expected = format.read(&format.edit(text, &[other()]).unwrap()).unwrap();
            let found = format.read(&home.read(client)).unwrap();
            assert!(
                sorted(&found) == sorted(&expected),
                "{client} {mode:?}\n{}",
                home.read(client)
            );
            assert!(!home.unlink(client).changes(), "{client}: nothing is left to undo");
        }
    }
}

/// A value that does not depend on the order of members.
fn sorted(value: &ostler_clients::Value) -> ostler_clients::Value {
    use ostler_clients::Value;
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|one, two| one.0.cmp(&two.0));
            Value::Object(members)
        }
        other => other.clone(),
    }
}

#[test]
fn an_entry_that_the_user_changed_back_is_left_alone() {
    let home =
        Home::with("cursor", r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#);
    home.link("cursor", Mode::Each);
    let mine = r#"{"mcpServers": {"a": {"command": "mine"}, "b": {"command": "y"}}}"#;
    home.write("cursor", mine);
    let undo = home.unlink("cursor");
    assert!(!undo.changes());
    assert_eq!(home.read("cursor"), mine);
}

#[test]
fn without_backups_wrapped_entries_are_unwrapped_and_others_are_named() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["1"]}}}"#;
    for (mode, is_left) in [(Mode::Wrap, false), (Mode::Each, true)] {
        let home = Home::with("cursor", text);
        home.link("cursor", mode);
        let linked = home.read("cursor");
        fs::remove_dir_all(home.machine.state()).unwrap();
        let undo = home.unlink("cursor");
        assert_eq!(undo.leaves_any(), is_left);
        assert_eq!(home.read("cursor"), if is_left { linked.as_str() } else { text });
        let named =
            undo.steps.iter().any(|step| step.name == "a" && step.action == Action::Unknown);
        assert_eq!(named, is_left);
    }
}

#[test]
fn servers_that_are_added_and_linked_later_come_back_too() {
    let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }\n  }\n}\n";
    let home = Home::with("cursor", text);
    home.link("cursor", Mode::Each);
    let added = Edit::Set(
        ["mcpServers", "b"].map(str::to_owned).into(),
        ostler_clients::Value::object([("command", "y".into())]),
    );
    home.write(
        "cursor",
        &ostler_clients::Format::Json.edit(&home.read("cursor"), &[added]).unwrap(),
    );
    home.link("cursor", Mode::Each);
    assert_eq!(home.read("cursor").matches("connect").count(), 2);
    let undo = home.unlink("cursor");
    assert!(!undo.is_exact);
    let value = ostler_clients::Format::Json.read(&home.read("cursor")).unwrap();
    let expected = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#;
    assert!(
        value == ostler_clients::Format::Json.read(expected).unwrap(),
        "{}",
        home.read("cursor")
    );
}
