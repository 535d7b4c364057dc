//! Arbitrary input: any text is accepted or refused, and quickly.

use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::{Template, parse, resolve};
use super::environment;

/// Time limit for a file of the largest size, in a debug build on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Fragments of configurations, in any order.
fn scraps() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        "\u{feff}",
        "\u{0}",
        "é",
        "💥",
        "\"mcpServers\"",
        "\"s\"",
        "\"command\"",
        "\"args\"",
        "\"env\"",
        "\"url\"",
        "\"tools\"",
        "\"caps\"",
        "\"mcp\"",
        "\"timeout\"",
        "\"limits\"",
        "\"share\"",
        "\"x\"",
        "\"${A}\"",
        "\"${\"",
        "\"10m\"",
        "\"\\ud800\"",
        "null",
        "true",
        "-1",
        "1e999",
        "0.5",
        "99999999999999999999",
    ]);
    prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
}

/// A valid configuration with a part removed or inserted.
fn damaged() -> impl Strategy<Value = String> {
    const WHOLE: &str = r#"{"mcpServers": {"a": {"command": "x", "args": ["é", "${A:-b}"], "env": {"T": "s3cret"},
        "tools": {"allow": ["a"]}, "limits": {"memory": "1g"}, "idleTimeout": "never"}, // comment
        "b": {"url": "https://x.invalid", "headers": {"A": "s3cret"}}}, "caps": {"queue": 1,},}"#;
    (0..WHOLE.len(), 0..20_usize, "[\\PC\\n\"{}\\[\\],:]{0,3}").prop_map(|(at, length, put)| {
        let before: String = WHOLE.chars().take(at).collect();
        let after: String = WHOLE.chars().skip(at + length).collect();
        format!("{before}{put}{after}")
    })
}

fn read(text: &str) -> String {
    match parse(text, Path::new("ostler.json")) {
        Ok(file) => {
            let (environment, cwd) = (environment(&[("A", "1")]), Path::new("/"));
            for entry in file.servers.values() {
                let _ = resolve(entry, &environment, cwd);
            }
            format!("{file:?}")
        }
        Err(problems) => problems.to_string(),
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn any_scraps_are_read_or_refused(text in scraps()) {
        read(&text);
    }

    #[test]
    fn damage_shows_no_secret(text in damaged()) {
        // Only whole secrets count: the rest of one that was cut in two may have become a key.
        let said = read(&text);
        prop_assert!(!said.contains("s3cret"), "{text}\n{said}");
    }

    #[test]
    fn any_template_is_read_or_refused(text in "[$\\{\\}:A-C_-]{0,20}") {
        if let Ok(template) = Template::parse(&text) {
            // The displayed template is the same text, except for defaults and alternative spellings.
            prop_assert!(Template::parse(&template.to_string()).is_ok(), "{text}");
        }
    }
}

#[test]
fn the_largest_files_are_parsed_in_time() {
    let size = 4 << 20;
    let fill = |unit: &str| unit.repeat(size / unit.len());
    let begin = Instant::now();
    for text in [
        fill("["),
        fill("\""),
        fill("/*"),
        fill("{\"a\":"),
        format!("{{{}}}", fill("\"a\":1,")),
        format!("{{\"mcpServers\":{{{}}}}}", fill("\"a\":{\"x\":1},")),
        format!("{{\"{}\":1}}", fill("k")),
        format!("{{\"mcpServers\":{{\"a\":{{\"command\":\"{}\"}}}}}}", fill("${A}")),
    ] {
        assert!(read(&text).len() < size * 4, "what is said is bounded");
    }
    assert!(begin.elapsed() < PATIENCE);
}
