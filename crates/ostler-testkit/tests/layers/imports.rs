//! Which modules of its crate a source file names: `crate::…`, `super::…` and `self::…`, in `use`
//! declarations, in code and inside macros. Code for tests only is left out.

use std::slice::Iter;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

/// A path from the root of a crate: `["front", "http", "Limits"]`.
pub(crate) type Path = Vec<String>;

/// One name that a file uses, as a path from the root of its crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: Path,
    /// The local name of the path: the name after `as`, or its last word.
    pub(crate) name: String,
}

/// Module declarations and imports of a source file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) imports: Vec<Import>,
    /// Modules that are declared here, but compiled for tests only.
    pub(crate) for_tests: Vec<Path>,
    /// Modules that are declared here.
    pub(crate) modules: Vec<Path>,
}

type Tokens<'a> = Iter<'a, TokenTree>;

/// Reads the source of a module, which is at `module` in its crate.
pub(crate) fn read(source: &str, module: &[String]) -> Result<Source, LexError> {
    let mut reader = Reader { module: module.to_vec(), source: Source::default() };
    reader.block(TokenStream::from_str(source)?);
    Ok(reader.source)
}

struct Reader {
    /// The module that the reader is in.
    module: Path,
    source: Source,
}

impl Reader {
    fn block(&mut self, block: TokenStream) {
        let block: Vec<_> = block.into_iter().collect();
        let mut tokens = block.iter();
        let mut for_tests = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    for_tests |= is_for_tests(&mut tokens);
                    continue;
                }
                TokenTree::Ident(word) if word == "mod" => self.declaration(&mut tokens, for_tests),
                _ if for_tests => skip_item(token, &mut tokens),
                TokenTree::Ident(word) if word == "use" => self.used(&mut tokens),
                TokenTree::Ident(_) => self.path(token, &mut tokens),
                TokenTree::Group(group) => self.block(group.stream()),
                _ => {}
            }
            for_tests = false;
        }
    }

    /// Reads the item after `mod`: a name, and the module itself or a semicolon.
    fn declaration(&mut self, tokens: &mut Tokens<'_>, for_tests: bool) {
        let Some(TokenTree::Ident(name)) = tokens.next() else {
            return;
        };
        self.module.push(name.to_string());
        self.source.modules.push(self.module.clone());
        if for_tests {
            self.source.for_tests.push(self.module.clone());
        }
        if let Some(TokenTree::Group(inside)) = tokens.next()
            && !for_tests
        {
            self.block(inside.stream());
        }
        self.module.pop();
    }

    /// Reads the path after `use`. In the root of a crate it may begin with one of its modules.
    fn used(&mut self, tokens: &mut Tokens<'_>) {
        let Some(first) = tokens.next() else { return };
        if let TokenTree::Ident(word) = first
            && self.module.is_empty()
            && !is_base(&word.to_string())
        {
            let base = vec![word.to_string()];
            self.rest(base, first, tokens);
        } else {
            self.path(first, tokens);
        }
    }

    /// A path, if the token begins one in this crate.
    fn path(&mut self, first: &TokenTree, tokens: &mut Tokens<'_>) {
        let mut base = match first.to_string().as_str() {
            "crate" => Path::new(),
            "self" => self.module.clone(),
            "super" => self.parent(),
            _ => return,
        };
        if !at_path_separator(tokens) {
            return;
        }
        while at_path_separator(tokens) {
            let mut ahead = tokens.clone();
            skip_separator(&mut ahead);
            if ahead.next().is_some_and(|token| token.to_string() == "super") {
                base.pop();
                *tokens = ahead;
            } else {
                break;
            }
        }
        self.rest(base, first, tokens);
    }

    fn parent(&self) -> Path {
        let mut parent = self.module.clone();
        parent.pop();
        parent
    }

    /// The rest of a path that has begun with `base`.
    fn rest(&mut self, mut base: Path, first: &TokenTree, tokens: &mut Tokens<'_>) {
        let mut last = first;
        while at_path_separator(tokens) {
            skip_separator(tokens);
            match tokens.as_slice().first() {
                Some(token @ TokenTree::Ident(word)) => {
                    if word != "self" {
                        base.push(word.to_string());
                    }
                    last = token;
                    tokens.next();
                }
                Some(TokenTree::Group(several)) if several.delimiter() == Delimiter::Brace => {
                    tokens.next();
                    self.several(&base, several);
                    return;
                }
                _ => break,
            }
        }
        let mut name = base.last().cloned().unwrap_or_default();
        if matches!(tokens.as_slice(), [TokenTree::Ident(word), ..] if word == "as") {
            tokens.next();
            if let Some(TokenTree::Ident(word)) = tokens.next() {
                name = word.to_string();
            }
        }
        self.source.imports.push(Import { line: last.span().start().line, path: base, name });
    }

    /// `base::{a, b::c}`
    fn several(&mut self, base: &[String], several: &Group) {
        let several: Vec<_> = several.stream().into_iter().collect();
        let mut tokens = several.iter();
        while let Some(first) = tokens.next() {
            let TokenTree::Ident(word) = first else {
                continue;
            };
            let mut path = base.to_vec();
            if word != "self" {
                path.push(word.to_string());
            }
            self.rest(path, first, &mut tokens);
        }
    }
}

fn is_base(word: &str) -> bool {
    matches!(word, "crate" | "self" | "super")
}

/// Whether `::` comes next.
fn at_path_separator(tokens: &Tokens<'_>) -> bool {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    matches!(tokens.as_slice(), [one, other, ..] if is_colon(one) && is_colon(other))
}

fn skip_separator(tokens: &mut Tokens<'_>) {
    tokens.next();
    tokens.next();
}

/// Reads an attribute behind its `#`, and says whether it leaves out all but tests: `cfg(test)`, or
/// `cfg(all(test, …))`.
fn is_for_tests(tokens: &mut Tokens<'_>) -> bool {
    if matches!(tokens.as_slice(), [TokenTree::Punct(mark), ..] if mark.as_char() == '!') {
        tokens.next();
    }
    let [TokenTree::Group(group), ..] = tokens.as_slice() else {
        return false;
    };
    tokens.next();
    let attribute: String = group.to_string().split_whitespace().collect();
    attribute == "[cfg(test)]" || attribute.starts_with("[cfg(all(test,")
}

/// Passes over an item, up to its semicolon or the end of its braces.
fn skip_item(first: &TokenTree, tokens: &mut Tokens<'_>) {
    let mut next = Some(first);
    while let Some(token) = next {
        let ends = match token {
            TokenTree::Punct(mark) => mark.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            _ => false,
        };
        if ends {
            return;
        }
        next = tokens.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths that a source names, with their lines.
    fn found(module: &str, source: &str) -> Vec<String> {
        let module: Path = module.split("::").map(str::to_owned).collect();
        read(source, &module)
            .unwrap()
            .imports
            .iter()
            .map(|import| format!("{} {}", import.line, import.path.join("::")))
            .collect()
    }

    #[test]
    fn every_form_of_a_use_is_found() {
        let source = "
use std::fs;
use crate::front;
use crate::{catalog::{Entry, files::Files as F}, quota};
pub(crate) use crate::names::*;
use super::place::Place;
use super::super::session::{self, Client};
";
        assert_eq!(
            found("front::http", source),
            [
                "3 front",
                "4 catalog::Entry",
                "4 catalog::files::Files",
                "4 quota",
                "5 names",
                "6 front::place::Place",
                "7 session",
                "7 session::Client",
            ]
        );
    }

    #[test]
    fn paths_in_code_and_macros_are_found() {
        let source = r#"
/// See [`crate::house`].
pub(crate) fn ask(of: &crate::front::Place) -> Option<crate::quota::Rate> {
    println!("{}", crate::gateway::lock(of));
    // crate::comment
    let text = "crate::text";
    Vec::<super::hub::Hub>::new()
}
"#;
        assert_eq!(
            found("upstream", source),
            ["3 front::Place", "3 quota::Rate", "4 gateway::lock", "7 hub::Hub"]
        );
    }

    #[test]
    fn a_module_inside_a_file_has_its_own_parent() {
        let source =
            "mod inner { use super::a; use super::super::b; fn f() { super::super::c() } }";
        assert_eq!(found("upstream", source), ["1 upstream::a", "1 b", "1 c"]);
    }

    #[test]
    fn code_compiled_for_tests_only_is_left_out() {
        let source = "
#[cfg(test)]
use crate::a;
#[cfg(test)]
mod tests { use crate::b; }
#[cfg(all(test, unix))]
#[derive(Debug)]
struct Fake { of: crate::c::C }
#[cfg(test)]
mod played;
#[cfg(not(test))]
use crate::d;
";
        let module = ["upstream".to_owned()];
        assert_eq!(found("upstream", source), ["12 d"]);
        assert_eq!(
            read(source, &module).unwrap().for_tests,
            [["upstream", "tests"], ["upstream", "played"]]
        );
    }

    #[test]
    fn the_root_may_name_its_modules_without_a_prefix() {
        let root = read("pub use agents::{Agent, Origin as Source};", &[]).unwrap();
        let names: Vec<_> = root
            .imports
            .iter()
            .map(|import| (import.name.as_str(), import.path.join("::")))
            .collect();
        assert_eq!(
            names,
            [("Agent", "agents::Agent".to_owned()), ("Source", "agents::Origin".to_owned())]
        );
    }
}
