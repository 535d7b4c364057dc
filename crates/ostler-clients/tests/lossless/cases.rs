//! Single cases: what is refused, and layouts that random documents do not have.

use ostler_clients::{Edit, EditError, Format, Value};

fn path(keys: &str) -> Vec<String> {
    keys.split('.').map(str::to_owned).collect()
}

fn set(format: Format, text: &str, keys: &str, value: Value) -> Result<String, EditError> {
    format.edit(text, &[Edit::Set(path(keys), value)])
}

#[test]
fn an_empty_file_gets_its_first_entry() {
    for (format, text, expected) in [
        (Format::Json, "", "{\n  \"a\": {\n    \"b\": \"c\"\n  }\n}\n"),
        (Format::Json, "{}\n", "{\n  \"a\": {\n    \"b\": \"c\"\n  }\n}\n"),
        (Format::Json, "{ \"a\": {} }", "{ \"a\": {\n  \"b\": \"c\"\n} }"),
        (Format::Toml, "", "[a]\nb = \"c\"\n"),
        (Format::Yaml, "", "a:\n  b: c\n"),
        (Format::Yaml, "a:\n", "a: {b: c}\n"),
        (Format::Yaml, "a: {}\n", "a: {b: c}\n"),
    ] {
        let edited = set(format, text, "a.b", "c".into()).expect(text);
        assert_eq!(edited, expected);
        let emptied = format.edit(&edited, &[Edit::Remove(path("a.b"))]).unwrap();
        assert!(format.read(&emptied).unwrap().at(&path("a.b")).is_none(), "{emptied}");
    }
}

#[test]
fn a_new_entry_looks_like_its_neighbours() {
    let value = || Value::object([("command", Value::from("x")), ("args", Value::strings(["z"]))]);
    for (format, text, expected) in [
        (
            Format::Json,
            "{\n\t\"s\": {\n\t\t\"a\": {}\n\t}\n}\n",
            "{\n\t\"s\": {\n\t\t\"a\": {},\n\t\t\"new\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": [\"z\"]\n\t\t}\n\t}\n}\n",
        ),
        (
            Format::Json,
            "{\"s\":{\"a\":{}}}",
            "{\"s\":{\"a\":{}, \"new\": { \"command\": \"x\", \"args\": [\"z\"] }}}",
        ),
        (
            Format::Yaml,
            "s:\n    a:\n        k: v\n",
            "s:\n    a:\n        k: v\n    new:\n        command: x\n        args: [z]\n",
        ),
        (
            Format::Toml,
            "[s.a]\nk = 1\n",
            "[s.a]\nk = 1\n\n[s.new]\ncommand = \"x\"\nargs = [\"z\"]\n",
        ),
    ] {
        assert_eq!(set(format, text, "s.new", value()).expect(text), expected);
    }
}

#[test]
fn what_cannot_be_edited_safely_is_refused_and_named() {
    for (format, text, keys) in [
        (Format::Json, "{\"a\": 1}", "a.b"),
        (Format::Json, "{\"a\": {}, \"a\": {}}", "a.b"),
        (Format::Json, "[1]", "a"),
        (Format::Json, "{\"a\": ", "a"),
        (Format::Json, "{'a': 1}", "a"),
        (Format::Toml, "a = 1", "a.b"),
        (Format::Toml, "a = ", "a"),
        (Format::Yaml, "a: &x\n  b: 1\nc: *x\n", "c.b"),
        (Format::Yaml, "a: &x\n  b: 1\nc: *x\n", "a.b"),
        (Format::Yaml, "a: !t {b: 1}\n", "a.b"),
        (Format::Yaml, "a: 1\n---\nb: 2\n", "a"),
        (Format::Yaml, "- a\n", "a"),
        (Format::Yaml, "? [a]\n: b\n", "a"),
    ] {
        let error = set(format, text, keys, "x".into()).expect_err(text).to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
}

#[test]
fn numbers_and_unknown_values_elsewhere_are_kept_as_they_are_written() {
    let text = "{\"n\": 1.50e+3, \"big\": 123456789012345678901234567890, \"a\": {\"b\": 1}}";
    let edited = set(Format::Json, text, "a.b", "x".into()).unwrap();
    assert_eq!(edited, text.replace("\"b\": 1", "\"b\": \"x\""));
    let text = "when: 2026-11-18\nanchor: &a [1, 2]\nuse: *a\nblock: |\n  two\n  lines\na:\n  b: 1 # why\n";
    let edited = set(Format::Yaml, text, "a.b", "x".into()).unwrap();
    assert_eq!(edited, text.replace("b: 1", "b: x"));
    let text = "t = 2026-11-18T10:00:00Z\nf = 1_000.5\n[a]\nb = 1 # why\n";
    let edited = set(Format::Toml, text, "a.b", "x".into()).unwrap();
    assert_eq!(edited, text.replace("b = 1", "b = \"x\""));
}

#[test]
fn values_and_errors_show_nothing_of_the_file() {
    let value = Format::Json.read("{\"token\": \"s3cret\"}").unwrap();
    assert!(!format!("{value:?}").contains("s3cret"));
    for (format, text) in [
        (Format::Json, "{\"token\": \"s3cret\" s3cret"),
        (Format::Json5, "{token: 's3cret' s3cret"),
        (Format::Toml, "token = \"s3cret\" s3cret"),
        (Format::Yaml, "token: \"s3cret\n  s3cret: ["),
    ] {
        let error = format.read(text).expect_err(text);
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}
