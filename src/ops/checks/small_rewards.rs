//! Notes small rewards whose size is lost where an advantage is divided by its group's deviation: in a group of one
//! outcome they are the only difference, and become advantages of full size. (EMPO2's pay for new states, a thousandth
//! of a win, was 30% of all advantages.)

use super::upstream::upstream;
use crate::ops::reward;
use flow_credit::{AdvantageSettings, Scale};
use flow_pipeline::{Node, Pipeline};

/// The note on an `advantage` that divides by a deviation of rewards, when some rewards are small beside the task's.
pub fn note(node: &Node, pipeline: &Pipeline) -> Option<String> {
    let with = node.with.typed::<AdvantageSettings>()?;
    if with.scale != Scale::Std {
        return None;
    }
    let small: Vec<String> = upstream(pipeline, node)
        .flat_map(|node| reward::small(&node.with).into_iter().map(|(name, weight)| format!("`{name}: {weight}` of `{}`", node.id)))
        .collect();
    (!small.is_empty()).then(|| {
        format!(
            "`scale: std` divides by the group's deviation, so where all episodes of a group end alike {} is the whole difference and \
             makes an advantage of full size; `scale: none` keeps it small",
            small.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::ops;
    use arrow::array::{ArrayRef, BooleanArray, Float32Array, StringArray, UInt32Array, UInt64Array};
    use flow_core::row;
    use flow_credit::{rows, AdvantageSettings};
    use std::sync::Arc;

    fn notes(reward: &str, scale: &str) -> String {
        let text = format!(
            "flow: x\niterations: 1\nmodels: {{ actor: {{ new: tiny }} }}\nnodes:\n  \
             tasks: {{ op: tasks, with: {{ env: minesweeper, batch: 2 }} }}\n  \
             rollout: {{ op: rollout, inputs: {{ tasks: tasks, weights: {{ after: update }} }}, with: {{ agent: {{ model: actor, max_turns: 3 }}, samples: 4 }} }}\n  \
             reward: {{ op: reward, inputs: rollout, with: {{ {reward} }} }}\n  \
             group: {{ op: group, inputs: reward, with: {{ by: [task] }} }}\n  \
             advantage: {{ op: advantage, inputs: group, with: {{ of: episode_return, scale: {scale} }} }}\n  \
             update: {{ op: gpu-update, inputs: advantage, with: {{ model: actor }} }}\n"
        );
        let pipeline = flow_pipeline::parse("x", &text, &[], &ops::catalog()).unwrap();
        ops::notes(&pipeline).into_iter().map(|(node, note)| format!("{node}: {note}")).collect()
    }

    #[test]
    fn a_small_reward_is_noted_where_its_size_is_lost() {
        let flat = notes("task: 0, won: 10, format: 0.01", "std");
        assert!(flat.starts_with("advantage: `scale: std` divides") && flat.contains("`format: 0.01` of `reward`"), "{flat}");
        assert_eq!(notes("task: 0, won: 10, format: 0.01", "none"), "");
        assert_eq!(notes("task: 0, won: 1, format: 0.5", "std"), "", "half of a win isn't small");
        assert_eq!(notes("task: 0, won: 10", "std"), "");
    }

    /// Two lost games of one and of three turns, paid 0.01 a turn: returns 0.01 and 0.03, and advantages of -0.71 and
    /// 0.71, as where one is won.
    #[test]
    fn in_a_group_of_one_outcome_a_hundredth_is_an_advantage_of_full_size() {
        let numbers = |numbers: [u32; 4]| Arc::new(UInt32Array::from(numbers.to_vec())) as ArrayRef;
        let texts = |text: &str| Arc::new(StringArray::from(vec![text; 4])) as ArrayRef;
        let rows = row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0; 4])) as ArrayRef),
            ("task", texts("a")),
            ("sample", numbers([0, 1, 1, 1])),
            ("attempt", numbers([0; 4])),
            ("turn", numbers([0, 0, 1, 2])),
            ("phase", texts("play")),
            ("reward", Arc::new(Float32Array::from(vec![0.01; 4]))),
            ("valid", Arc::new(BooleanArray::from(vec![true; 4]))),
            ("group", Arc::new(UInt64Array::from(vec![7; 4]))),
        ])
        .unwrap();
        let settings = AdvantageSettings::default();
        let compared = rows::compare(&rows::value(&[rows], &settings).unwrap(), &settings, &mut Default::default()).unwrap();
        let advantages = row::f32s(&compared[0], "advantage").unwrap().values().to_vec();
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert!((advantages[0] + half).abs() < 1e-3 && (advantages[1] - half).abs() < 1e-3, "{advantages:?}");
    }
}
