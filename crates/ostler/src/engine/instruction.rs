//! Changes to an image, in the words of a Dockerfile: `LABEL name=value`, as `docker commit --change` takes them.

use crate::engine::label::{CLEARED, ReservedLabel, check};

/// The changes that make every label of ours empty.
pub(crate) fn clearing() -> impl Iterator<Item = String> {
    CLEARED.into_iter().map(|name| format!("LABEL {name}="))
}

/// Whether a change sets no label of ours, as far as its text shows. Variables are not followed: [`clearing`] changes
/// come last and count.
pub(crate) fn check_change(change: &str) -> Result<(), ReservedLabel> {
    change.lines().try_for_each(check_line)
}

fn check_line(line: &str) -> Result<(), ReservedLabel> {
    let line = line.trim_start();
    // Podman also takes `LABEL=name=value`.
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
        // The old form: one label, and all that follows is its value.
        [name, value, ..] if !name.contains('=') => check(name, value),
        words => {
            words.iter().filter_map(|word| word.split_once('=')).try_for_each(|(n, v)| check(n, v))
        }
    }
}

/// The words of a line, without their quotes and escapes.
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
    fn labels_of_ours_are_seen_however_they_are_written() {
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
