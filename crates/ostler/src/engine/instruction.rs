//! Dockerfile instructions that set labels (`LABEL name=value`), as `docker commit --change` accepts them.

use crate::engine::label::{CLEARED, ReservedLabel, check};

/// The instructions that set all our labels to empty values.
pub(crate) fn clearing() -> impl Iterator<Item = String> {
    CLEARED.into_iter().map(|name| format!("LABEL {name}="))
}

/// Refuses a change whose text sets a reserved label. Variables are not expanded; that is safe because the
/// [`clearing`] instructions come last and win.
pub(crate) fn check_change(change: &str) -> Result<(), ReservedLabel> {
    change.lines().try_for_each(check_line)
}

fn check_line(line: &str) -> Result<(), ReservedLabel> {
    let line = line.trim_start();
    // Podman also accepts `LABEL=name=value`.
    let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
    let (keyword, rest) = (&line[..end], line.get(end + 1..).unwrap_or_default());
    if keyword.eq_ignore_ascii_case("ONBUILD") {
        return check_line(rest);
    }
    if !keyword.eq_ignore_ascii_case("LABEL") {
        return Ok(());
    }
    let words = words(rest);
    match words.as_slice() {
        // The old form `LABEL name value`: everything after the name is the value.
        [name, value, ..] if !name.contains('=') => check(name, value),
        words => {
            words.iter().filter_map(|word| word.split_once('=')).try_for_each(|(n, v)| check(n, v))
        }
    }
}

/// Splits a line into words and removes quotes and escapes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.get_or_insert_default().extend(letters.next()),
            '"' | '\'' if quote == Some(letter) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            space if space.is_whitespace() && quote.is_none() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_labels_are_found_in_every_notation() {
        for change in [
            "LABEL ostler.instance=x",
            "  label a=b ostler.instance=x",
            "LABEL \"ostler.instance\"=\"x y\"",
            "LABEL a='b c' 'ostler.instance=x'",
            "LABEL ostler.instance x",
            "LABEL ostl\\er.instance=x",
            "LABEL=ostler.instance=x",
            "ENV a=b\nLABEL ostler.instance=x",
            "ONBUILD LABEL ostler.instance=x",
        ] {
            assert!(check_change(change).is_err(), "{change}");
        }
    }

    #[test]
    fn other_changes_pass() {
        for change in [
            "",
            "LABEL",
            "LABEL a=b",
            "LABEL a=\"about ostler.instance=x\"",
            "LABEL a ostler.instance=x",
            "LABEL ostler.instance=",
            "ENV ostler.instance=x",
            "CMD [\"LABEL\", \"ostler.instance=x\"]",
            "LABELS ostler.instance=x",
        ] {
            assert_eq!(check_change(change), Ok(()), "{change}");
        }
    }
}
