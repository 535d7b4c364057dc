//! The pictures in ARCHITECTURE.md: the modules of a crate in their layers, with arrows to their imports.
//!
//! Redundant arrows are left out: if `a` imports `b` and `b` imports `c`, there is
//! no arrow from `a` to `c`, whether or not `a` imports `c` as well.

use std::fmt::Write as _;

use crate::graph::{Graph, reachable};
use crate::table::{Layer, Table};

/// The line before a picture.
fn opening(krate: &str) -> String {
    format!("<!-- The modules of `{krate}`, drawn by scripts/graph -->\n")
}

/// The line after it.
const CLOSING: &str = "<!-- End of the drawing -->\n";

/// The document with a new picture of one crate. `None` without marks for that picture.
pub(crate) fn put(document: &str, krate: &str, picture: &str) -> Option<String> {
    let opening = opening(krate);
    let (before, rest) = document.split_once(&opening)?;
    let (_, after) = rest.split_once(CLOSING)?;
    Some(format!("{before}{opening}{picture}{CLOSING}{after}"))
}

/// A picture of a crate without circles, in the language of mermaid.
pub(crate) fn draw(table: &Table, graph: &Graph) -> String {
    let mut text = "```mermaid\nflowchart TD\n".to_owned();
    for (index, layer) in table.layers.iter().enumerate().rev() {
        draw_layer(&mut text, index, layer);
    }
    for (from, all) in graph {
        for to in all {
            let is_said_by_others =
                all.iter().any(|other| reachable(graph, other).contains(to.as_str()));
            if !is_said_by_others {
                let _ = writeln!(text, "  {} --> {}", node(from), node(to));
            }
        }
    }
    text.push_str("```\n");
    text
}

fn draw_layer(text: &mut String, index: usize, layer: &Layer) {
    let _ = writeln!(text, "  subgraph layer{index}[\"{}\"]", layer.name);
    for module in &layer.modules {
        let module = module.join("::");
        let _ = writeln!(text, "    {}[\"{module}\"]", node(&module));
    }
    text.push_str("  end\n");
}

/// The node id of a module; plain names could be keywords of mermaid.
fn node(module: &str) -> String {
    format!("m_{}", module.replace("::", "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*to).to_owned()).or_default();
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    }

    #[test]
    fn arrows_show_direct_imports_only() {
        let document = "### Layers of `one`\n| low | `a`, `b::c` | |\n| high | `d` | low |\n";
        let table = &table::read(document).unwrap()[0];
        let graph = graph(&[("d", "b::c"), ("b::c", "a"), ("d", "a")]);
        let expected = "```mermaid
flowchart TD
  subgraph layer1[\"high\"]
    m_d[\"d\"]
  end
  subgraph layer0[\"low\"]
    m_a[\"a\"]
    m_b_c[\"b::c\"]
  end
  m_b_c --> m_a
  m_d --> m_b_c
```
";
        assert_eq!(draw(table, &graph), expected);
    }

    #[test]
    fn a_picture_replaces_the_one_before_it() {
        let document = format!("Before\n{}old\n{CLOSING}After\n", opening("one"));
        let new = put(&document, "one", "new\n").unwrap();
        assert_eq!(new, format!("Before\n{}new\n{CLOSING}After\n", opening("one")));
        assert_eq!(put(&new, "one", "new\n").unwrap(), new);
        assert_eq!(put(&document, "other", "new\n"), None);
    }
}
