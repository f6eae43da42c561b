//! Loose ends: ports without an input, and rows without a reader.

use super::sketch::Sketch;
use crate::parse::Report;

/// Reports ports left open, and nodes whose rows go nowhere.
pub fn ends(sketch: &Sketch, report: &mut Report) {
    for draft in &sketch.nodes {
        if draft.spec.is_none() && draft.body.is_none() {
            continue;
        }
        // Inputs that could not be read at all were reported already.
        for port in draft.spec.iter().flat_map(|s| s.ports).filter(|p| !p.optional) {
            let fed = draft.edges.iter().any(|e| e.spec.is_some_and(|s| s.name == port.name));
            if !fed && !draft.broken_inputs {
                let (message, help) = match port.name {
                    "*" => (format!("`{}` needs at least one input", draft.id), "write `inputs: { a: node, b: other }`".into()),
                    name => (format!("`{}` needs the input `{name}`", draft.id), format!("`{name}`: {}", port.about)),
                };
                report.add(draft.op_at, message, Some(help));
            }
        }
        let read = draft.spec.is_some_and(|s| s.effect()) || sketch.mentioned.contains(draft.id);
        let around = draft.inside.map(|place| &sketch.nodes[place]);
        if let (false, Some(around)) = (read, around) {
            // What a loop puts out may not be understood.
            if around.body.as_ref().is_none_or(|b| b.output.is_empty()) {
                continue;
            }
            let help = format!("let another node inside read `{}`, add it to `output`, or leave it out", draft.id);
            let message = format!("nothing reads the rows of `{}`, and `{}` doesn't put them out", draft.id, around.id);
            report.add(draft.at, message, Some(help));
        } else if !read && !sketch.log.iter().any(|n| n == draft.id) {
            let help = format!("let a node read `{}`, add it to `log`, or leave it out", draft.id);
            report.add(draft.at, format!("nothing reads the rows of `{}`, and they are not logged", draft.id), Some(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{catalog, GOOD};
    use crate::parse;

    fn order(text: &str) -> Result<Vec<String>, String> {
        parse("x", text, &[], &catalog()).map(|p| p.nodes.into_iter().map(|n| n.id).collect()).map_err(|d| d.to_string())
    }

    #[test]
    fn a_node_that_nobody_reads_is_reported_unless_it_is_logged_or_has_an_effect() {
        let more = GOOD.replace("log:", "  more: { op: group, inputs: rollout, with: { by: [task] } }\nlog:");
        assert!(order(&more).unwrap_err().contains("nothing reads the rows of `more`"));
        assert!(order(&more.replace("[rollout,", "[more, rollout,")).is_ok());
        assert!(order(&GOOD.replace("[rollout, update]", "[]")).is_ok(), "`update` trains, `rollout` is read");
    }
}
