//! The same properties for random documents of every format.

use ostler_clients::{Edit, Format, Value};
use proptest::prelude::*;

use crate::layout::{Document, documents};

const FORMATS: [Format; 4] = [Format::Json, Format::Json5, Format::Toml, Format::Yaml];

/// The key of a server's command.
fn command(format: Format) -> &'static str {
    if format == Format::Yaml { "cmd" } else { "command" }
}

fn below(mut path: Vec<String>, key: &str) -> Vec<String> {
    path.push(key.to_owned());
    path
}

fn entry() -> Value {
    Value::object([
        ("command", Value::from("/opt/ostler")),
        ("args", Value::strings(["connect", "with \"quotes\"", "--config", "/home/ü/ostler.json"])),
    ])
}

/// The value of the text without the one at `path`.
fn without(format: Format, text: &str, path: &[String]) -> Value {
    fn removed(value: Value, path: &[String]) -> Value {
        let Value::Object(members) = value else { return value };
        let keep = |(key, value): (String, Value)| match path {
            [last] if *last == key => None,
            [first, rest @ ..] if *first == key && !rest.is_empty() => {
                Some((key, removed(value, rest)))
            }
            _ => Some((key, value)),
        };
        Value::Object(members.into_iter().filter_map(keep).collect())
    }
    removed(format.read(text).unwrap(), path)
}

fn added_entries_leave_no_trace(format: Format, document: &Document) {
    let text = document.text(format);
    let path = Document::path(format, "new-entry");
    let added = format.edit(&text, &[Edit::Set(path.clone(), entry())]).expect(&text);
    assert!(format.read(&added).unwrap().at(&path) == Some(&entry()), "{added}");
    assert!(without(format, &added, &path) == format.read(&text).unwrap(), "{added}");
    let removed = format.edit(&added, &[Edit::Remove(path)]).expect(&added);
    assert_eq!(removed, text, "after\n{added}");
}

fn replaced_values_come_back(format: Format, document: &Document) {
    let text = document.text(format);
    let (name, server) = &document.servers[0];
    let path = below(Document::path(format, name), command(format));
    let edited = format.edit(&text, &[Edit::Set(path.clone(), "/opt/ostler".into())]).expect(&text);
    assert!(without(format, &edited, &path) == without(format, &text, &path), "{edited}");
    let back =
        format.edit(&edited, &[Edit::Set(path.clone(), server.command.as_str().into())]).unwrap();
    assert!(format.read(&back).unwrap() == format.read(&text).unwrap(), "{back}");
    let back = format.edit(&edited, &[Edit::Copy(path, &text)]).expect(&edited);
    assert_eq!(back, text, "after\n{edited}");
}

fn removed_entries_take_nothing_with_them(format: Format, document: &Document) {
    let text = document.text(format);
    for (name, _) in &document.servers {
        let path = Document::path(format, name);
        let removed = format.edit(&text, &[Edit::Remove(path.clone())]).expect(&text);
        let expected = without(format, &text, &path);
        let is_same = format.read(&removed).unwrap() == expected;
        assert!(is_same || document.servers.len() == 1, "{removed}");
        let mut originals = text.trim_start_matches('\u{feff}').lines();
        for line in removed.trim_start_matches('\u{feff}').lines() {
            let plain = |line: &str| line.trim_end_matches(',').replace(',', "");
            let found =
                originals.any(|original| plain(original).trim().ends_with(plain(line).trim()));
            assert!(
                found || document.servers.len() == 1,
                "{line:?} is not of\n{text}\nbut of\n{removed}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_that_is_set_and_removed_leaves_no_trace(document in documents()) {
        for format in FORMATS {
            added_entries_leave_no_trace(format, &document);
        }
    }

    #[test]
    fn a_value_that_is_replaced_and_copied_back_is_as_it_was(document in documents()) {
        for format in FORMATS {
            replaced_values_come_back(format, &document);
        }
    }

    #[test]
    fn a_removed_entry_takes_nothing_else_with_it(document in documents()) {
        for format in FORMATS {
            removed_entries_take_nothing_with_them(format, &document);
        }
    }

    #[test]
    fn no_text_makes_an_editor_panic(text in "[\\[\\]{}:,#\"'a-c \n\t\\-&*!|>/=0-9\r]{0,60}") {
        for format in FORMATS {
            let _ = format.edit(&text, &[Edit::Set(Document::path(format, "x"), entry())]);
            let _ = format.edit(&text, &[Edit::Remove(vec!["a".to_owned()])]);
            let _ = format.edit(&text, &[Edit::Set(vec!["a".to_owned(), "b".to_owned()], "c".into())]);
        }
    }
}
