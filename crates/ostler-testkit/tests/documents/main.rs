//! The documents are complete: links lead somewhere, the index of docs/ has every page, and docs/test-rows.md explains
//! every code in a test name.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod links;
mod rows;

use std::path::{Path, PathBuf};
use std::{fs, iter};

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All files below `directory` with this extension, sorted.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The pages of docs/, and the documents beside README.md.
fn documents() -> Vec<PathBuf> {
    let top = fs::read_dir(workspace()).unwrap().map(|entry| entry.unwrap().path());
    let top = top.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    top.chain(files(&workspace().join("docs"), "md")).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let broken: Vec<String> = documents().iter().flat_map(|page| links::broken(page)).collect();
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_index_has_every_page() {
    let index = fs::read_to_string(workspace().join("docs/README.md")).unwrap();
    let pages = files(&workspace().join("docs"), "md");
    let names = pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap());
    let missing: Vec<&str> = names
        .filter(|name| *name != "README.md" && !index.contains(&format!("| [{name}]({name}) |")))
        .collect();
    assert!(missing.is_empty(), "docs/README.md lacks: {missing:?}");
}

#[test]
fn every_code_in_a_test_name_is_explained() {
    let page = fs::read_to_string(workspace().join("docs/test-rows.md")).unwrap();
    let explained = rows::explained(&page);
    let used = rows::used(&workspace().join("crates"));
    let list = |codes: Vec<&rows::Use>| {
        let line = |(code, file): &rows::Use| format!("`{code}` in `{file}`");
        codes.into_iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let missing = list(used.difference(&explained).collect());
    let stale = list(explained.difference(&used).collect());
    let problems: Vec<String> = iter::empty()
        .chain((!missing.is_empty()).then(|| format!("docs/test-rows.md lacks:\n{missing}")))
        .chain((!stale.is_empty()).then(|| format!("no such test any more:\n{stale}")))
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
