//! Reads YAML.
//!
//! Only one document is read. Tagged values, aliases and values with anchors are read as they are written: ostler neither
//! follows nor edits them.

use std::iter::Peekable;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::{DEEPEST, SyntaxError, wrong};
use crate::tree::{Kind, Member, Node};
use crate::value::Value;

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let parser = Parser::new_from_str(text).peekable();
    Reader { text, bytes: byte_offsets(text), events: parser }.document()
}

/// Byte of each character, if characters have different lengths.
fn byte_offsets(text: &str) -> Vec<usize> {
    if text.is_ascii() {
        return Vec::new();
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

struct Reader<'t> {
    text: &'t str,
    bytes: Vec<usize>,
    events: Peekable<Parser<'t, StrInput<'t>>>,
}

impl<'t> Reader<'t> {
    fn document(mut self) -> Result<Node, SyntaxError> {
        let nothing =
            Node { span: self.text.len()..self.text.len(), kind: Kind::Scalar(Value::Null) };
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(wrong(self.text, span.start, "there is more than one document"));
                }
                Event::DocumentStart(_) => {
                    if let Some((event, span)) = self.next()? {
                        root = Some(self.node(event, span, 0)?);
                    }
                }
                _ => return Err(wrong(self.text, span.start, "unexpected content")),
            }
        }
        Ok(root.unwrap_or(nothing))
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Range<usize>)>, SyntaxError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, self.range(span)))),
            Some(Err(error)) => {
                let at = self.byte(error.marker().index());
                Err(wrong(self.text, at, error.info()))
            }
        }
    }

    fn range(&self, span: Span) -> Range<usize> {
        self.byte(span.start.index())..self.byte(span.end.index())
    }

    fn byte(&self, character: usize) -> usize {
        let at = self.bytes.get(character).copied();
        at.unwrap_or(if self.bytes.is_empty() { character } else { self.text.len() })
            .min(self.text.len())
    }

    fn node(
        &mut self,
        event: Event<'t>,
        span: Range<usize>,
        depth: usize,
    ) -> Result<Node, SyntaxError> {
        if depth > DEEPEST {
            return Err(wrong(self.text, span.start, "too many levels"));
        }
        let as_written = |span: &Range<usize>| Value::Other(self.text[span.clone()].to_owned());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = match (anchor, tag) {
                    (0, None) => scalar(&text, style),
                    _ => as_written(&span),
                };
                Ok(Node { span, kind: Kind::Scalar(value) })
            }
            Event::Alias(_) => {
                let value = as_written(&span);
                Ok(Node { span, kind: Kind::Scalar(value) })
            }
            Event::SequenceStart(anchor, tag) => {
                let node = self.sequence(span, depth)?;
                Ok(if anchor == 0 && tag.is_none() { node } else { self.opaque(node) })
            }
            Event::MappingStart(anchor, tag) => {
                let node = self.mapping(span, depth)?;
                Ok(if anchor == 0 && tag.is_none() { node } else { self.opaque(node) })
            }
            _ => Err(wrong(self.text, span.start, "unexpected content")),
        }
    }

    fn sequence(&mut self, span: Range<usize>, depth: usize) -> Result<Node, SyntaxError> {
        let mut items: Vec<Node> = Vec::new();
        loop {
            match self.next()? {
                Some((Event::SequenceEnd, end)) => {
                    let last = items.last().map(|item| item.span.end);
                    let span = self.collection(&span, &end, last);
                    return Ok(Node { span, kind: Kind::Array(items) });
                }
                Some((event, span)) => items.push(self.node(event, span, depth + 1)?),
                None => return Err(wrong(self.text, span.start, "the list does not end")),
            }
        }
    }

    fn mapping(&mut self, span: Range<usize>, depth: usize) -> Result<Node, SyntaxError> {
        let mut members: Vec<Member> = Vec::new();
        loop {
            let (key, key_span) = match self.next()? {
                Some((Event::MappingEnd, end)) => {
                    let last =
                        members.last().map(|member| member.node.span.end.max(member.key_span.end));
                    let span = self.collection(&span, &end, last);
                    return Ok(Node { span, kind: Kind::Object(members) });
                }
                Some((Event::Scalar(key, ..), key_span)) => (key.into_owned(), key_span),
                Some((_, span)) => return Err(wrong(self.text, span.start, "a key is no text")),
                None => return Err(wrong(self.text, span.start, "the mapping does not end")),
            };
            let Some((event, span)) = self.next()? else {
                return Err(wrong(self.text, key_span.start, "the mapping does not end"));
            };
            let node = self.node(event, span, depth + 1)?;
            members.push(Member { key, key_span, node });
        }
    }

    /// A list or mapping that is only kept as it is written.
    fn opaque(&self, node: Node) -> Node {
        let text = self.text[node.span.clone()].to_owned();
        Node { span: node.span, kind: Kind::Scalar(Value::Other(text)) }
    }

    /// The place of a list or mapping: up to its bracket, or up to the end of its last value.
    fn collection(
        &self,
        start: &Range<usize>,
        end: &Range<usize>,
        last: Option<usize>,
    ) -> Range<usize> {
        if self.text[start.start..].starts_with(['{', '[']) {
            return start.start..end.end;
        }
        start.start..last.unwrap_or(start.start).max(start.start)
    }
}

/// The value of a scalar in YAML's core schema.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::String(text.to_owned()),
    }
}

/// Whether a plain scalar is a number.
pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_prefixed = digits.strip_prefix("0x").or(digits.strip_prefix("0o"));
    if let Some(rest) = is_prefixed {
        return !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit());
    }
    let special = digits.eq_ignore_ascii_case(".inf") || text.eq_ignore_ascii_case(".nan");
    let begins = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    special || (begins && digits.parse::<f64>().is_ok())
}
