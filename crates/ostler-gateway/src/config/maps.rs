//! Maps of variables and of headers, with checked names.

use std::collections::BTreeMap;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use schemars::JsonSchema;

use super::reader::{Reader, Setting, name_of};
use super::template::{Template, is_name};

/// Variables by name.
#[derive(Debug, Default, JsonSchema)]
#[schemars(transparent, inline)]
pub(super) struct Variables(pub(super) BTreeMap<String, Template>);

/// Headers by name.
#[derive(Debug, Default, JsonSchema)]
#[schemars(transparent, inline)]
pub(super) struct Headers(pub(super) BTreeMap<String, Template>);

impl Setting for Variables {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let is_variable = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        read(value, reader, is_variable, "no variable can have that name").map(Self)
    }
}

impl Setting for Headers {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_header = |name: &str| !name.is_empty() && name.chars().all(is_token);
        read(value, reader, is_header, "no header can have that name").map(Self)
    }
}

fn read(
    value: &Value<'_>,
    reader: &mut Reader<'_>,
    is_valid: impl Fn(&str) -> bool,
    complaint: &str,
) -> Option<BTreeMap<String, Template>> {
    let read = reader.properties(value)?.into_iter().filter_map(|property| {
        let name = name_of(property);
        if !is_valid(name) {
            // A name that contains `=` may contain a secret by mistake, so it is not shown.
            reader.wrong(property.name.range(), complaint);
            return None;
        }
        reader.within(name, |reader| {
            warn_of_shell_words(property, reader);
            Some((name.to_owned(), Template::read(&property.value, reader)?))
        })
    });
    Some(read.collect())
}

/// Adds a notice for `$VAR`: some clients expand it, but ostler and most others pass it on unchanged.
fn warn_of_shell_words(property: &ObjectProp<'_>, reader: &mut Reader<'_>) {
    let Value::StringLit(text) = &property.value else { return };
    if text.value.strip_prefix('$').is_some_and(is_name) {
        let message = "passed on as it is; a variable is written as ${NAME}";
        reader.notice(property.name.range(), message);
    }
}
