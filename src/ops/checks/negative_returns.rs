//! Notes `scale: mean` where rewards can be below 0: a group with a return below 0 is not divided by its mean.

use super::upstream::upstream;
use crate::ops::{played, reward};
use flow_credit::{AdvantageSettings, Scale};
use flow_pipeline::{Node, Pipeline};

/// The note on an `advantage` that divides by the mean of returns which settings of the pipeline, or the environment's own
/// rewards, can make negative.
pub fn note(node: &Node, pipeline: &Pipeline) -> Option<String> {
    let with = node.with.typed::<AdvantageSettings>()?;
    if with.scale != Scale::Mean {
        return None;
    }
    let penalty = (with.invalid_penalty > 0.0).then(|| "`invalid_penalty`".to_string());
    let subtracted = upstream(pipeline, node)
        .flat_map(|node| reward::subtracted(&node.with).into_iter().map(|name| format!("`{name}` of `{}`", node.id)));
    let own = || {
        let path = || upstream(pipeline, node);
        let game = path().find_map(|node| played(node, pipeline)).filter(|_| !path().any(|node| reward::without_task(&node.with)))?;
        match game.costs() {
            Some(true) => Some(format!("rewards of `{}`", game.env())),
            // Of a program it isn't known.
            None => Some(format!("rewards of `{}`, should it give any below 0,", game.env())),
            Some(false) => None,
        }
    };
    let causes: Vec<String> = penalty.into_iter().chain(subtracted).chain(own()).collect();
    (!causes.is_empty()).then(|| {
        format!(
            "`scale: mean` is defined for returns from 0 on, and {} can make them negative: a group with a return below 0 is not \
             divided (its `scale` is 1, the metric `undivided` counts it); leave that cost out, or use `scale: std`",
            causes.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::ops;

    fn notes(reward: &str, advantage: &str) -> String {
        noted("env: minesweeper", reward, advantage)
    }

    fn noted(env: &str, reward: &str, advantage: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ {env}, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }}, samples: 4 }} }}\n  \
             reward: {{ op: reward, inputs: rollout, with: {{ {reward} }} }}\n  \
             group: {{ op: group, inputs: reward, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return, {advantage} }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor }} }}\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
        ops::notes(&pipeline).into_iter().map(|(node, note)| format!("{node}: {note}")).collect()
    }

    #[test]
    fn costs_are_noted_where_the_mean_divides() {
        assert_eq!(notes("task: 0, won: 1", "scale: mean"), "");
        for (reward, cause) in [
            ("task: 0, won: 1, invalid: -0.1", "`invalid` of `reward`"),
            ("task: -1", "`task` of `reward` and rewards of `minesweeper` can"),
            ("task: 1", "0 on, and rewards of `minesweeper` can make them negative"),
            ("task: 0, won: 1, overlong: { max: 9, buffer: 3 }", "`overlong` of `reward`"),
            ("task: 0, won: 1, kl: 0.1, model: actor", "`kl` of `reward`"),
        ] {
            let note = notes(reward, "scale: mean");
            assert!(note.starts_with("advantage: `scale: mean`") && note.contains(cause), "{reward}: {note}");
            assert!(!notes(reward, "scale: none").contains("scale: mean"), "{reward}");
        }
        assert_eq!(noted("env: search", "task: 1", "scale: mean"), "");
        let program = "env: process, name: mine, command: [mine]";
        assert!(noted(program, "task: 1", "scale: mean").contains("rewards of `process`, should it give any below 0, can make"));
        assert_eq!(noted(program, "task: 0, won: 1", "scale: mean"), "");
        assert!(notes("task: 0, won: 1", "scale: mean, invalid_penalty: 0.1").contains("`invalid_penalty`"));
    }
}
