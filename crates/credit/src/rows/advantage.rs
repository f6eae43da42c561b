//! The two steps of an advantage: the columns `return` (and `value_target`), then `baseline`, `scale`, `advantage` and
//! `used`. An estimator of tokens makes `token_advantages` and `token_targets` besides: then `return` and
//! `value_target` are those of the first token, and `advantage` is the mean over the tokens.

use super::episodes::{episodes, reflections};
use super::tokens::TokenSteps;
use crate::{advantages, values, AdvantageSettings, Baseline, Columns, RowStatus, Unit};
use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray};
use flow_core::row::{self, f32_lists, keys, Kind, RowError, View};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Adds `return`, and where a critic was asked `value_target`. Needs whole trajectories, and all of a trial for an
/// estimator that looks across attempts.
pub fn value(batches: &[RecordBatch], with: &AdvantageSettings) -> Result<Vec<RecordBatch>, RowError> {
    let Some(view) = View::sorted(batches)? else { return Ok(vec![]) };
    let estimator = with.of.estimator();
    // Rows of an older log don't name cuts.
    let truncated = if view.has("truncated") { &["truncated"][..] } else { &[] };
    let rows = view.read(&[&["task", "sample", "attempt", "phase", "reward", "valid"], truncated, estimator.needs].concat())?;
    let cut: Vec<bool> = row::texts(&rows, "truncated").map_or(vec![], |texts| texts.iter().map(|text| text != Some("")).collect());
    let valid: Vec<bool> = row::bools(&rows, "valid")?.values().iter().collect();
    let floats = estimator.needs.iter().filter(|name| row::kind(name) == Some(Kind::F32));
    let named = floats.map(|name| Ok((*name, &row::f32s(&rows, name)?.values()[..])));
    let named: Vec<(&str, &[f32])> = named.collect::<Result<_, RowError>>()?;
    let columns = Columns {
        reward: row::f32s(&rows, "reward")?.values(),
        valid: &valid,
        cut: &cut,
        named: &named,
        trial: &keys(&rows, &["task", "sample"]),
        prompt: &if rows.column_by_name(row::BRANCH_OF).is_some() { keys(&rows, &["task", row::BRANCH_OF, "turn"]) } else { vec![] },
        reflection: &reflections(&rows)?,
        ..Default::default()
    };
    let episodes = episodes(&rows)?;
    let added = if let Some(column) = estimator.tokens {
        value_tokens(&view, column, &columns, &episodes, with)?
    } else {
        let values = values(&columns, &episodes, with);
        let targets = estimator.target.map(|target| f32s(&target(&values, &columns)));
        let mut added = vec![("return", column(f32s(&values)))];
        added.extend(targets.map(|targets| ("value_target", column(targets))));
        // What an estimator of tokens said upstream holds no longer.
        let none = ["token_advantages", "token_targets"].into_iter().filter(|name| view.has(name));
        added.extend(none.map(|name| (name, f32_lists(std::iter::repeat_n(&[][..], view.len())))));
        added
    };
    view.with(added)
}

/// The columns that [`value`] makes by an estimator of tokens that reads the lists of `read`: `token_advantages` as
/// they are before any comparison.
fn value_tokens(
    view: &View,
    read: &str,
    rows: &Columns,
    episodes: &[Range<usize>],
    with: &AdvantageSettings,
) -> Result<Vec<(&'static str, ArrayRef)>, RowError> {
    let lists = view.lists(read)?;
    let tokens = TokenSteps::new((0..view.len()).map(|i| lists.length(i)).collect());
    // What a critic expects is known of a turn without a token, too.
    let named = if read == "token_values" { "value" } else { read };
    let others = if named == "value" { rows.named("value").to_vec() } else { vec![0.0; view.len()] };
    let own = tokens.own(&lists, &others);
    let (reward, valid) = (tokens.last(rows.reward, 0.0), tokens.last(rows.valid, true));
    let turn: Vec<u64> = tokens.rows().map(|row| row as u64).collect();
    let cut = if rows.cut.is_empty() { vec![] } else { tokens.last(rows.cut, false) };
    let columns = Columns { reward: &reward, valid: &valid, cut: &cut, named: &[(named, &own)], turn: &turn, ..Default::default() };
    let values = values(&columns, &tokens.ranges(episodes), with);
    let mut added = vec![("return", column(tokens.first(&f32s(&values)))), ("token_advantages", f32_lists(tokens.lists(&f32s(&values))))];
    if let Some(target) = with.of.estimator().target {
        let targets = f32s(&target(&values, &columns));
        added.extend([("value_target", column(tokens.first(&targets))), ("token_targets", f32_lists(tokens.lists(&targets)))]);
    }
    Ok(added)
}

fn f32s(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

fn column(values: Vec<f32>) -> ArrayRef {
    Arc::new(Float32Array::from(values))
}

/// The column `used`; a reason from `before` stands.
fn reasons(used: &[RowStatus], before: Option<&StringArray>) -> ArrayRef {
    let reason = used.iter().enumerate().map(|(i, used)| match (used, before) {
        (RowStatus::Upstream, Some(before)) => before.value(i),
        (used, _) => used.as_str(),
    });
    Arc::new(StringArray::from_iter_values(reason))
}

/// The running mean of each group over iterations (`baseline: ema`).
#[derive(Default)]
pub struct RunningMeans(BTreeMap<u64, f32>);

impl RunningMeans {
    /// Takes up what the rows of earlier iterations, in any order, say: of each group its last one.
    pub fn restore(&mut self, past: &[RecordBatch]) -> Result<(), RowError> {
        let mut latest: BTreeMap<u64, (u64, f32)> = BTreeMap::new();
        for rows in past {
            let (iterations, running) = (row::u64s(rows, "iteration")?.values(), row::f32s(rows, "running")?.values());
            for (i, group) in row::u64s(rows, "group")?.values().iter().enumerate() {
                let newest = latest.entry(*group).or_insert((iterations[i], running[i]));
                if newest.0 < iterations[i] {
                    *newest = (iterations[i], running[i]);
                }
            }
        }
        self.0.extend(latest.into_iter().map(|(group, (_, running))| (group, running)));
        Ok(())
    }
}

/// The columns that [`compare`] makes.
pub fn columns_made(with: &AdvantageSettings) -> Vec<&'static str> {
    let mut columns = vec!["baseline", "scale", "advantage", "used"];
    columns.extend((with.baseline == Baseline::Ema).then_some("running"));
    columns.extend(with.of.estimator().tokens.map(|_| "token_advantages"));
    columns
}

/// The columns that [`compare`] reads, beside the rows' names.
pub fn compared(with: &AdvantageSettings) -> Vec<&'static str> {
    let mut columns = vec!["return", "reward", "group", "used"];
    columns.extend((with.unit == Unit::Token).then_some("response_tokens"));
    columns.extend(with.of.estimator().tokens.map(|_| "token_advantages"));
    columns
}

/// Adds `baseline`, `scale`, `advantage` and `used`, and by `baseline: ema` `running`, which `means` go on with. Needs
/// whole groups. A row that was dropped upstream keeps its reason.
pub fn compare(batches: &[RecordBatch], with: &AdvantageSettings, means: &mut RunningMeans) -> Result<Vec<RecordBatch>, RowError> {
    let Some(view) = View::sorted(batches)? else { return Ok(vec![]) };
    let mut columns = vec!["task", "sample", "attempt", "phase", "return", "reward", "group"];
    columns.extend(view.has("used").then_some("used"));
    let rows = view.read(&columns)?;
    let returns = row::f32s(&rows, "return")?.values();
    let rewards = row::f32s(&rows, "reward")?.values();
    let groups = row::u64s(&rows, "group")?.values();
    let before = row::texts(&rows, "used").ok();
    let dropped: Vec<bool> = before.iter().flat_map(|used| used.iter()).map(|used| used != Some("yes")).collect();
    let running: Vec<f32> = groups.iter().map(|group| means.0.get(group).copied().unwrap_or(0.0)).collect();
    let ema = |running: &[f32]| (!running.is_empty()).then(|| ("running", column(running.to_vec())));
    // A reflection is no turn of its attempt, so the phase tells them apart.
    let trajectory = keys(&rows, &["task", "sample", "attempt", "phase"]);
    if with.of.estimator().tokens.is_some() {
        let lists = view.lists("token_advantages")?;
        let tokens = TokenSteps::new((0..view.len()).map(|i| lists.length(i)).collect());
        let values: Vec<f64> = tokens.own(&lists, returns).into_iter().map(f64::from).collect();
        let (trajectory, dropped) = (tokens.each(&trajectory), if dropped.is_empty() { vec![] } else { tokens.each(&dropped) });
        let (ones, rewards, running) = (vec![1; tokens.len()], tokens.each(rewards), tokens.each(&running));
        let columns = Columns {
            reward: &rewards,
            trajectory: &trajectory,
            tokens: &ones,
            dropped: &dropped,
            running: &running,
            ..Default::default()
        };
        let result = advantages(&values, &tokens.each(groups), &columns, with);
        let running = if result.running.is_empty() { vec![] } else { tokens.first(&result.running) };
        means.0.extend(groups.iter().copied().zip(running.iter().copied()));
        let mut made = vec![
            ("baseline", column(tokens.first(&result.baseline))),
            ("scale", column(tokens.first(&result.scale))),
            ("advantage", column(tokens.mean(&result.advantage))),
            ("used", reasons(&tokens.first(&result.used), before)),
            ("token_advantages", f32_lists(tokens.lists(&result.advantage))),
        ];
        made.extend(ema(&running));
        return view.with(made);
    }
    let values: Vec<f64> = returns.iter().map(|v| f64::from(*v)).collect();
    let tokens: Vec<u32> = match with.unit {
        Unit::Token => {
            let responses = view.lists("response_tokens")?;
            (0..view.len()).map(|i| responses.length(i) as u32).collect()
        }
        Unit::Trajectory | Unit::Turn => vec![],
    };
    let columns =
        Columns { reward: rewards, trajectory: &trajectory, tokens: &tokens, dropped: &dropped, running: &running, ..Default::default() };
    let result = advantages(&values, groups, &columns, with);
    means.0.extend(groups.iter().copied().zip(result.running.iter().copied()));
    let mut made = vec![
        ("baseline", column(result.baseline)),
        ("scale", column(result.scale)),
        ("advantage", column(result.advantage)),
        ("used", reasons(&result.used, before)),
    ];
    made.extend(ema(&result.running));
    view.with(made)
}

/// How many groups have no advantage but 0, so that nothing is learnt from them, and how many there are. Takes what
/// [`compare`] gives.
pub fn equal_groups(compared: &[RecordBatch]) -> Result<(usize, usize), RowError> {
    let mut differ: BTreeMap<u64, bool> = BTreeMap::new();
    for batch in compared {
        let advantages = row::f32s(batch, "advantage")?.values();
        for (group, advantage) in row::u64s(batch, "group")?.values().iter().zip(advantages) {
            *differ.entry(*group).or_default() |= *advantage != 0.0;
        }
    }
    Ok((differ.values().filter(|differs| !**differs).count(), differ.len()))
}

/// How many groups have a return below 0, which `scale: mean` leaves undivided, and how many there are. Takes what
/// [`compare`] gives.
pub fn groups_below_zero(compared: &[RecordBatch]) -> Result<(usize, usize), RowError> {
    let mut below: BTreeMap<u64, bool> = BTreeMap::new();
    for batch in compared {
        let (returns, used) = (row::f32s(batch, "return")?.values(), row::texts(batch, "used")?);
        for (i, group) in row::u64s(batch, "group")?.values().iter().enumerate() {
            *below.entry(*group).or_default() |= returns[i] < 0.0 && used.value(i) == "yes";
        }
    }
    Ok((below.values().filter(|below| **below).count(), below.len()))
}

/// How many samples of tasks these rows are of, and of how many tasks.
pub fn samples(rows: &[RecordBatch]) -> Result<(usize, usize), RowError> {
    let mut samples = BTreeSet::new();
    for batch in rows {
        let (tasks, numbers) = (row::texts(batch, "task")?, row::u32s(batch, "sample")?.values());
        samples.extend(numbers.iter().enumerate().map(|(i, sample)| (tasks.value(i), *sample)));
    }
    let tasks: BTreeSet<&str> = samples.iter().map(|(task, _)| *task).collect();
    Ok((samples.len(), tasks.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EstimatorName, Scale};
    use arrow::array::{BooleanArray, ListArray, UInt32Array, UInt64Array};
    use arrow::compute::take_record_batch;
    use arrow::datatypes::UInt32Type;
    use flow_core::seed::Random;

    /// Six trajectories of two turns; the rewards and the tokens of a row follow from where it stands.
    fn rows() -> RecordBatch {
        let n = 12u32;
        let u32s = |f: &dyn Fn(u32) -> u32| Arc::new(UInt32Array::from_iter_values((0..n).map(f))) as ArrayRef;
        let tokens = (0..n).map(|i| Some(vec![Some(7); 1 + i as usize % 3]));
        let lists = ListArray::from_iter_primitive::<UInt32Type, _, _>(tokens);
        let lists = arrow::compute::cast(&lists, &row::Kind::U32List.arrow()).unwrap();
        row::batch(vec![
            ("task", Arc::new(StringArray::from_iter_values((0..n).map(|i| format!("task-{}", i / 4))))),
            ("sample", u32s(&|i| i / 2 % 2)),
            ("attempt", u32s(&|_| 0)),
            ("turn", u32s(&|i| i % 2)),
            ("phase", Arc::new(StringArray::from(vec!["play"; n as usize]))),
            ("response_tokens", lists),
            ("reward", Arc::new(Float32Array::from_iter_values((0..n).map(|i| (i * i % 7) as f32 - 0.1)))),
            ("valid", Arc::new(BooleanArray::from_iter((0..n).map(|i| Some(i % 5 != 0))))),
            ("group", Arc::new(UInt64Array::from_iter_values((0..n).map(|i| u64::from(i / 4))))),
        ])
        .unwrap()
    }

    fn both(rows: &[RecordBatch], with: &AdvantageSettings) -> RecordBatch {
        let compared = compare(&value(rows, with).unwrap(), with, &mut RunningMeans::default()).unwrap();
        row::sorted(&compared).unwrap().unwrap()
    }

    #[test]
    fn rows_in_any_order_and_any_batches_give_the_same_bits() {
        let rows = rows();
        let mut order: Vec<u32> = (0..12).collect();
        Random::new(4).shuffle(&mut order);
        let shuffled = take_record_batch(&rows, &UInt32Array::from(order)).unwrap();
        for unit in [Unit::Trajectory, Unit::Turn, Unit::Token] {
            let with = AdvantageSettings { unit, invalid_penalty: 0.1, ..Default::default() };
            let expected = both(std::slice::from_ref(&rows), &with);
            assert_eq!(both(&[shuffled.slice(7, 5), shuffled.slice(0, 7)], &with), expected);
        }
    }

    #[test]
    fn an_advantage_is_compared_once_more_over_the_whole_batch() {
        let first = AdvantageSettings { of: EstimatorName::StepReturn, scale: Scale::None, ..Default::default() };
        let task = both(&[rows()], &first);
        let batch = row::with(&task, "group", Arc::new(UInt64Array::from(vec![0; 12]))).unwrap();
        let with = AdvantageSettings { of: EstimatorName::Advantage, unit: Unit::Token, eps: 0.0, ..Default::default() };
        let compared = both(&[batch], &with);
        assert_eq!(row::f32s(&compared, "return").unwrap(), row::f32s(&task, "advantage").unwrap());
        let tokens = |i: usize| 1.0 + (i % 3) as f32;
        let sum = |f: &dyn Fn(f32) -> f32| -> f32 {
            row::f32s(&compared, "advantage").unwrap().values().iter().enumerate().map(|(i, a)| tokens(i) * f(*a)).sum()
        };
        // 12 rows of 1, 2 and 3 tokens in turn: 24 tokens.
        assert!(sum(&|a| a).abs() < 1e-5 && (sum(&|a| a * a) - 23.0).abs() < 1e-4, "mean 0 and variance 1 over the tokens");
    }

    #[test]
    fn groups_without_spread_are_counted() {
        let with = AdvantageSettings::default();
        let equal = |rows: &RecordBatch| {
            equal_groups(&compare(&value(std::slice::from_ref(rows), &with).unwrap(), &with, &mut RunningMeans::default()).unwrap())
                .unwrap()
        };
        assert_eq!(equal(&rows()), (0, 3));
        let rewards: Vec<f32> = (0..12).map(|i| if i < 4 { 0.1 * (1 + i % 2) as f32 } else { i as f32 * i as f32 }).collect();
        let groups: Vec<u64> = (0..12).map(|i| if i / 2 == 3 { 9 } else { i / 4 }).collect();
        let rows = row::with(&rows(), "reward", Arc::new(Float32Array::from(rewards))).unwrap();
        let rows = row::with(&rows, "group", Arc::new(UInt64Array::from(groups))).unwrap();
        assert_eq!(equal(&rows), (3, 4), "two that are alone, and one whose returns are equal");
        assert_eq!(equal_groups(&[]).unwrap(), (0, 0));
    }

    /// Groups 0, 1 and 2 of four rows each. What a run that goes on takes from its log is what it had, however the rows
    /// come.
    #[test]
    fn running_means_are_restored_from_the_log() {
        let with = AdvantageSettings { baseline: Baseline::Ema, scale: Scale::None, decay: 0.9, ..Default::default() };
        let (mut means, mut log) = (RunningMeans::default(), Vec::new());
        for iteration in 0..3 {
            let rows = row::with(&rows(), "iteration", Arc::new(UInt64Array::from(vec![iteration; 12]))).unwrap();
            log.extend(compare(&value(&[rows], &with).unwrap(), &with, &mut means).unwrap());
        }
        log.rotate_left(2);
        let mut restored = RunningMeans::default();
        restored.restore(&log).unwrap();
        assert_eq!((restored.0.len(), &restored.0), (3, &means.0));
        let first = row::f32s(&log[1], "baseline").unwrap().values().to_vec();
        assert_eq!(first, [0.0; 12], "the first iteration has nothing before it");
    }

    #[test]
    fn a_reason_given_upstream_is_kept() {
        let used: Vec<&str> = (0..12).map(|i| if i < 4 { "because" } else { "yes" }).collect();
        let rows = row::with(&rows(), "used", Arc::new(StringArray::from(used.clone()))).unwrap();
        let compared = both(&[rows], &AdvantageSettings::default());
        assert_eq!(row::texts(&compared, "used").unwrap(), &StringArray::from(used));
        assert_eq!(row::f32s(&compared, "advantage").unwrap().values()[..4], [0.0; 4]);
    }
}
