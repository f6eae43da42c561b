//! The picture of a pipeline, as text for two common renderers.

use super::{Input, Pipeline};
use std::fmt::Write;

/// Which renderer the picture is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Mermaid,
    Dot,
}

/// Nodes as boxes, edges in time as arrows, delayed edges dashed with their staleness; a logged node has a double border.
pub fn draw(pipeline: &Pipeline, format: Format) -> String {
    // Numbered, because a node may be called what a renderer takes for a keyword (`end`, `graph`).
    let number = |id: &str| pipeline.nodes.iter().position(|n| n.id == id).unwrap_or_default();
    let mut out = String::from(match format {
        Format::Mermaid => "graph LR\n",
        Format::Dot => "digraph {\n  rankdir=LR;\n  node [shape=box];\n",
    });
    for (i, node) in pipeline.nodes.iter().enumerate() {
        let title = if node.id == node.op { node.id.clone() } else { format!("{}: {}", node.id, node.op) };
        let logged = pipeline.log.contains(&node.id);
        // Writing to a string cannot fail.
        let _ = match (format, logged) {
            (Format::Mermaid, true) => writeln!(out, "  n{i}[[\"{title}\"]]"),
            (Format::Mermaid, false) => writeln!(out, "  n{i}[\"{title}\"]"),
            (Format::Dot, true) => writeln!(out, "  n{i} [label=\"{title}\", peripheries=2];"),
            (Format::Dot, false) => writeln!(out, "  n{i} [label=\"{title}\"];"),
        };
    }
    for (i, node) in pipeline.nodes.iter().enumerate() {
        for Input { port, from, staleness } in &node.inputs {
            let from = number(from);
            let _ = match (format, staleness) {
                (Format::Mermaid, None) => writeln!(out, "  n{from} -->|{port}| n{i}"),
                (Format::Mermaid, Some(k)) => writeln!(out, "  n{from} -.->|\"{port}, staleness {k}\"| n{i}"),
                (Format::Dot, None) => writeln!(out, "  n{from} -> n{i} [label=\"{port}\"];"),
                (Format::Dot, Some(k)) => {
                    writeln!(out, "  n{from} -> n{i} [label=\"{port}, staleness {k}\", style=dashed, constraint=false];")
                }
            };
        }
    }
    if format == Format::Dot {
        out.push_str("}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::fake::{catalog, GOOD};
    use crate::pipeline::parse;

    #[test]
    fn every_node_and_edge_is_drawn() {
        let pipeline = parse("x", GOOD, &[], &catalog()).unwrap();
        let mermaid = draw(&pipeline, Format::Mermaid);
        assert!(mermaid.starts_with("graph LR\n  n0[\"tasks\"]\n  n1[[\"rollout\"]]\n"), "{mermaid}");
        assert!(mermaid.contains("  n4 -.->|\"weights, staleness 0\"| n1\n") && mermaid.contains("  n0 -->|tasks| n1\n"), "{mermaid}");
        let dot = draw(&pipeline, Format::Dot);
        assert!(dot.contains("n4 [label=\"update: gpu-update\", peripheries=2];") && dot.ends_with("}\n"), "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 5);
    }
}
