//! The syntax tree that all formats are read into: values with their places in the text.

use std::ops::Range;

use crate::value::Value;

/// A value and the bytes that it is written as.
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    /// Anything but a list and an object.
    Scalar(Value),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// A key and its value.
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) node: Node,
}

/// Where a path leads in a tree.
pub(crate) enum Place<'t> {
    /// To this member of this object.
    Member { parent: &'t Node, index: usize },
    /// To no value: `rest` is missing in this object, or in this empty value.
    Missing { parent: &'t Node, rest: usize },
    /// Through a value that is no object, or through a key that is there twice.
    Blocked,
}

impl Node {
    pub(crate) fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::Array(items) => Value::Array(items.iter().map(Self::value).collect()),
            Kind::Object(members) => Value::object(
                members.iter().map(|member| (member.key.clone(), member.node.value())),
            ),
        }
    }

    /// Follows a path of at least one key.
    pub(crate) fn find(&self, path: &[String]) -> Place<'_> {
        let mut parent = self;
        for (depth, key) in path.iter().enumerate() {
            let missing = Place::Missing { parent, rest: depth };
            match &parent.kind {
                Kind::Object(_) => {}
                Kind::Scalar(Value::Null) => return missing,
                _ => return Place::Blocked,
            }
            let members = parent.members();
            let mut found = members.iter().enumerate().filter(|(_, member)| member.key == *key);
            match (found.next(), found.next()) {
                (None, _) => return missing,
                (Some((index, _)), None) if depth + 1 == path.len() => {
                    return Place::Member { parent, index };
                }
                (Some((_, member)), None) => parent = &member.node,
                (Some(_), Some(_)) => return Place::Blocked,
            }
        }
        Place::Blocked
    }
}

impl Node {
    /// Moves all places.
    pub(crate) fn shift(&mut self, by: usize) {
        let moved = |span: &Range<usize>| span.start + by..span.end + by;
        self.span = moved(&self.span);
        match &mut self.kind {
            Kind::Scalar(_) => {}
            Kind::Array(items) => items.iter_mut().for_each(|item| item.shift(by)),
            Kind::Object(members) => members.iter_mut().for_each(|member| {
                member.key_span = moved(&member.key_span);
                member.node.shift(by);
            }),
        }
    }
}
