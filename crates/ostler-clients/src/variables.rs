//! Variables in the values of clients, translated into ostler's: `${NAME}`, `${NAME:-default}`, `${workspaceFolder}` and
//! `${userHome}`; `$${` is a literal `${`.

use std::collections::BTreeSet;

use crate::clients::Variables;

/// A placeholder that only the client can fill in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("only the client can fill in {0}")]
pub struct Foreign(pub String);

/// Names that mean the same to editors and to ostler.
const SHARED: &[&str] = &["workspaceFolder", "userHome"];

/// A value in ostler's words, and the variables in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translated {
    pub(crate) text: String,
    /// Names, each with whether a default replaces it.
    pub(crate) names: BTreeSet<(String, bool)>,
}

impl Variables {
    /// Translates a value.
    pub(crate) fn translate(self, text: &str) -> Result<Translated, Foreign> {
        let mut result =
            Translated { text: String::with_capacity(text.len()), names: BTreeSet::new() };
        let mut rest = text;
        while self != Self::Ostler
            && let Some(at) = rest.find(['$', '{'])
        {
            result.text.push_str(&rest[..at]);
            rest = &rest[at..];
            rest = &rest[self.step(rest, &mut result)?..];
        }
        result.text.push_str(rest);
        Ok(result)
    }

    /// Translates what begins with `$` or `{`. Returns its length.
    fn step(self, rest: &str, result: &mut Translated) -> Result<usize, Foreign> {
        let inner = |open: &str| {
            let inner = rest.strip_prefix(open)?.split_once('}')?.0;
            Some((inner, open.len() + inner.len() + 1))
        };
        match self {
            Self::Literal | Self::Ostler => {}
            Self::Curly => {
                if let Some((inner, length)) = inner("{env:") {
                    // The client leaves out a variable that is not set.
                    result.variable(inner, Some(""));
                    return Ok(length);
                }
                if let Some((_, length)) = inner("{file:") {
                    return Err(Foreign(rest[..length].to_owned()));
                }
            }
            Self::Braces | Self::Editor | Self::Shell => {
                if let Some((inner, length)) = inner("${") {
                    return self.braces(inner, &rest[..length], result).map(|()| length);
                }
            }
        }
        if self == Self::Shell {
            if rest.starts_with("$(") {
                return Err(Foreign("$(…)".to_owned()));
            }
            let name = rest.strip_prefix('$').map_or("", |rest| &rest[..name_length(rest)]);
            if !name.is_empty() {
                result.variable(name, None);
                return Ok(1 + name.len());
            }
        }
        let literal = if rest.starts_with("${") { ("$${", 2) } else { (&rest[..1], 1) };
        result.text.push_str(literal.0);
        Ok(literal.1)
    }

    fn braces(self, inner: &str, whole: &str, result: &mut Translated) -> Result<(), Foreign> {
        let foreign = || Foreign(whole.to_owned());
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if SHARED.contains(&name) && default.is_none() {
            result.text.push_str(whole);
            return Ok(());
        }
        let variable = match name.strip_prefix("env:") {
            Some(variable) => variable,
            // Editors have further words of their own, such as `${pathSeparator}`.
            None if self == Self::Editor && name.starts_with(|c: char| c.is_ascii_lowercase()) => {
                return Err(foreign());
            }
            None => name,
        };
        if variable.is_empty() || name_length(variable) != variable.len() {
            return Err(foreign());
        }
        result.variable(variable, default);
        Ok(())
    }

    /// How an entry passes a variable on; `None` if the client passes on names, or fills in nothing.
    pub(crate) fn reference(self, name: &str, has_default: bool) -> Option<String> {
        match self {
            Self::Literal | Self::Ostler => None,
            Self::Braces if has_default => Some(format!("${{{name}:-}}")),
            Self::Braces | Self::Shell => Some(format!("${{{name}}}")),
            Self::Editor => Some(format!("${{env:{name}}}")),
            Self::Curly => Some(format!("{{env:{name}}}")),
        }
    }
}

impl Translated {
    fn variable(&mut self, name: &str, default: Option<&str>) {
        let default_text = default.map_or(String::new(), |default| format!(":-{default}"));
        self.text.extend(["${", name, &default_text, "}"]);
        self.names.insert((name.to_owned(), default.is_some()));
    }
}

/// Length of the variable's name that a text begins with.
fn name_length(text: &str) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clients_variables_become_ostlers() {
        use Variables::{Braces, Curly, Editor, Literal, Shell};
        for (variables, text, expected) in [
            (Literal, "a ${B} $C {d}", "a $${B} $C {d}"),
            (Braces, "a ${B} $C ${D:-e}", "a ${B} $C ${D:-e}"),
            (Braces, "${", "$${"),
            (
                Editor,
                "${env:B}/${workspaceFolder}/${userHome}",
                "${B}/${workspaceFolder}/${userHome}",
            ),
            (Editor, "${TOKEN}", "${TOKEN}"),
            (Shell, "a $B ${C} $ $1 $$", "a ${B} ${C} $ $1 $$"),
            (Curly, "Bearer {env:B} {x} ${C}", "Bearer ${B:-} {x} $${C}"),
        ] {
            assert_eq!(variables.translate(text).unwrap().text, expected, "{text}");
        }
    }

    #[test]
    fn placeholders_that_only_the_client_knows_are_named() {
        use Variables::{Braces, Curly, Editor, Shell};
        for (variables, text, expected) in [
            (Editor, "x${input:token}", "${input:token}"),
            (Editor, "${pathSeparator}", "${pathSeparator}"),
            (Braces, "${A B}", "${A B}"),
            (Shell, "$(op read secret)", "$(…)"),
            (Curly, "{file:~/.token}", "{file:~/.token}"),
        ] {
            assert_eq!(variables.translate(text), Err(Foreign(expected.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_names_of_variables_are_known() {
        let found = Variables::Shell.translate("$A ${B} $A ${C:-d}").unwrap().names;
        assert_eq!(
            found,
            [("A", false), ("B", false), ("C", true)].map(|(n, d)| (n.to_owned(), d)).into()
        );
    }
}
