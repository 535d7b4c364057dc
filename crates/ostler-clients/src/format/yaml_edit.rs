//! Edits YAML by lines.
//!
//! Members of a block mapping are replaced, removed and added as whole lines, those of a mapping in braces by writing the
//! mapping anew. Keys that do not begin their line, and mappings in braces with comments, are refused.

use std::collections::BTreeMap;
use std::ops::Range;

use super::json_text::{after_newline, indent, line_end, line_start};
use super::yaml_text::{Layout, flow};
use super::{Edit, EditError, Format, newline, yaml};
use crate::splice::Splices;
use crate::tree::{Kind, Member, Node, Place};
use crate::value::Value;

/// White space of one level where no neighbour shows one.
const UNIT: &str = "  ";

/// What becomes of a member, or what is added.
enum Change {
    Replace(usize, Value),
    /// Replaces a member by lines of another file, or adds them.
    Lines(Option<usize>, String),
    Remove(usize),
    Add(Vec<String>, Value),
}

struct Editor<'t> {
    text: &'t str,
    newline: &'static str,
    splices: Splices,
}

pub(super) fn edit(text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    let root = yaml::parse(text)?;
    let mut groups: BTreeMap<usize, (&Node, Vec<Change>)> = BTreeMap::new();
    for edit in edits {
        if let Some((parent, change)) = plan(text, &root, edit)? {
            groups.entry(parent.span.start).or_insert_with(|| (parent, Vec::new())).1.push(change);
        }
    }
    let mut editor = Editor { text, newline: newline(text), splices: Splices::default() };
    for (node, changes) in groups.into_values() {
        editor.mapping(&root, node, changes).ok_or_else(|| unknown(edits))?;
    }
    editor.splices.apply(text).ok_or(EditError::Unsafe)
}

fn unknown(edits: &[Edit<'_>]) -> EditError {
    let path = edits.first().map(|edit| edit.path().to_vec()).unwrap_or_default();
    EditError::Unknown(path[..path.len().min(2)].to_vec())
}

fn plan<'t>(
    text: &str,
    root: &'t Node,
    edit: &Edit<'_>,
) -> Result<Option<(&'t Node, Change)>, EditError> {
    let path = edit.path();
    let change = match (root.find(path), edit) {
        (Place::Blocked, _) => return Err(EditError::Blocked(path.to_vec())),
        (Place::Member { parent, index }, Edit::Set(_, value)) => {
            (parent, Change::Replace(index, value.clone()))
        }
        (Place::Member { parent, index }, Edit::Remove(_)) => (parent, Change::Remove(index)),
        (Place::Member { parent, index }, Edit::Copy(_, from)) => {
            let own = indent(text, parent.members()[index].key_span.start);
            (parent, copied(from, path, own, Some(index))?)
        }
        (Place::Missing { .. }, Edit::Remove(_)) => return Ok(None),
        (Place::Missing { parent, rest }, Edit::Set(_, value)) => {
            (parent, Change::Add(path[rest..].to_vec(), value.clone()))
        }
        (Place::Missing { parent, rest }, Edit::Copy(_, from)) => {
            let first = parent.members().first();
            let own = first.and_then(|first| indent(text, first.key_span.start));
            match copied(from, path, own, None)? {
                Change::Add(_, value) => (parent, Change::Add(path[rest..].to_vec(), value)),
                change if rest + 1 == path.len() => (parent, change),
                _ => return Err(EditError::Unknown(path.to_vec())),
            }
        }
    };
    Ok(Some(change))
}

/// The lines of a member in another file if they are indented as here, and else its value.
fn copied(
    from: &str,
    path: &[String],
    own: Option<&str>,
    index: Option<usize>,
) -> Result<Change, EditError> {
    let tree = Format::Yaml.tree(from)?;
    let Place::Member { parent, index: at } = tree.find(path) else {
        return Err(EditError::Blocked(path.to_vec()));
    };
    let member = &parent.members()[at];
    let there = indent(from, member.key_span.start);
    Ok(match (there, own) {
        (Some(there), Some(own)) if there == own => {
            let lines = lines_of(from, member);
            Change::Lines(index, from[lines].trim_end_matches(['\n', '\r']).to_owned())
        }
        _ => match index {
            Some(index) => Change::Replace(index, member.node.value()),
            None => Change::Add(Vec::new(), member.node.value()),
        },
    })
}

impl Editor<'_> {
    /// Applies the changes of one mapping; `None` if it is written in a way that is not edited.
    fn mapping(&mut self, root: &Node, node: &Node, changes: Vec<Change>) -> Option<()> {
        match &node.kind {
            Kind::Scalar(_) => self.fill(root, node, changes),
            Kind::Object(_) if self.text[node.span.clone()].starts_with('{') => {
                self.rewrite(node, changes)
            }
            _ => self.block(node, changes),
        }
    }

    fn block(&mut self, node: &Node, changes: Vec<Change>) -> Option<()> {
        let members = node.members();
        let own = indent(self.text, members.first()?.key_span.start)?;
        let layout = Layout { unit: unit(self.text, members, own), newline: self.newline };
        let (mut added, mut removed) = (String::new(), Vec::new());
        let mut new = Value::Object(Vec::new());
        for change in changes {
            match change {
                Change::Replace(index, value) => self.replace(&members[index], &value)?,
                Change::Remove(index) => {
                    indent(self.text, members[index].key_span.start)?;
                    removed.push(lines_of(self.text, &members[index]));
                }
                Change::Lines(Some(index), lines) => {
                    let range = lines_of(self.text, &members[index]);
                    let ends_bare = !self.text[range.clone()].ends_with('\n');
                    let newline = if ends_bare { "" } else { self.newline };
                    self.splices.put(range, format!("{lines}{newline}"));
                }
                Change::Lines(None, lines) => added.extend([lines.as_str(), self.newline]),
                Change::Add(path, value) => {
                    new.set(&path, value).then_some(())?;
                }
            }
        }
        for (key, value) in new.members() {
            added.push_str(&layout.member(key, value, own));
        }
        if !added.is_empty() {
            let end = lines_of(self.text, members.last()?).end;
            let is_open = end > 0 && !self.text[..end].ends_with('\n');
            // A file whose last line has no line break keeps it so.
            let added =
                if is_open { format!("{}{}", self.newline, added.trim_end()) } else { added };
            self.splices.put(end..end, added);
        } else if removed.len() == members.len() {
            // A key without a value would be `null`.
            let before = self.text[..node.span.start].trim_end();
            if before.ends_with(':') {
                self.splices.put(before.len()..before.len(), " {}");
            }
        }
        self.cut(removed);
        Some(())
    }

    /// Removes lines. The last line of the file keeps having no line break.
    fn cut(&mut self, mut lines: Vec<Range<usize>>) {
        lines.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in lines {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        for mut range in joined {
            if range.end == self.text.len() && !self.text.ends_with('\n') {
                let before = &self.text[..range.start];
                let before = before.strip_suffix('\n').unwrap_or(before);
                range.start = before.strip_suffix('\r').unwrap_or(before).len();
            }
            self.splices.cut(range);
        }
    }

    /// Replaces a value, and keeps its key.
    fn replace(&mut self, member: &Member, value: &Value) -> Option<()> {
        let colon = colon(self.text, member)?;
        let end = content_end(self.text, member)?;
        let written = flow(value);
        let is_inline = member.node.span.start > colon
            && !self.text[colon..member.node.span.start].contains('\n')
            && !self.text[member.node.span.start..].starts_with(['|', '>'])
            && !member.node.span.is_empty();
        let start = if is_inline { member.node.span.start } else { colon };
        let gap = if is_inline { "" } else { " " };
        self.splices.put(start..end, format!("{gap}{written}"));
        Some(())
    }

    /// Writes a mapping in braces anew.
    fn rewrite(&mut self, node: &Node, changes: Vec<Change>) -> Option<()> {
        let text = &self.text[node.span.clone()];
        if text.contains('#') || text.contains(['&', '*', '!']) {
            return None;
        }
        let mut value = node.value();
        for change in changes {
            let key = |index: usize| vec![node.members()[index].key.clone()];
            match change {
                Change::Replace(index, new) => value.set(&key(index), new),
                Change::Remove(index) => value.remove(&key(index)),
                Change::Add(path, new) => value.set(&path, new),
                Change::Lines(..) => return None,
            }
            .then_some(())?;
        }
        self.splices.put(node.span.clone(), flow(&value));
        Some(())
    }

    /// Puts members where there is nothing: into an empty file, or after a key without a value.
    fn fill(&mut self, root: &Node, node: &Node, changes: Vec<Change>) -> Option<()> {
        let mut new = Value::Object(Vec::new());
        for change in changes {
            let Change::Add(path, value) = change else { return None };
            new.set(&path, value).then_some(())?;
        }
        if !std::ptr::eq(root, node) {
            let colon = colon(self.text, holder(root, node)?)?;
            let (span, gap) =
                if node.span.is_empty() { (colon..colon, " ") } else { (node.span.clone(), "") };
            self.splices.put(span, format!("{gap}{}", flow(&new)));
            return Some(());
        }
        let layout = Layout { unit: UNIT, newline: self.newline };
        let lines = new.members().iter().map(|(key, value)| layout.member(key, value, ""));
        let gap = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { self.newline };
        let added = format!("{gap}{}", lines.collect::<String>());
        self.splices.put(self.text.len()..self.text.len(), added);
        Some(())
    }
}

/// The member below `root` whose value is this node.
fn holder<'t>(root: &'t Node, node: &Node) -> Option<&'t Member> {
    let is_it = |member: &&Member| std::ptr::eq(&raw const member.node, node);
    let deeper = || root.members().iter().find_map(|member| holder(&member.node, node));
    root.members().iter().find(is_it).or_else(deeper)
}

/// White space of one level: that of the first neighbour with members of its own.
fn unit<'t>(text: &'t str, members: &[Member], own: &str) -> &'t str {
    let inner = |member: &Member| {
        let first = member.node.members().first()?.key_span.start;
        indent(text, first)?.strip_prefix(own).filter(|unit| !unit.is_empty())
    };
    members.iter().find_map(inner).unwrap_or(UNIT)
}

/// After the colon of a member.
fn colon(text: &str, member: &Member) -> Option<usize> {
    let rest = text[member.key_span.end..].trim_start_matches([' ', '\t']);
    rest.starts_with(':').then(|| text.len() - rest.len() + 1)
}

/// The end of a member's value, without the white space after it.
fn content_end(text: &str, member: &Member) -> Option<usize> {
    let colon = colon(text, member)?;
    let end = member.node.span.end.max(colon);
    Some(text[..end].trim_end().len().max(colon))
}

/// The lines of a member, with the last line break.
fn lines_of(text: &str, member: &Member) -> Range<usize> {
    let start = line_start(text, member.key_span.start);
    let end = content_end(text, member).unwrap_or(member.node.span.end);
    start..after_newline(text, line_end(text, end))
}
