//! Previews: what would change in a file, without secrets.
//!
//! Values are masked in both texts before they are compared. Masked are all variables and headers, whatever else the mask of
//! the caller covers, and all texts outside of the servers: a client's file may hold its own credentials.

use std::ops::Range;
use std::time::Duration;

use similar::TextDiff;

use crate::entry::{ENVS, HEADERS};
use crate::format::Format;
use crate::splice::Splices;
use crate::tree::{Kind, Node};
use crate::value::Value;

/// Covers secrets in the words of a command line.
pub type Mask<'m> = &'m dyn Fn(&[String]) -> Vec<String>;

/// Stands for a value that is not shown.
const MASKED: &str = "\"…\"";
/// Unchanged lines that are shown around a change.
const AROUND: usize = 2;
/// Longest time to look for the smallest difference.
const LIMIT: Duration = Duration::from_secs(2);
/// Keys above servers.
const ROOTS: &[&str] = &[
    "mcpServers",
    "servers",
    "context_servers",
    "mcp_servers",
    "mcp.servers",
    "amp.mcpServers",
    "mcp",
    "extensions",
];

/// The difference between two contents of a file, as lines of a unified diff without its header.
pub fn preview(format: Format, before: &str, after: &str, mask: Mask<'_>) -> Vec<String> {
    let (before, after) = (masked(format, before, mask), masked(format, after, mask));
    let diff = TextDiff::configure().timeout(LIMIT).diff_lines(&before, &after);
    let text = diff.unified_diff().context_radius(AROUND).missing_newline_hint(false).to_string();
    text.lines()
        .map(|line| line.trim_end_matches('\r'))
        .map(|line| uncommented(line, mask))
        .collect()
}

/// Masks a line with a comment, which the syntax tree does not have.
fn uncommented(line: &str, mask: Mask<'_>) -> String {
    let has_comment =
        ["//", "/*", "#"].iter().any(|sign| line.contains(sign)) && !line.contains("://");
    if !has_comment {
        return line.to_owned();
    }
    mask(&[line.to_owned()]).pop().unwrap_or_default()
}

/// The text with all secrets masked; nothing of it if it can't be read.
fn masked(format: Format, text: &str, mask: Mask<'_>) -> String {
    let Ok(tree) = format.tree(text) else { return String::new() };
    let mut masking = Masking { mask, splices: Splices::default() };
    masking.node(&tree, None, false);
    masking.splices.apply(text).unwrap_or_default()
}

struct Masking<'m> {
    mask: Mask<'m>,
    splices: Splices,
}

impl Masking<'_> {
    fn node(&mut self, node: &Node, key: Option<&str>, among_servers: bool) {
        match &node.kind {
            Kind::Scalar(Value::String(text)) => self.text(&node.span, key, text, among_servers),
            Kind::Scalar(_) => {}
            Kind::Array(items) => self.list(items, among_servers),
            Kind::Object(members) => {
                let is_secret =
                    key.is_some_and(|key| ENVS.contains(&key) || HEADERS.contains(&key));
                for member in members {
                    let inside = among_servers || ROOTS.contains(&member.key.as_str());
                    match &member.node.kind {
                        Kind::Scalar(Value::String(text)) if is_secret && !is_reference(text) => {
                            self.splices.put(member.node.span.clone(), MASKED);
                        }
                        _ => self.node(&member.node, Some(&member.key), inside),
                    }
                }
            }
        }
    }

    fn text(&mut self, span: &Range<usize>, key: Option<&str>, text: &str, among_servers: bool) {
        if is_reference(text) {
            return;
        }
        // As the value of a switch, so that a key that suggests a secret covers it.
        let words = [format!("--{}", key.unwrap_or_default()), text.to_owned()];
        let shown = (self.mask)(&words).pop();
        if !among_servers || shown.as_deref() != Some(text) {
            self.splices.put(span.clone(), MASKED);
        }
    }

    /// Masks a list as the words of a command line.
    fn list(&mut self, items: &[Node], among_servers: bool) {
        let words = items.iter().map(|item| item.value().as_str().unwrap_or_default().to_owned());
        let words: Vec<String> = words.collect();
        let shown = (self.mask)(&words);
        for ((item, word), shown) in items.iter().zip(&words).zip(&shown) {
            match &item.kind {
                Kind::Scalar(Value::String(_)) if !among_servers || word != shown => {
                    self.splices.put(item.span.clone(), MASKED);
                }
                Kind::Scalar(_) => {}
                _ => self.node(item, None, among_servers),
            }
        }
    }
}

/// Whether a text is only a reference to a variable.
fn is_reference(text: &str) -> bool {
    let inner = text.strip_prefix("${").or_else(|| text.strip_prefix("{env:"));
    let inner = inner.and_then(|inner| inner.strip_suffix('}'));
    inner.is_some_and(|inner| inner.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(words: &[String]) -> Vec<String> {
        let mask =
            |word: &String| if word.contains("s3cret") { "…".to_owned() } else { word.clone() };
        words.iter().map(mask).collect()
    }

    #[test]
    fn a_preview_shows_what_changes_and_no_secret() {
        let before = r#"{
  "oauth": "token-of-the-client",
  "mcpServers": {
    // use s3cret here
    "a": {
      "command": "npx",
      "args": ["-y", "--api-key", "s3cret"],
      "env": { "A": "plain but private", "B": "${B}" }
    }
  },
  "after": "also-private"
}
"#;
        let after = before.replace("npx", "/opt/ostler");
        let lines = preview(Format::Json, before, &after, &plain).join("\n");
        let expected = r#"@@ -4,7 +4,7 @@
…
     "a": {
-      "command": "npx",
+      "command": "/opt/ostler",
       "args": ["-y", "--api-key", "…"],
       "env": { "A": "…", "B": "${B}" }"#;
        assert_eq!(lines, expected.replace("-4,7 +4,7", "-4,5 +4,5"));
        let all = preview(Format::Json, "", before, &plain).join("\n");
        for secret in ["s3cret", "private", "token-of"] {
            assert!(!all.contains(secret), "{all}");
        }
    }

    #[test]
    fn toml_and_yaml_are_masked_as_well() {
        let toml = "key = \"private\"\n[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"s3cret\"]\n[mcp_servers.a.env]\nA = \"private\"\n";
        let yaml = "key: private\nextensions:\n  a:\n    cmd: npx\n    args: [s3cret]\n    envs:\n      A: private\n";
        for (format, text) in [(Format::Toml, toml), (Format::Yaml, yaml)] {
            let shown = preview(format, "", text, &plain).join("\n");
            assert!(shown.contains("npx") && !shown.contains("s3cret"), "{shown}");
            assert!(!shown.contains("private"), "{shown}");
        }
    }
}
