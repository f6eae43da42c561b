//! Warns of a clip range that can never take effect: the ratio that it clips is exactly 1 in the first optimiser step
//! after the rows were played.

use super::acting;
use crate::ops::{acts, is, operator};
use flow_model::{Objective, UpdateSettings};
use flow_pipeline::{Carries, Node, Pipeline, Role};

/// The note on an update that takes one step an iteration from the very weights that its rows were played with; none on
/// others.
pub fn note(node: &Node, with: &UpdateSettings, pipeline: &Pipeline) -> Option<String> {
    let declared = ["clip", "clip_high"].into_iter().find(|key| node.with.gives(key))?;
    let acted = with.objective == Objective::PolicyGradient;
    let at_once = with.minibatch == 0 && with.epochs == 1;
    let rounded = with.old.is_none() && node.model().and_then(|model| pipeline.models.get(model)).is_some_and(acting::rounded);
    (acted && at_once && (with.recomputes() || rounded || fresh(node, pipeline))).then(|| {
        format!(
            "`{declared}` can't act: with one step an iteration the weights haven't changed since the ratio's denominator, so it is 1; \
             `minibatch` or `epochs` makes it several"
        )
    })
}

/// Whether all rows of the model are played by the weights that `node` starts from: it is the model's only update, and
/// all playing nodes have the newest weights.
fn fresh(node: &Node, pipeline: &Pipeline) -> bool {
    let others = pipeline.all().filter(|n| n.id != node.id && is(n, Role::Learns) && n.model() == node.model());
    let plays = |n: &&Node| acts(n) && n.model() == node.model();
    let newest = |n: &Node| {
        let port = operator(&n.op).and_then(|o| o.port(Carries::Weights)).map(|port| port.name);
        // A critic that ranks draws in place of the policy, and so does who chooses among several answers.
        let own = n.with.names("critic").is_none() && !super::branches::has(n);
        own && n.inputs.iter().any(|input| Some(input.port.as_str()) == port && input.staleness == Some(0))
    };
    let mut players = pipeline.all().filter(plays).peekable();
    others.count() == 0 && players.peek().is_some() && players.all(newest)
}

#[cfg(test)]
mod tests {
    use crate::ops;

    /// The notes on `update`, whose settings end with `with`; the rollout's weights have the settings `after`.
    fn notes(with: &str, after: &str) -> Vec<String> {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update{after} }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }} }} }}\n  \
             group: {{ op: group, inputs: rollout, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor{with} }} }}\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
        ops::notes(&pipeline).into_iter().map(|(_, note)| note).collect()
    }

    #[test]
    fn one_step_from_the_weights_that_played_clips_nothing() {
        let idle = |with: &str, after: &str| notes(with, after).iter().any(|note| note.contains("can't act"));
        assert!(idle(", clip: 0.2", "") && idle(", clip_high: 0.28, minibatch: 0", "") && idle(", clip: 0.2, epochs: 1", ", staleness: 0"));
        assert!(!idle("", ""), "nobody asked for a clip");
        for (with, after) in [(", clip: 0.2, minibatch: 8", ""), (", clip: 0.2, epochs: 2", ""), (", clip: 0.2", ", staleness: 1")] {
            assert!(!idle(with, after), "{with}{after}");
        }
        assert!(idle(", clip: 0.2, old: recomputed", ", staleness: 1"), "the ratio is to the weights that it starts from");
    }
}
