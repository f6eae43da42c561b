//! Baselines other than the group's mean.

use super::*;
use crate::{Baseline, Ema, Equal, Singleton};

/// Returns 1, 4, 2, 2: the best is 2 better than the second best, and no other row has an advantage. By verl's
/// grpo_passk it is divided by the deviation, sqrt(4.75 / 3) = 1.258306: 1.589437.
#[test]
fn the_best_less_the_second_best() {
    let by = |scale| AdvantageSettings { baseline: Baseline::SecondBest, scale, ..Default::default() };
    let result = of_group(&[1.0, 4.0, 2.0, 2.0], &by(Scale::None));
    close(&result.advantage, &[0.0, 2.0, 0.0, 0.0]);
    close(&result.baseline, &[1.0, 2.0, 2.0, 2.0]);
    close(&of_group(&[1.0, 4.0, 2.0, 2.0], &by(Scale::Std)).advantage, &[0.0, 1.589437, 0.0, 0.0]);
    // Two that are equally good, equal ones, one alone, none.
    close(&of_group(&[3.0, 3.0, 1.0], &by(Scale::None)).advantage, &[0.0; 3]);
    close(&of_group(&[3.0, 3.0], &by(Scale::Std)).advantage, &[0.0; 2]);
    close(&of_group(&[3.0], &by(Scale::None)).advantage, &[0.0]);
    close(&of_group(&[3.0], &AdvantageSettings { singleton: Singleton::Raw, ..by(Scale::None) }).advantage, &[3.0]);
    assert!(of_group(&[], &by(Scale::None)).advantage.is_empty());
}

/// A running mean of 0.5 before an iteration with returns of 1 and 3, decay 0.9: after it 0.45 + 0.2 = 0.65.
#[test]
fn a_running_mean_over_iterations() {
    let by = |ema| AdvantageSettings { baseline: Baseline::Ema, scale: Scale::None, decay: 0.9, ema, ..Default::default() };
    let of = |values: &[f64], dropped: &[bool], settings: &AdvantageSettings| {
        let (trajectory, running): (Vec<u64>, Vec<f32>) = (0..values.len()).map(|i| (i as u64, 0.5)).unzip();
        let columns = Columns { trajectory: &trajectory, running: &running, dropped, ..Default::default() };
        advantages(values, &vec![7; values.len()], &columns, settings)
    };
    let before = of(&[1.0, 3.0], &[], &by(Ema::Before));
    close(&before.advantage, &[0.5, 2.5]);
    close(&before.running, &[0.65; 2]);
    close(&of(&[1.0, 3.0], &[], &by(Ema::After)).advantage, &[0.35, 2.35]);
    // A row that is equal within its group, or alone in it, is still compared with the running mean.
    close(&of(&[1.0, 1.0], &[], &AdvantageSettings { equal: Equal::Keep, ..by(Ema::Before) }).advantage, &[0.5; 2]);
    close(&of(&[1.0], &[], &by(Ema::Before)).advantage, &[0.5]);
    // A group of rows that were dropped leaves the mean as it was, and the first mean is 0.
    close(&of(&[1.0], &[true], &by(Ema::Before)).running, &[0.5]);
    close(&of_group(&[2.0], &by(Ema::Before)).advantage, &[2.0]);
    assert!(of(&[], &[], &by(Ema::After)).running.is_empty());
}
