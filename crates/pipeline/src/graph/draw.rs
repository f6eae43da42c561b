//! The picture of a pipeline, as text for two common renderers.

use crate::{Body, Input, Node, Pipeline, Until};

/// Which renderer the picture is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    Mermaid,
    Dot,
}

/// Nodes as boxes, edges in time as arrows, delayed edges dashed with their staleness; a logged node has a double
/// border. A loop is a frame around its nodes.
pub fn draw(pipeline: &Pipeline, format: PictureFormat) -> String {
    let all: Vec<&Node> = pipeline.all().collect();
    let picture = Drawing { pipeline, all, format };
    let mut out = String::from(match format {
        PictureFormat::Mermaid => "graph LR\n",
        PictureFormat::Dot => "digraph {\n  rankdir=LR;\n  node [shape=box];\n",
    });
    if format == PictureFormat::Dot && pipeline.nodes.iter().any(|n| n.body.is_some()) {
        out.push_str("  compound=true;\n");
    }
    for node in &pipeline.nodes {
        out.push_str(&match &node.body {
            None => picture.node(node, "  "),
            Some(body) => picture.frame(node, body),
        });
    }
    for node in picture.all.iter().filter(|n| n.body.is_none()) {
        node.inputs.iter().for_each(|input| out.push_str(&picture.edge(node, input)));
    }
    if format == PictureFormat::Dot {
        out.push_str("}\n");
    }
    out
}

struct Drawing<'a> {
    pipeline: &'a Pipeline,
    all: Vec<&'a Node>,
    format: PictureFormat,
}

impl Drawing<'_> {
    /// Numbers, because a node may be called what a renderer takes for a keyword (`end`, `graph`).
    fn number(&self, id: &str) -> usize {
        self.all.iter().position(|n| n.id == id).unwrap_or_default()
    }

    fn node(&self, node: &Node, indent: &str) -> String {
        let title = if node.id == node.op { node.id.clone() } else { format!("{}: {}", node.id, node.op) };
        let (i, logged) = (self.number(&node.id), self.pipeline.log.contains(&node.id));
        match (self.format, logged) {
            (PictureFormat::Mermaid, true) => format!("{indent}n{i}[[\"{title}\"]]\n"),
            (PictureFormat::Mermaid, false) => format!("{indent}n{i}[\"{title}\"]\n"),
            (PictureFormat::Dot, true) => format!("{indent}n{i} [label=\"{title}\", peripheries=2];\n"),
            (PictureFormat::Dot, false) => format!("{indent}n{i} [label=\"{title}\"];\n"),
        }
    }

    /// A frame can't have a double border, so that its title says whether the loop is logged.
    fn frame(&self, node: &Node, body: &Body) -> String {
        let i = self.number(&node.id);
        let until = if body.until == Until::Won { ", until won" } else { "" };
        let logged = if self.pipeline.log.contains(&node.id) { " (logged)" } else { "" };
        let times = if body.attempts == 1 { "1 attempt".into() } else { format!("{} attempts", body.attempts) };
        let title = format!("{}: {times}{until}{logged}", node.id);
        let inner: String = body.nodes.iter().map(|n| self.node(n, "    ")).collect();
        match self.format {
            PictureFormat::Mermaid => format!("  subgraph n{i}[\"{title}\"]\n{inner}  end\n"),
            PictureFormat::Dot => format!("  subgraph cluster_{i} {{\n    label=\"{title}\";\n{inner}  }}\n"),
        }
    }

    fn edge(&self, node: &Node, Input { port, from, staleness }: &Input) -> String {
        let to = self.number(&node.id);
        let fellow = self.pipeline.around(from).is_some();
        let label = match staleness {
            Some(_) if fellow => format!("{port}, next attempt"),
            Some(k) => format!("{port}, staleness {k}"),
            None => port.clone(),
        };
        // A loop's rows come from its frame; for Graphviz (and where the reader stands in that very frame) from a node
        // in it.
        let loop_at = self.pipeline.node(from).and_then(|n| Some((self.number(from), n.body.as_ref()?)));
        let own = self.pipeline.around(&node.id).is_some_and(|n| n.id == *from);
        let (at, tail) = match loop_at {
            Some((frame, body)) if self.format == PictureFormat::Dot || own => {
                let first = body.output.first().map_or(frame, |id| self.number(id));
                (first, if own { String::new() } else { format!(", ltail=cluster_{frame}") })
            }
            _ => (self.number(from), String::new()),
        };
        match (self.format, staleness) {
            (PictureFormat::Mermaid, None) => format!("  n{at} -->|{label}| n{to}\n"),
            (PictureFormat::Mermaid, Some(_)) => format!("  n{at} -.->|\"{label}\"| n{to}\n"),
            (PictureFormat::Dot, None) => format!("  n{at} -> n{to} [label=\"{label}\"{tail}];\n"),
            (PictureFormat::Dot, Some(_)) => format!("  n{at} -> n{to} [label=\"{label}\", style=dashed, constraint=false{tail}];\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{catalog, GOOD, LOOPED};
    use crate::parse;

    #[test]
    fn every_node_and_edge_is_drawn() {
        let pipeline = parse("x", GOOD, &[], &catalog()).unwrap();
        let mermaid = draw(&pipeline, PictureFormat::Mermaid);
        assert!(mermaid.starts_with("graph LR\n  n0[\"tasks\"]\n  n1[[\"rollout\"]]\n"), "{mermaid}");
        assert!(mermaid.contains("  n4 -.->|\"weights, staleness 0\"| n1\n") && mermaid.contains("  n0 -->|tasks| n1\n"), "{mermaid}");
        let dot = draw(&pipeline, PictureFormat::Dot);
        assert!(dot.contains("n4 [label=\"update: gpu-update\", peripheries=2];") && dot.ends_with("}\n"), "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 5);
    }

    #[test]
    fn a_loop_is_a_frame_around_its_nodes() {
        let pipeline = parse("x", LOOPED, &[], &catalog()).unwrap();
        let mermaid = draw(&pipeline, PictureFormat::Mermaid);
        let frame =
            "  subgraph n1[\"trial: 3 attempts, until won (logged)\"]\n    n2[\"rollout\"]\n    n3[\"reflect\"]\n  end\n  n4[\"group\"]\n";
        assert!(mermaid.contains(frame), "{mermaid}");
        let edges = ["n0 -->|tasks| n2", "n3 -.->|\"memory, next attempt\"| n2", "n6 -.->|\"weights, staleness 1\"| n3", "n1 -->|rows| n4"];
        assert!(edges.iter().all(|edge| mermaid.contains(edge)), "{mermaid}");
        let dot = draw(&pipeline, PictureFormat::Dot);
        assert!(dot.contains("  subgraph cluster_1 {\n    label=\"trial: 3 attempts, until won (logged)\";\n    n2 "), "{dot}");
        assert!(dot.contains("compound=true") && dot.contains("n2 -> n4 [label=\"rows\", ltail=cluster_1];"), "{dot}");
        assert!(dot.contains("n3 -> n2 [label=\"memory, next attempt\", style=dashed, constraint=false];"), "{dot}");
        assert_eq!((mermaid.matches("->").count(), dot.matches(" -> ").count()), (8, 8), "every edge once");
    }
}
