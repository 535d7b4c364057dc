//! Reads and edits TOML with `toml_edit`.
//!
//! `toml_edit` keeps comments and layout, but writes line breaks of its own. So it edits a text with plain line breaks, and
//! `toml_lines` copies the lines that it did not change from the original.

use toml_edit::{
    Array, ArrayOfTables, Document, DocumentMut, InlineTable, Item, Key, Table, TableLike,
    Value as Toml,
};

use super::toml_lines::{plain, with_original_lines};
use super::{Edit, EditError, SyntaxError, wrong};
use crate::tree::{Kind, Member, Node};
use crate::value::Value;

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(text, at, error.message().lines().next().unwrap_or_default())
    })?;
    Ok(Node { span: 0..text.len(), kind: Kind::Object(members(document.as_table())) })
}

fn members(table: &dyn TableLike) -> Vec<Member> {
    let member = |(key, item): (&str, &Item)| Member {
        key: key.to_owned(),
        key_span: table.key(key).and_then(Key::span).unwrap_or_default(),
        node: node(item),
    };
    table.iter().filter(|(_, item)| !item.is_none()).map(member).collect()
}

fn node(item: &Item) -> Node {
    let span = item.span().unwrap_or_default();
    match item {
        Item::None => Node { span, kind: Kind::Scalar(Value::Null) },
        Item::Value(value) => value_node(value),
        Item::Table(table) => Node { span, kind: Kind::Object(members(table)) },
        Item::ArrayOfTables(tables) => Node { span, kind: Kind::Array(array_of_tables(tables)) },
    }
}

fn array_of_tables(tables: &ArrayOfTables) -> Vec<Node> {
    let node = |table: &Table| {
        let span = table.span().unwrap_or_default();
        Node { span, kind: Kind::Object(members(table)) }
    };
    tables.iter().map(node).collect()
}

fn value_node(value: &Toml) -> Node {
    let kind = match value {
        Toml::String(text) => Kind::Scalar(Value::String(text.value().clone())),
        Toml::Boolean(it) => Kind::Scalar(Value::Bool(*it.value())),
        Toml::Integer(it) => Kind::Scalar(Value::Number(it.value().to_string())),
        Toml::Float(it) => Kind::Scalar(Value::Number(it.value().to_string())),
        Toml::Datetime(it) => Kind::Scalar(Value::Other(it.value().to_string())),
        Toml::Array(items) => Kind::Array(items.iter().map(value_node).collect()),
        Toml::InlineTable(table) => Kind::Object(members(table)),
    };
    Node { span: value.span().unwrap_or_default(), kind }
}

pub(super) fn edit(text: &str, edits: &[Edit<'_>]) -> Result<String, EditError> {
    let original = plain(text);
    let mut document = document(&original)?;
    if document.to_string() != original {
        return Err(EditError::Unsafe);
    }
    for edit in edits {
        let path = edit.path();
        let blocked = || EditError::Blocked(path.to_vec());
        match edit {
            Edit::Set(_, value) => set(document.as_table_mut(), path, value).ok_or_else(blocked)?,
            Edit::Remove(_) => remove(document.as_table_mut(), path),
            Edit::Copy(_, from) => {
                let other = self::document(&plain(from.trim_start_matches(super::BOM)))?;
                copy(document.as_table_mut(), &other, path).ok_or_else(blocked)?;
            }
        }
    }
    Ok(with_original_lines(text, &original, &document.to_string()))
}

fn document(text: &str) -> Result<DocumentMut, EditError> {
    let parsed = text.parse::<DocumentMut>();
    parsed.map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        EditError::Syntax(wrong(text, at, error.message().lines().next().unwrap_or_default()))
    })
}

/// The table that holds the last key of a path; the tables on the way are made.
fn holder<'t>(root: &'t mut Table, path: &[String]) -> Option<&'t mut dyn TableLike> {
    let mut table: &mut dyn TableLike = root;
    for key in path {
        let entry = table.entry(key).or_insert_with(|| {
            let mut new = Table::new();
            new.set_implicit(true);
            Item::Table(new)
        });
        table = entry.as_table_like_mut()?;
    }
    Some(table)
}

fn set(root: &mut Table, path: &[String], value: &Value) -> Option<()> {
    let (key, above) = path.split_last()?;
    let table = holder(root, above)?;
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            let mut new = inline(value)?;
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        Some(_) => return None,
        None => {
            table.insert(key, item(value)?);
        }
    }
    Some(())
}

fn remove(root: &mut Table, path: &[String]) {
    let Some((key, above)) = path.split_last() else { return };
    let mut table: &mut dyn TableLike = root;
    for key in above {
        match table.get_mut(key).and_then(Item::as_table_like_mut) {
            Some(inner) => table = inner,
            None => return,
        }
    }
    table.remove(key);
}

/// Takes an item over, with its comments and layout.
fn copy(root: &mut Table, from: &DocumentMut, path: &[String]) -> Option<()> {
    let (key, above) = path.split_last()?;
    let mut source: &dyn TableLike = from.as_table();
    for key in above {
        source = source.get(key)?.as_table_like()?;
    }
    let (source_key, item) = source.get_key_value(key)?;
    let table = holder(root, above)?;
    *table.entry_format(source_key).or_insert(Item::None) = item.clone();
    Some(())
}

/// An object as a table of its own, with objects below it as well; anything else as a value.
fn item(value: &Value) -> Option<Item> {
    let Value::Object(members) = value else { return inline(value).map(Item::Value) };
    let mut table = Table::new();
    for (key, value) in members {
        table.insert(key, item(value)?);
    }
    Some(Item::Table(table))
}

fn inline(value: &Value) -> Option<Toml> {
    Some(match value {
        Value::Null | Value::Other(_) => return None,
        Value::Bool(it) => Toml::from(*it),
        Value::Number(text) => text
            .parse::<i64>()
            .map(Toml::from)
            .ok()
            .or_else(|| text.parse::<f64>().map(Toml::from).ok())?,
        Value::String(text) => Toml::from(text.as_str()),
        Value::Array(items) => {
            let items: Option<Vec<Toml>> = items.iter().map(inline).collect();
            Toml::Array(items?.into_iter().collect::<Array>())
        }
        Value::Object(members) => {
            let mut table = InlineTable::new();
            for (key, value) in members {
                table.insert(key, inline(value)?);
            }
            Toml::InlineTable(table)
        }
    })
}
