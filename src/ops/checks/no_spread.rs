//! Notes on runs that certainly can't learn, before they begin: all episodes of a group must have one return.

use super::upstream::upstream;
use crate::ops::{group, is, rollout};
use flow_credit::{AdvantageSettings, Penalty, Singleton, Unit};
use flow_pipeline::{Node, Pipeline, Role};

/// The note on an `advantage` that compares the one episode of a task with itself, or episodes that are equal.
pub fn note(node: &Node, pipeline: &Pipeline) -> Option<String> {
    let with = node.with.typed::<AdvantageSettings>()?;
    let by_trajectory = with.of.estimator().whole
        && (with.unit == Unit::Trajectory || with.invalid_penalty == 0.0 || with.penalty == Penalty::BeforeReturn);
    if !by_trajectory || !with.baseline.within() || with.singleton == Singleton::Raw {
        return None;
    }
    // In a loop a task is attempted several times, and attempts may be compared.
    let path: Vec<&Node> = upstream(pipeline, node).take_while(|node| !is(node, Role::Plays)).collect();
    let player = upstream(pipeline, node).nth(path.len()).filter(|node| node.body.is_none())?;
    let grouped = path.iter().find(|node| group::groups(node)).is_some_and(|node| group::by_task(node));
    let equal = rollout::equal_samples(player)?;
    // What judges rows in between may tell equal episodes apart, but not one episode from itself.
    let judged = path.iter().skip(1).any(|node| !group::groups(node));
    (grouped && (!judged || rollout::one_sample(player)))
        .then(|| format!("{equal}, and only episodes of one task are compared: every advantage is 0, and nothing is learnt"))
}

#[cfg(test)]
mod tests {
    use crate::ops;

    fn notes(rollout: &str, by: &str, advantage: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }}, {rollout} }} }}\n  \
             group: {{ op: group, inputs: rollout, with: {{ by: [{by}] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ {advantage} }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor }} }}\nlog: [advantage]\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
        ops::notes(&pipeline).into_iter().map(|(node, note)| format!("{node}: {note}")).collect()
    }

    #[test]
    fn what_must_be_equal_is_told_before_the_run() {
        let one = notes("samples: 1", "task", "of: episode_return");
        assert!(one.starts_with("advantage: `samples: 1` plays one episode of a task") && one.contains("every advantage is 0"), "{one}");
        assert!(!notes("samples: 1", "task", "of: episode_return, baseline: leave_one_out").is_empty());
        let greedy = notes("samples: 8, temperature: 0", "task", "of: episode_return");
        assert!(greedy.contains("`temperature: 0`"), "{greedy}");
        for (rollout, by, advantage) in [
            ("samples: 2", "task", "of: episode_return"),
            ("samples: 1", "", "of: episode_return"),
            ("samples: 1", "task", "of: step_return"),
            ("samples: 1", "task", "of: episode_return, baseline: none, scale: none"),
            ("samples: 1", "task", "of: episode_return, singleton: raw"),
            ("samples: 1", "task", "of: episode_return, baseline: ema, scale: none"),
            ("samples: 1", "task", "of: episode_return, unit: turn, invalid_penalty: 0.1, penalty: after_return"),
        ] {
            assert_eq!(notes(rollout, by, advantage), "", "{rollout}; [{by}]; {advantage}");
        }
    }
}
