//! Templates: configuration values with environment variables in them.
//!
//! `${VAR}` and `${env:VAR}` stand for a variable, `${VAR:-default}` for a variable with a default that also replaces
//! an empty value, `${workspaceFolder}` for the client's working directory and `${userHome}` for `HOME`; `$${` is a
//! literal `${`. `Template::parse` splits the text once when the file is read; `fill` looks the variables up for each
//! client. Missing variables are collected in the `Filling`, so that one message can name all of them.
//!
//! Placeholders such as `${input:token}`, which only another client can fill in, are accepted by the parser and
//! reported when the template is filled.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::reader::{Reader, Setting};
use crate::environment::Environment;

/// Text with variables that are looked up later. It may hold a secret, so `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable {
        name: String,
        /// Replaces a variable that is not set or empty.
        default: Option<String>,
    },
    /// `${workspaceFolder}`: the client's working directory.
    Folder,
    /// A placeholder that only another client can fill in, such as `${input:token}`.
    Foreign(String),
}

/// Variables for filling in templates, and those that were missing.
#[derive(Debug)]
pub(super) struct Filling<'a> {
    environment: &'a Environment,
    folder: &'a Path,
    /// Variables without a value.
    pub(super) unset: BTreeSet<String>,
    /// Placeholders of other clients.
    pub(super) foreign: BTreeSet<String>,
}

/// Why a text is no valid template.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTemplate {
    /// A `${` without a closing brace.
    #[error("`${{` has no end; a `${{` that is no variable is written as `$${{`")]
    Open,
    /// The text between the braces is no variable name.
    #[error(
        "write ${{NAME}}, ${{NAME:-default}} or ${{env:NAME}}; a `${{` that is no variable is written as `$${{`"
    )]
    Name,
    /// A default contains another variable.
    #[error("a default can't hold another variable")]
    Nested,
}

impl Template {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, InvalidTemplate> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(escaped) = before.strip_suffix('$') {
                literal.push_str(escaped);
                literal.push_str("${");
                rest = &from[2..];
                continue;
            }
            literal.push_str(before);
            let (inner, after) = from[2..].split_once('}').ok_or(InvalidTemplate::Open)?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::parse(inner)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// A template that consists of a prefix and one variable.
    pub(super) fn of_variable(prefix: &str, name: &str) -> Self {
        let variable = Part::Variable { name: name.to_owned(), default: None };
        let prefix = (!prefix.is_empty()).then(|| Part::Literal(prefix.to_owned()));
        Self { parts: prefix.into_iter().chain([variable]).collect() }
    }

    /// Names of the variables in the template.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(name.as_str()),
            Part::Literal(_) | Part::Folder | Part::Foreign(_) => None,
        })
    }

    /// Whether the template contains no variables.
    pub(super) fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// The literal text, without variables.
    pub(super) fn literals(&self) -> String {
        let literal = |part: &Part| match part {
            Part::Literal(text) => Some(text.clone()),
            Part::Variable { .. } | Part::Folder | Part::Foreign(_) => None,
        };
        self.parts.iter().filter_map(literal).collect()
    }

    /// The literal text at the beginning; `None` if a variable comes first.
    pub(super) fn beginning(&self) -> Option<&str> {
        match self.parts.first() {
            Some(Part::Literal(text)) => Some(text),
            Some(_) => None,
            None => Some(""),
        }
    }

    /// Fills in the variables. Missing ones are left out and collected in `filling`.
    pub(super) fn fill(&self, filling: &mut Filling<'_>) -> OsString {
        let mut text = OsString::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push(literal),
                Part::Variable { name, default } => match filling.look_up(name, default.as_deref())
                {
                    Some(value) => text.push(value),
                    None => drop(filling.unset.insert(name.clone())),
                },
                Part::Folder => text.push(filling.folder),
                Part::Foreign(what) => drop(filling.foreign.insert(what.clone())),
            }
        }
        text
    }
}

impl Part {
    /// Parses the text between `${` and `}`.
    fn parse(inner: &str) -> Result<Self, InvalidTemplate> {
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if default.is_some_and(|default| default.contains("${")) {
            return Err(InvalidTemplate::Nested);
        }
        match name {
            "workspaceFolder" if default.is_none() => return Ok(Self::Folder),
            "userHome" if default.is_none() => {
                return Ok(Self::Variable { name: "HOME".to_owned(), default: None });
            }
            _ => {}
        }
        let variable = name.strip_prefix("env:").unwrap_or(name);
        if is_name(variable) {
            let default = default.map(str::to_owned);
            return Ok(Self::Variable { name: variable.to_owned(), default });
        }
        // `${input:token}` or `${command:something}`, which other clients fill in.
        let prefix = name.split_once(':').map(|(prefix, _)| prefix);
        let is_foreign = default.is_none() && prefix.is_some_and(|p| p != "env" && is_name(p));
        if is_foreign { Ok(Self::Foreign(inner.to_owned())) } else { Err(InvalidTemplate::Name) }
    }
}

impl<'a> Filling<'a> {
    pub(super) fn new(environment: &'a Environment, folder: &'a Path) -> Self {
        let (unset, foreign) = (BTreeSet::new(), BTreeSet::new());
        Self { environment, folder, unset, foreign }
    }

    fn look_up<'t>(&self, name: &str, default: Option<&'t str>) -> Option<&'t OsStr>
    where
        'a: 't,
    {
        let found = self.environment.get(name);
        match default {
            Some(default) => found.filter(|value| !value.is_empty()).or(Some(OsStr::new(default))),
            None => found,
        }
    }
}

/// Whether a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

/// The template as the file has it, but without defaults, which may be secret.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(&text.replace("${", "$${")),
            Part::Variable { name, default: None } => write!(f, "${{{name}}}"),
            Part::Variable { name, default: Some(_) } => write!(f, "${{{name}:-…}}"),
            Part::Folder => f.write_str("${workspaceFolder}"),
            Part::Foreign(what) => write!(f, "${{{what}}}"),
        })
    }
}

impl fmt::Debug for Template {
    /// Shows nothing: a template may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(…)")
    }
}

impl Setting for Template {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = String::read(value, reader)?;
        if text.contains('\0') {
            reader.wrong(value.range(), "it holds a NUL, which no process can be given");
            return None;
        }
        Self::parse(&text).map_err(|error| reader.wrong(value.range(), &error.to_string())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let environment: Environment =
            [("A", "1"), ("EMPTY", ""), ("HOME", "/home/u")].into_iter().collect();
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let mut filling = Filling::new(&environment, Path::new("/work"));
        let filled = template.fill(&mut filling);
        let missing: Vec<_> = filling.unset.iter().chain(&filling.foreign).cloned().collect();
        if missing.is_empty() {
            Ok(filled.into_string().unwrap())
        } else {
            Err(format!("missing {}", missing.join(" ")))
        }
    }

    #[test]
    fn variables_are_filled_in() {
        for (text, expected) in [
            ("", ""),
            ("plain $A {A} $", "plain $A {A} $"),
            ("${A}", "1"),
            ("-${env:A}-${A}-", "-1-1-"),
            ("${A:-x}${NONE:-y}${EMPTY:-z}${EMPTY}", "1yz"),
            ("${env:NONE:-a:-b}", "a:-b"),
            ("${NONE:-}", ""),
            ("$${A} $$${A} $A", "${A} $${A} $A"),
            ("${workspaceFolder}/x ${userHome}", "/work/x /home/u"),
        ] {
            assert_eq!(filled(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn every_missing_variable_is_named() {
        assert_eq!(filled("${NONE}${A}${OTHER}"), Err("missing NONE OTHER".to_owned()));
        assert_eq!(filled("${input:token}"), Err("missing input:token".to_owned()));
    }

    #[test]
    fn malformed_templates_are_refused() {
        for text in
            ["${", "a${A", "${}", "${1A}", "${A-x}", "${A B}", "${env:}", "${:-x}", "${A:-${B}}"]
        {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_displayed_template_hides_its_defaults() {
        let template = Template::parse("$${A} ${B} ${env:C:-s3cret} ${input:x}").unwrap();
        assert_eq!(template.to_string(), "$${A} ${B} ${C:-…} ${input:x}");
        assert!(!format!("{template:?}").contains('A'));
    }
}
