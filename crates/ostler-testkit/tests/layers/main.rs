//! The modules of each crate import each other as the tables in ARCHITECTURE.md allow, and in no circle.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod graph;
mod imports;
mod picture;
mod table;

use std::path::Path;
use std::{env, fs};

use graph::{Sources, circles};
use table::Table;

/// Set by scripts/graph: the pictures are drawn anew instead of being compared.
const DRAW: &str = "OSTLER_DRAW_GRAPH";

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn document() -> String {
    fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap()
}

fn tables() -> Vec<Table> {
    table::read(&document()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_crates_with_layers_have_a_table_each() {
    let tables = tables();
    let crates: Vec<_> = tables.iter().map(|table| table.krate.as_str()).collect();
    assert_eq!(crates, ["ostler", "ostler-gateway", "ostler-clients"]);
}

fn sources(krate: &str) -> Sources {
    let src = workspace().join("crates").join(krate).join("src");
    Sources::read(&src).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_import_is_one_that_the_table_allows() {
    for table in tables() {
        if let Err(forbidden) = sources(&table.krate).check(&table) {
            let lines: Vec<_> = forbidden.iter().map(ToString::to_string).collect();
            panic!("imports that the layers of {} don't allow:\n{}", table.krate, lines.join("\n"));
        }
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for table in tables() {
        let Ok(graph) = sources(&table.krate).check(&table) else {
            panic!("{} has imports that its layers don't allow", table.krate);
        };
        let circles = circles(&graph);
        assert!(circles.is_empty(), "circles in {}: {circles:?}", table.krate);
    }
}

#[test]
fn the_pictures_show_the_modules_as_they_are() {
    let document = document();
    let mut drawn = document.clone();
    for table in tables() {
        let Ok(graph) = sources(&table.krate).check(&table) else {
            panic!("{} has imports that its layers don't allow", table.krate);
        };
        let picture = picture::draw(&table, &graph);
        drawn = picture::put(&drawn, &table.krate, &picture).unwrap_or_else(|| {
            panic!("ARCHITECTURE.md has no place for a picture of {}", table.krate)
        });
    }
    if env::var_os(DRAW).is_some() {
        fs::write(workspace().join("ARCHITECTURE.md"), drawn).unwrap();
    } else {
        assert!(
            drawn == document,
            "a picture in ARCHITECTURE.md is out of date: run scripts/graph"
        );
    }
}
