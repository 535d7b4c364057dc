//! The modules of a crate, as they import each other, and what the crate's table says about that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path as File, PathBuf};
use std::{fs, io};

use proc_macro2::LexError;
use thiserror::Error;

use crate::imports::{self, Import, Path};
use crate::table::{Layer, Table};

/// An import of a module that the table does not allow, or does not know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forbidden {
    file: String,
    line: usize,
    import: String,
    why: String,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, import, why } = self;
        write!(to, "{file}:{line}: `crate::{import}`: {why}")
    }
}

/// Why the sources of a crate can't be read.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Lex(PathBuf, LexError),
}

/// One file of a crate.
#[derive(Debug)]
struct Module {
    file: String,
    path: Path,
    imports: Vec<Import>,
}

/// The sources of a crate, without those for tests.
#[derive(Debug)]
pub(crate) struct Sources {
    modules: Vec<Module>,
    /// The modules directly below the root.
    top: BTreeSet<String>,
    /// Origins of re-exported names: `crate::Frame` is `crate::frame::Frame`.
    root: BTreeMap<String, Path>,
}

/// Imports between modules.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

impl Sources {
    /// Reads a directory with a `lib.rs`.
    pub(crate) fn read(src: &File) -> Result<Self, SourceError> {
        let mut files = Vec::new();
        list(src, &mut files)?;
        files.sort();
        let texts = files
            .into_iter()
            .map(|file| match fs::read_to_string(&file) {
                Ok(text) => Ok((file, text)),
                Err(error) => Err(SourceError::Read(file, error)),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Self::of(
            texts
                .iter()
                .map(|(file, text)| (file.strip_prefix(src).unwrap_or(file), text.as_str())),
        )
    }

    /// Reads files, each named from the directory that has the `lib.rs`.
    fn of<'a>(files: impl Iterator<Item = (&'a File, &'a str)>) -> Result<Self, SourceError> {
        let mut sources = Self { modules: Vec::new(), top: BTreeSet::new(), root: BTreeMap::new() };
        let mut for_tests = Vec::new();
        for (file, text) in files {
            let path = module_of(file);
            let source = imports::read(text, &path)
                .map_err(|error| SourceError::Lex(file.to_owned(), error))?;
            for_tests.extend(source.for_tests);
            if path.is_empty() {
                sources.top = source.modules.into_iter().filter_map(first).collect();
                sources.root =
                    source.imports.into_iter().map(|import| (import.name, import.path)).collect();
            } else {
                sources.modules.push(Module {
                    file: file.display().to_string(),
                    path,
                    imports: source.imports,
                });
            }
        }
        sources.modules.retain(|module| {
            !module.path.iter().any(|name| name == "tests")
                && !for_tests.iter().any(|test| module.path.starts_with(test))
        });
        Ok(sources)
    }

    /// The graph of the modules that the table names, or all imports that it does not allow.
    pub(crate) fn check(&self, table: &Table) -> Result<Graph, Vec<Forbidden>> {
        let mut graph = Graph::new();
        let mut forbidden = Vec::new();
        for (module, import) in self.all_imports() {
            match self.judge(table, &module.path, &import.path) {
                Ok(Some((from, to))) => {
                    graph.entry(to.clone()).or_default();
                    graph.entry(from).or_default().insert(to);
                }
                Ok(None) => {}
                Err(why) => forbidden.push(Forbidden {
                    file: format!("crates/{}/src/{}", table.krate, module.file),
                    line: import.line,
                    import: import.path.join("::"),
                    why,
                }),
            }
        }
        forbidden.extend(self.without_row(table));
        if forbidden.is_empty() { Ok(graph) } else { Err(forbidden) }
    }

    fn all_imports(&self) -> impl Iterator<Item = (&Module, &Import)> {
        self.modules
            .iter()
            .flat_map(|module| module.imports.iter().map(move |import| (module, import)))
    }

    /// Whether a module may import a path, and between which modules of the table that is.
    fn judge(
        &self,
        table: &Table,
        from: &[String],
        to: &[String],
    ) -> Result<Option<(String, String)>, String> {
        let Some((from, layer)) = table.find(from) else {
            // Reported once for the module, not for each of its imports.
            return Ok(None);
        };
        let Some(to) = self.origin(to) else {
            return Err("neither a module nor a name that lib.rs passes on".to_owned());
        };
        let Some((to, below)) = table.find(&to) else {
            return Ok(None);
        };
        if from == to {
            return Ok(None);
        }
        if !layer.may_import(below) {
            return Err(refusal(layer, &to.join("::"), below));
        }
        Ok(Some((from.join("::"), to.join("::"))))
    }

    /// Resolves a path from the root to a module, through re-exports if needed.
    fn origin(&self, path: &[String]) -> Option<Path> {
        let first = path.first()?;
        if self.top.contains(first) {
            return Some(path.to_vec());
        }
        self.root.get(first).cloned()
    }

    /// Modules that have no row in the table.
    fn without_row(&self, table: &Table) -> impl Iterator<Item = Forbidden> {
        self.modules.iter().filter(|module| table.find(&module.path).is_none()).map(|module| {
            Forbidden {
                file: format!("crates/{}/src/{}", table.krate, module.file),
                line: 1,
                import: module.path.join("::"),
                why: format!(
                    "no row of \"Layers of `{}`\" in ARCHITECTURE.md has this module",
                    table.krate
                ),
            }
        })
    }
}

fn refusal(layer: &Layer, to: &str, below: &Layer) -> String {
    let allowed = if layer.may_import.is_empty() {
        "nothing".to_owned()
    } else {
        layer.may_import.join(", ")
    };
    format!(
        "ARCHITECTURE.md:{}: the layer \"{}\" may import {allowed}, and `{to}` is in the layer \"{}\"",
        layer.line, layer.name, below.name
    )
}

fn first(path: Path) -> Option<String> {
    path.into_iter().next()
}

/// All Rust files below a directory, without programs.
fn list(directory: &File, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let failed = |error| SourceError::Read(directory.to_owned(), error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.ends_with("src/bin") {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The module of a file: `front/http/mod.rs` and `front/http.rs` are `front::http`.
fn module_of(file: &File) -> Path {
    let mut path: Path =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

/// Import cycles: one list of modules for each.
pub(crate) fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|from| (from.as_str(), reachable(graph, from))).collect();
    let mut circles = BTreeSet::new();
    for (from, to) in &reached {
        let circle: Vec<&str> =
            to.iter().filter(|other| reached[*other].contains(from)).copied().collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// All direct and indirect imports of a module.
pub(crate) fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(next) = waiting.pop() {
        for to in graph.get(next).into_iter().flatten() {
            if found.insert(to.as_str()) {
                waiting.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    const TABLE: &str =
        "### Layers of `one`\n| values | `frame`, `id` | |\n| top | `house` | values |\n";

    fn sources(files: &[(&str, &str)]) -> Sources {
        Sources::of(files.iter().map(|(file, text)| (File::new(*file), *text))).unwrap()
    }

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let table = &table::read(TABLE).unwrap()[0];
        let forbidden = sources(files).check(table).err().unwrap_or_default();
        forbidden.iter().map(ToString::to_string).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod frame;\nmod house;\nmod id;\npub use house::House;");

    #[test]
    fn an_import_of_a_higher_layer_is_refused_with_its_place_and_row() {
        let forbidden = "crates/one/src/frame.rs:2: `crate::house::lock`: ARCHITECTURE.md:2: the layer \
                         \"values\" may import nothing, and `house` is in the layer \"top\"";
        assert_eq!(said(&[ROOT, ("frame.rs", "\nuse crate::house::lock;")]), [forbidden]);
        let by_the_root = "crates/one/src/frame/edge.rs:1: `crate::House`: ARCHITECTURE.md:2: the layer \
                           \"values\" may import nothing, and `house` is in the layer \"top\"";
        assert_eq!(
            said(&[ROOT, ("frame/edge.rs", "fn of(house: &crate::House) {}")]),
            [by_the_root]
        );
    }

    #[test]
    fn imports_of_lower_layers_and_those_of_tests_are_allowed() {
        let files = [
            ROOT,
            ("house.rs", "use crate::{frame::Frame, id};"),
            ("id.rs", "use crate::frame; #[cfg(test)] mod played;"),
            ("id/played.rs", "use crate::house;"),
            ("frame/mod.rs", "mod edge; mod tests;"),
            ("frame/tests/one.rs", "use crate::house;"),
        ];
        assert_eq!(said(&files), [""; 0]);
    }

    #[test]
    fn a_module_without_a_row_and_an_unknown_name_are_refused() {
        let said = said(&[
            ("lib.rs", "mod other;"),
            ("other.rs", "use crate::other;"),
            ("frame.rs", "use crate::nothing;"),
        ]);
        assert_eq!(
            said,
            [
                "crates/one/src/frame.rs:1: `crate::nothing`: neither a module nor a name that lib.rs passes on",
                "crates/one/src/other.rs:1: `crate::other`: no row of \"Layers of `one`\" in ARCHITECTURE.md \
                 has this module",
            ]
        );
    }

    #[test]
    fn modules_of_one_layer_that_import_each_other_are_a_circle() {
        let table = &table::read(TABLE).unwrap()[0];
        let one_way = [ROOT, ("id.rs", "use crate::frame;"), ("house.rs", "use crate::id;")];
        let graph = sources(&one_way).check(table).unwrap();
        assert_eq!(circles(&graph), [[""; 0]; 0]);
        assert_eq!(reachable(&graph, "house"), BTreeSet::from(["id", "frame"]));

        let both_ways = [ROOT, ("id.rs", "use crate::frame;"), ("frame.rs", "use crate::id;")];
        let graph = sources(&both_ways).check(table).unwrap();
        assert_eq!(circles(&graph), [["frame", "id"]]);
    }
}
