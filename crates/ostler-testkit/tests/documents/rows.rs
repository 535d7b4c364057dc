//! Codes in the names of tests (`l33_a_thousand_calls_are_one_process`), and the page that explains them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A code, and the file with a test of that code, relative to crates/.
pub(crate) type Use = (String, String);

/// Every code in the name of a function below `crates`.
pub(crate) fn used(crates: &Path) -> BTreeSet<Use> {
    let mut used = BTreeSet::new();
    for path in super::files(crates, "rs") {
        let file = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let line = line.trim_start();
            let Some(name) = line.trim_start_matches("async ").strip_prefix("fn ") else {
                continue;
            };
            used.extend(codes(name).map(|code| (code.to_owned(), file.clone())));
        }
    }
    used
}

/// The codes that a name begins with: `s18_s19_the_keeper` has two.
fn codes(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').take_while(|word| is_code(word))
}

/// One letter and one or two digits, and perhaps another letter: `f3`, `l17b`.
fn is_code(word: &str) -> bool {
    let mut characters = word.chars();
    let begins = characters.next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = characters.as_str().trim_end_matches(|c: char| c.is_ascii_lowercase());
    begins && matches!(rest.len(), 1..=2) && rest.chars().all(|c| c.is_ascii_digit())
}

/// Every code of the page with each of its files: rows of tables with the columns code, row, tests.
pub(crate) fn explained(page: &str) -> BTreeSet<Use> {
    let mut explained = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let (code, rest) = quoted.split_first().unwrap();
        // The row itself may quote something as well.
        let files = rest.iter().filter(|text| text.contains("/tests") || text.contains("/src"));
        explained.extend(files.map(|file| ((*code).to_owned(), (*file).to_owned())));
    }
    explained
}

#[test]
fn codes_are_told_from_words() {
    assert_eq!(codes("s18_s19_the_keeper").collect::<Vec<_>>(), ["s18", "s19"]);
    assert_eq!(codes("l17b_l3_x9_").count(), 3);
    for name in ["a_word", "utf8_is_kept", "f", "s1234_x", "_l01", "l", "8x"] {
        assert_eq!(codes(name).count(), 0, "{name}");
    }
}
