//! Relative links of Markdown pages.

use std::fs;
use std::path::Path;

/// The links of a page that lead to no file, or to no heading of it.
pub(crate) fn broken(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let name = page.strip_prefix(super::workspace()).unwrap().display();
    let is_broken = |target: &&str| !leads_somewhere(page, target);
    targets(&text).filter(is_broken).map(|target| format!("{name}: {target}")).collect()
}

/// Targets between `](` and `)`, without links to the web.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).filter(|target| {
        !target.contains("://") && !target.starts_with("crate::") && !target.contains(' ')
    })
}

fn leads_somewhere(page: &Path, target: &str) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    if heading.is_empty() {
        return path.exists();
    }
    fs::read_to_string(path).is_ok_and(|text| headings(&text).any(|found| found == heading))
}

/// The anchors of a page, as GitHub makes them: lower case, no punctuation, dashes for spaces.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[test]
fn anchors_are_made_as_web_pages_make_them() {
    let found: Vec<String> = headings("# What's `new`?\ntext\n## How it holds a server").collect();
    assert_eq!(found, ["whats-new", "how-it-holds-a-server"]);
}

#[test]
fn links_to_the_web_are_ignored() {
    let text = "[a](b.md#c), [d](https://e.invalid/f), [`g`](crate::g) [h](#i)";
    assert_eq!(targets(text).collect::<Vec<_>>(), ["b.md#c", "#i"]);
}
