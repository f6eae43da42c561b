//! Checks a rollout whose episodes branch: something says where, and the copies can differ and be compared.

use super::upstream::upstream;
use flow_credit::{AdvantageSettings, EstimatorName};
use flow_pipeline::{Mistake, Node, Pipeline};
use flow_rollout::tree::Branching;

/// The mistakes in the `branch` of a rollout; `equal` says why all its answers to a prompt are equal, if they are.
pub fn mistakes(node: &Node, pipeline: &Pipeline, with: &Branching, equal: Option<&str>) -> Vec<Mistake> {
    let at = |settings: &[&str], message: String, help: &str| {
        let path: Vec<&str> = ["with", "branch"].into_iter().chain(settings.iter().copied()).collect();
        Some(Mistake::in_node(node, &path, message).help(help))
    };
    let is_set = |name: &str| !node.with.raw()["branch"][name].is_null();
    let places = match (with.every, with.uncertain) {
        (Some(_), Some(_)) => at(&["uncertain"], "`every` and `uncertain` both say at which turns to copy".into(), "give one of them"),
        (None, None) => at(&[], "nothing says at which turns to copy".into(), "give `every: 4`, or `uncertain: 6`"),
        (Some(_), None) => ["rounds", "penalty"].into_iter().find(|name| is_set(name)).and_then(|name| {
            let message = format!("`{name}` is about turns that are chosen by `uncertain`, and `every` chooses them all at once");
            at(&[name], message, "leave it out, or give `uncertain` in place of `every`")
        }),
        (None, Some(_)) => None,
    };
    let refused = |is: bool, message: &str, help| is.then(|| at(&[], message.into(), help)).flatten();
    let advised = node.with.raw()["actor"].as_str().is_some_and(|actor| actor != "policy");
    let others = [
        refused(
            pipeline.around(&node.id).is_some(),
            "in a loop episodes don't branch: their attempts are one after another",
            "leave it out",
        ),
        refused(
            node.with.gives("groups"),
            "`groups` counts tasks by the returns of whole episodes, and a branch's rows are a part of one",
            "leave one of the two out",
        ),
        refused(advised, "an expert's copies would all do the same", "leave it out, or `actor`"),
        equal.and_then(|why| at(&[], format!("copies must differ, and {why}"), "give it a temperature above 0, or leave `branch` out")),
    ];
    places.into_iter().chain(others.into_iter().flatten()).collect()
}

/// The note on an `advantage` that takes a branch's own rows for a whole episode.
pub fn note(node: &Node, pipeline: &Pipeline) -> Option<String> {
    let of = node.with.typed::<AdvantageSettings>()?.of;
    if ![EstimatorName::EpisodeReturn, EstimatorName::CrossEpisodeReturn].contains(&of) {
        return None;
    }
    let branching = upstream(pipeline, node).flat_map(Node::makers).find(|maker| maker.with.gives("branch"))?;
    Some(format!(
        "a branch of `{}` has the rows from its fork on, so its return leaves out what the turns before earned, and is compared with whole \
         episodes: where rewards come before the end, `of: tree_return` or `of: step_return` compares alike with alike",
        branching.id
    ))
}

#[cfg(test)]
mod tests {
    use crate::ops;

    fn errors(rollout: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 3 }}, {rollout} }} }}\nlog: [rollout]\n"
        );
        flow_pipeline::parse("x", &text, &[], &ops::catalog()).err().map_or(String::new(), |errors| errors.to_string())
    }

    #[test]
    fn a_branch_taken_for_an_episode_is_noted() {
        let noted = |of: &str, branch: &str| {
            let text = format!(
                "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
                 tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
                 rollout: {{ op: rollout, inputs: tasks, with: {{ agent: {{ model: actor, max_turns: 3 }}{branch} }} }}\n  \
                 group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n  \
                 advantage: {{ op: advantage, inputs: group, with: {{ of: {of} }} }}\nlog: [rollout, advantage]\n"
            );
            let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
            ops::notes(&pipeline).into_iter().any(|(_, note)| note.contains("from its fork on"))
        };
        let branch = ", branch: { every: 2 }";
        assert!(noted("episode_return", branch));
        assert!(!noted("tree_return", branch) && !noted("step_return", branch) && !noted("episode_return", ""));
    }

    #[test]
    fn a_tree_says_where_it_branches_and_nothing_else() {
        for right in ["branch: { every: 2 }", "branch: { uncertain: 2, into: 3, rounds: 2, penalty: 0 }"] {
            assert_eq!(errors(right), "", "{right}");
        }
        for (wrong, why) in [
            ("branch: {}", "nothing says at which turns"),
            ("branch: { every: 2, uncertain: 2 }", "both say at which turns"),
            ("branch: { every: 2, rounds: 2 }", "`rounds` is about turns that are chosen by `uncertain`"),
            ("branch: { every: 2, penalty: 0.1 }", "`penalty` is about"),
            ("branch: { every: 2 }, groups: 1", "`groups` counts tasks by the returns of whole episodes"),
            ("branch: { every: 2 }, actor: expert", "would all do the same"),
            ("branch: { every: 2 }, temperature: 0", "copies must differ, and at `temperature: 0`"),
            ("branch: { at: every }", "at"),
        ] {
            assert!(errors(wrong).contains(why), "{wrong}: {}", errors(wrong));
        }
    }
}
