//! Edits JSON by byte ranges.
//!
//! Edits are collected per object. A new member takes the place of a removed one if there is one, so that commas and comments
//! stay where they are; otherwise it goes to the end of the object, on a line of its own if the object has several lines.
//! Comments are kept, except those inside of values that are replaced or removed.

use std::collections::BTreeMap;
use std::ops::Range;

use super::json_text::{
    Layout, after_newline, indent, is_blank, line_end, line_start, quoted, rest_of_line,
    significant,
};
use super::{Edit, EditError, Format, json};
use crate::splice::Splices;
use crate::tree::{Kind, Node, Place};
use crate::value::Value;

/// A value to write.
enum Content {
    Value(Value),
    /// Text from another file.
    Text(String),
}

/// All changes of one object.
#[derive(Default)]
struct Changes {
    replaced: Vec<(usize, Content)>,
    removed: Vec<usize>,
    added: Vec<(String, Content)>,
}

struct Editor<'t> {
    text: &'t str,
    layout: Layout,
    /// Changes by the place of their object.
    changes: BTreeMap<usize, (&'t Node, Changes)>,
    splices: Splices,
}

pub(super) fn edit(text: &str, format: Format, edits: &[Edit<'_>]) -> Result<String, EditError> {
    let root = json::parse(text, format)?;
    let layout = Layout::of(text, &root);
    if matches!(root.kind, Kind::Scalar(Value::Null)) {
        return whole(text, &layout, edits);
    }
    let mut editor = Editor { text, layout, changes: BTreeMap::new(), splices: Splices::default() };
    for edit in edits {
        editor.plan(&root, format, edit)?;
    }
    for (node, changes) in std::mem::take(&mut editor.changes).into_values() {
        editor.object(node, changes);
    }
    editor.splices.apply(text).ok_or(EditError::Unsafe)
}

/// The text of a file that had no value.
fn whole(text: &str, layout: &Layout, edits: &[Edit<'_>]) -> Result<String, EditError> {
    let mut value = Value::Object(Vec::new());
    for edit in edits {
        match edit {
            Edit::Set(path, new) => {
                value.set(path, new.clone());
            }
            Edit::Remove(_) => {}
            Edit::Copy(path, _) => return Err(EditError::Unknown(path.clone())),
        }
    }
    let before = if text.trim() == "null" { "" } else { text.trim_end() };
    let gap = if before.is_empty() { "" } else { layout.newline };
    Ok(format!("{before}{gap}{}{}", layout.write(&value, Some("")), layout.newline))
}

impl<'t> Editor<'t> {
    fn plan(&mut self, root: &'t Node, format: Format, edit: &Edit<'_>) -> Result<(), EditError> {
        let path = edit.path();
        let content = match edit {
            Edit::Set(_, value) => Some(Content::Value(value.clone())),
            Edit::Remove(_) => None,
            Edit::Copy(_, from) => Some(copied(from, format, path)?),
        };
        match (root.find(path), content) {
            (Place::Member { parent, index }, Some(content)) => {
                self.of(parent).replaced.push((index, content));
            }
            (Place::Member { parent, index }, None) => self.of(parent).removed.push(index),
            (Place::Missing { parent, rest }, Some(content)) => {
                let (key, below) = (&path[rest], &path[rest + 1..]);
                let added = &mut self.of(parent).added;
                add(added, key, below, content).ok_or_else(|| EditError::Unknown(path.to_vec()))?;
            }
            (Place::Missing { .. }, None) => {}
            (Place::Blocked, _) => return Err(EditError::Blocked(path.to_vec())),
        }
        Ok(())
    }

    fn of(&mut self, node: &'t Node) -> &mut Changes {
        &mut self.changes.entry(node.span.start).or_insert_with(|| (node, Changes::default())).1
    }

    fn object(&mut self, node: &Node, mut changes: Changes) {
        let members = node.members();
        for (index, content) in changes.replaced {
            let (key, span) = (members[index].key_span.start, members[index].node.span.clone());
            let text = self.written(content, indent(self.text, key));
            self.splices.put(span, text);
        }
        changes.removed.sort_unstable();
        let shared = changes.removed.len().min(changes.added.len());
        let rest = changes.added.split_off(shared);
        for (index, (key, content)) in changes.removed.drain(..shared).zip(changes.added) {
            let member = &members[index];
            let value = self.written(content, indent(self.text, member.key_span.start));
            let span = member.key_span.start..member.node.span.end;
            self.splices.put(span, format!("{}: {value}", quoted(&key)));
        }
        if !changes.removed.is_empty() {
            self.remove(node, &changes.removed);
        }
        if !rest.is_empty() {
            self.append(node, rest);
        }
    }

    fn written(&self, content: Content, indent: Option<&str>) -> String {
        match content {
            Content::Value(value) => self.layout.write(&value, indent),
            Content::Text(text) => text,
        }
    }

    /// Adds members at the end of an object, or of `null`.
    fn append(&mut self, node: &Node, added: Vec<(String, Content)>) {
        let Some(last) = node.members().last() else { return self.fill(node, added) };
        let text = self.text;
        let end = last.node.span.end;
        let next = significant(text, end);
        let has_comma = text[next..].starts_with(',');
        if !has_comma {
            self.splices.put(end..end, ",");
        }
        let after = if has_comma { next + 1 } else { end };
        let first = &node.members()[0];
        let inner = indent(text, first.key_span.start);
        let at = inner.and_then(|_| rest_of_line(text, after)).unwrap_or(after);
        let newline =
            inner.map_or(" ".to_owned(), |inner| format!("{}{inner}", self.layout.newline));
        let mut new = String::new();
        let count = added.len();
        for (number, (key, content)) in added.into_iter().enumerate() {
            let comma = if has_comma || number + 1 < count { "," } else { "" };
            let value = self.written(content, inner);
            new.extend([&*newline, &quoted(&key), ": ", &value, comma]);
        }
        self.splices.put(at..at, new);
    }

    /// Adds members to an object that has none, or puts an object in the place of `null`.
    fn fill(&mut self, node: &Node, added: Vec<(String, Content)>) {
        let text = self.text;
        let line = &text[line_start(text, node.span.start)..node.span.start];
        let outer = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let inner = format!("{outer}{}", self.layout.unit);
        let newline = self.layout.newline;
        let members: Vec<String> = added
            .into_iter()
            .map(|(key, content)| {
                format!("{}: {}", quoted(&key), self.written(content, Some(&inner)))
            })
            .collect();
        let members = members.join(&format!(",{newline}{inner}"));
        let is_object = matches!(node.kind, Kind::Object(_));
        let inside = if is_object { &text[node.span.start + 1..node.span.end - 1] } else { "" };
        if inside.trim().is_empty() {
            let filled = format!("{{{newline}{inner}{members}{newline}{outer}}}");
            return self.splices.put(node.span.clone(), filled);
        }
        // There are only comments in it.
        let at = node.span.start + 1 + inside.trim_end().len();
        self.splices.put(at..at, format!("{newline}{inner}{members}"));
        if is_blank(&text[at..node.span.end - 1]) {
            self.splices.put(node.span.end - 1..node.span.end - 1, format!("{newline}{outer}"));
        }
    }

    /// Removes members, with the commas that separate them and the lines that are empty then.
    fn remove(&mut self, node: &Node, removed: &[usize]) {
        let members = node.members();
        let comma = |index: usize| {
            let at = significant(self.text, members[index].node.span.end);
            self.text[at..].starts_with(',').then_some(at)
        };
        let mut cuts: Vec<Range<usize>> = Vec::new();
        for index in removed {
            let member = &members[*index];
            let span = member.key_span.start..member.node.span.end;
            let comma = comma(*index);
            match comma {
                Some(at) if is_blank(&self.text[span.end..at]) => cuts.push(span.start..at + 1),
                Some(at) => cuts.extend([span, at..at + 1]),
                None => cuts.push(span),
            }
        }
        let is_kept = |index: &usize| removed.binary_search(index).is_err();
        let last_kept = (0..members.len()).rev().find(is_kept);
        let ends_bare = members.len().checked_sub(1).is_some_and(|last| comma(last).is_none());
        if let Some(kept) = last_kept.filter(|kept| ends_bare && kept + 1 < members.len()) {
            cuts.extend(comma(kept).map(|at| at..at + 1));
        }
        cuts.sort_by_key(|cut| cut.start);
        for cut in merged(self.text, cuts) {
            self.splices.cut(cut);
        }
    }
}

/// Adds a member below further keys to a list of members; `None` if something else is there already.
fn add(
    added: &mut Vec<(String, Content)>,
    key: &str,
    below: &[String],
    content: Content,
) -> Option<()> {
    let at = added.iter().position(|(name, _)| name == key);
    match (at, content) {
        (None, content) if below.is_empty() => added.push((key.to_owned(), content)),
        (None, Content::Value(new)) => {
            let mut value = Value::Object(Vec::new());
            value.set(below, new);
            added.push((key.to_owned(), Content::Value(value)));
        }
        (Some(at), Content::Value(new)) => match &mut added[at].1 {
            Content::Value(value) => return value.set(below, new).then_some(()),
            Content::Text(_) => return None,
        },
        (_, Content::Text(_)) => return None,
    }
    Some(())
}

/// The text of a value in another file.
fn copied(from: &str, format: Format, path: &[String]) -> Result<Content, EditError> {
    match format.tree(from)?.find(path) {
        Place::Member { parent, index } => {
            Ok(Content::Text(from[parent.members()[index].node.span.clone()].to_owned()))
        }
        _ => Err(EditError::Blocked(path.to_vec())),
    }
}

/// Joins neighbouring cuts, and extends each to whole lines, or to the white space after it.
fn merged(text: &str, cuts: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for cut in cuts {
        match joined.last_mut() {
            Some(last) if text[last.end..cut.start].trim().is_empty() => last.end = cut.end,
            _ => joined.push(cut),
        }
    }
    joined.into_iter().map(|cut| extended(text, cut)).collect()
}

fn extended(text: &str, cut: Range<usize>) -> Range<usize> {
    let (start, end) = (line_start(text, cut.start), line_end(text, cut.end));
    let before = is_blank(&text[start..cut.start]);
    let after = is_blank(&text[cut.end..end]);
    match (before, after) {
        (true, true) if start > 0 => start..after_newline(text, end),
        _ if after || !text[..cut.start].ends_with([' ', '\t']) => cut,
        _ => {
            let rest = &text[cut.end..];
            cut.start..text.len() - rest.trim_start_matches([' ', '\t']).len()
        }
    }
}
