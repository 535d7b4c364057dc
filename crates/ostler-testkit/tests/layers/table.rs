//! The tables of ARCHITECTURE.md that say which modules of a crate may import which others.
//!
//! Each is below a heading "Layers of `crate`" and has three columns: the layer, its modules, and the
//! layers that these may import. A row only names layers of rows above it, so that no table has a circle.

use std::fmt;

use crate::imports::Path;

/// Beginning of the heading of a table.
const HEADING: &str = "### Layers of `";

/// One row: some modules, and what they may import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) name: String,
    pub(crate) modules: Vec<Path>,
    pub(crate) may_import: Vec<String>,
    /// The line of the document.
    pub(crate) line: usize,
}

/// The layers of one crate, the lowest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) krate: String,
    pub(crate) layers: Vec<Layer>,
}

/// Why a table can't be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TableError {
    /// A row does not have three cells.
    Cells { line: usize },
    /// A row allows the import of a layer that is not above it.
    NotAbove { line: usize, layer: String, imports: String },
    /// A module is in two rows.
    Twice { line: usize, module: String },
}

impl fmt::Display for TableError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cells { line } => {
                write!(
                    to,
                    "ARCHITECTURE.md:{line}: a row has three cells: layer, modules, may import"
                )
            }
            Self::NotAbove { line, layer, imports } => write!(
                to,
                "ARCHITECTURE.md:{line}: the row \"{layer}\" names \"{imports}\", which is no row above it; \
                 a layer may only import layers below itself, and the table lists the lowest first"
            ),
            Self::Twice { line, module } => {
                write!(
                    to,
                    "ARCHITECTURE.md:{line}: the module `{module}` is in an earlier row as well"
                )
            }
        }
    }
}

/// Reads all tables of a document.
pub(crate) fn read(document: &str) -> Result<Vec<Table>, TableError> {
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        if let Some(krate) = line.strip_prefix(HEADING) {
            inside = true;
            tables
                .push(Table { krate: krate.trim_end_matches('`').to_owned(), layers: Vec::new() });
        } else if line.starts_with('#') {
            inside = false;
        } else if let Some(table) = tables.last_mut().filter(|_| inside && is_row(line)) {
            let layer = row(index + 1, line)?;
            table.add(layer)?;
        }
    }
    Ok(tables)
}

/// Whether a line is a row, and neither the names of the columns nor the line below these.
fn is_row(line: &str) -> bool {
    line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| layer |")
}

fn row(line: usize, text: &str) -> Result<Layer, TableError> {
    let cells: Vec<&str> = text.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [name, modules, may_import] = cells[..] else {
        return Err(TableError::Cells { line });
    };
    Ok(Layer {
        name: name.to_owned(),
        modules: quoted(modules)
            .map(|module| module.split("::").map(str::to_owned).collect())
            .collect(),
        may_import: may_import
            .split(',')
            .map(str::trim)
            .filter(|layer| !layer.is_empty())
            .map(str::to_owned)
            .collect(),
        line,
    })
}

/// The words in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

impl Table {
    fn add(&mut self, layer: Layer) -> Result<(), TableError> {
        let line = layer.line;
        for imports in &layer.may_import {
            if !self.layers.iter().any(|above| above.name == *imports) {
                return Err(TableError::NotAbove {
                    line,
                    layer: layer.name,
                    imports: imports.clone(),
                });
            }
        }
        for module in &layer.modules {
            if self.layers.iter().any(|above| above.modules.contains(module)) {
                return Err(TableError::Twice { line, module: module.join("::") });
            }
        }
        self.layers.push(layer);
        Ok(())
    }

    /// The module of the table that a path is in, and its layer. If the table has both a module and one
    /// inside it, the inner one counts.
    pub(crate) fn find(&self, path: &[String]) -> Option<(&Path, &Layer)> {
        self.layers
            .iter()
            .flat_map(|layer| layer.modules.iter().map(move |module| (module, layer)))
            .filter(|(module, _)| path.starts_with(module))
            .max_by_key(|(module, _)| module.len())
    }
}

impl Layer {
    /// Whether a module of this layer may import one of the other. Modules of one layer may import each
    /// other; that they don't do so in a circle is checked by the graph.
    pub(crate) fn may_import(&self, other: &Self) -> bool {
        self.name == other.name || self.may_import.contains(&other.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(rows: &str) -> String {
        format!(
            "### Layers of `one`\n\n| layer | modules | may import |\n|---|---|---|\n{rows}\n## Next\n| x |\n"
        )
    }

    #[test]
    fn rows_are_read_with_modules_and_the_layers_below() {
        let tables =
            read(&document("| values | `ids`, `front::words` | |\n| top | `front` | values |"))
                .unwrap();
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!(table.krate, "one");
        let path = |text: &str| -> Path { text.split("::").map(str::to_owned).collect() };
        let layer = |text: &str| table.find(&path(text)).map(|(_, layer)| layer.name.as_str());
        assert_eq!(layer("front::words::Word"), Some("values"));
        assert_eq!(layer("front::place"), Some("top"));
        assert_eq!(layer("elsewhere"), None);
        let (values, top) = (&table.layers[0], &table.layers[1]);
        assert!(top.may_import(values) && top.may_import(top));
        assert!(!values.may_import(top));
    }

    #[test]
    fn a_table_with_a_circle_is_refused() {
        let error = read(&document("| a | `a` | b |\n| b | `b` | a |")).unwrap_err();
        assert!(
            error.to_string().starts_with("ARCHITECTURE.md:5: the row \"a\" names \"b\""),
            "{error}"
        );
    }

    #[test]
    fn a_module_in_two_rows_and_a_row_of_two_cells_are_refused() {
        let twice = read(&document("| a | `x` | |\n| b | `x` | a |")).unwrap_err();
        assert_eq!(twice, TableError::Twice { line: 6, module: "x".into() });
        assert_eq!(read(&document("| a | `x` |")), Err(TableError::Cells { line: 5 }));
    }
}
