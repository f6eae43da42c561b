//! The metrics of episodes, computed from their logged rows.

use super::super::episode::rows;
use super::super::error::Result;
use super::iterations::iterations_text;
use crate::ops;
use flow_core::row::BRANCH_OF;
use flow_log::{sql::quoted, Manifest, Run};
use flow_pipeline::{Node, Pipeline};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the rows of one iteration give. Branches count among turns and failures alone.
#[derive(Default)]
struct Sums {
    turns: f64,
    own_turns: f64,
    invalid: f64,
    episodes: f64,
    /// Turns that were won.
    won: f64,
    reward: f64,
    /// The sum of the rewards without their signs, which bounds the rounding of a sum of 32-bit numbers.
    size: f64,
    failed: f64,
    trials: f64,
    tasks: f64,
    /// By attempt, the trials that it was the first to win.
    first: BTreeMap<u64, f64>,
}

/// Failed episodes of a player, as a table.
pub fn failures(table: &Node, player: &Node) -> String {
    let names = [&table.id, &player.id].map(|id| flow_log::sql::literal(id)).join(", ");
    format!("(SELECT iteration, task, sample, attempt FROM errors WHERE phase = 'play' AND node IN ({names}))")
}

/// Metrics of a player that its rows contradict, a sentence each.
///
/// # Errors
/// If rows can't be read.
pub fn contradictions(run: &Run, manifest: &Manifest, pipeline: &Pipeline, table: &Node, player: &Node, end: u64) -> Result<Vec<String>> {
    let branches = flow_log::columns(run, manifest, &table.id)?.iter().any(|column| column == BRANCH_OF);
    let sums = sums(run, table, player, branches, end)?;
    let rowless = rowless(pipeline, player);
    let (mut differing, mut unknown): (BTreeMap<String, BTreeSet<u64>>, BTreeMap<String, BTreeSet<u64>>) = Default::default();
    for committed in manifest.committed.iter().filter(|committed| committed.iteration < end) {
        let metrics = [&player.id, &table.id].into_iter().find_map(|id| committed.metrics.get(id));
        let own = committed.metrics.get(&player.id).into_iter().flatten();
        for name in own.map(|(name, _)| name).filter(|name| !ops::episode_metric(name)) {
            unknown.entry(name.clone()).or_default().insert(committed.iteration);
        }
        let Some(sums) = sums.get(&committed.iteration) else {
            let counted =
                ["turns", "failed"].into_iter().filter(|name| metrics.is_some_and(|all| all.get(*name).is_some_and(|n| *n != 0.0)));
            for name in counted {
                differing.entry(name.into()).or_default().insert(committed.iteration);
            }
            continue;
        };
        for (name, values) in sums.expected(branches, rowless) {
            let prefixed = format!("expert_{name}");
            let logged = metrics.and_then(|metrics| metrics.get(&name).or_else(|| metrics.get(&prefixed)));
            let optional = !["success", "return", "turns", "failed"].contains(&name.as_str());
            let agrees =
                |value: &f64| values.iter().any(|(sum, slack)| (value - sum).abs() <= *slack || value.is_nan() && !sum.is_finite());
            if !logged.map_or(optional, agrees) {
                differing.entry(name).or_default().insert(committed.iteration);
            }
        }
    }
    let sentence = |(name, iterations): (String, BTreeSet<u64>)| {
        let where_ = iterations_text(&iterations);
        format!("the metric `{name}` of `{}` isn't what its rows give, in {where_}", player.id)
    };
    let unnamed = |(name, iterations): (String, BTreeSet<u64>)| {
        format!("`{}` has a metric `{name}`, which a node of its kind doesn't have, in {}", player.id, iterations_text(&iterations))
    };
    Ok(differing.into_iter().map(sentence).chain(unknown.into_iter().map(unnamed)).collect())
}

/// Whether an episode of the player may have no row: a program may end before its first call.
pub fn rowless(pipeline: &Pipeline, player: &Node) -> bool {
    ops::programs(pipeline).next().is_some() || player.op == ops::importing().name
}

impl Sums {
    /// By name, the values that a metric may have, each with the difference that rounding may make.
    fn expected(&self, branches: bool, rowless: bool) -> Vec<(String, Vec<(f64, f64)>)> {
        let share = |part: f64, whole: f64| part / whole.max(1.0);
        let exact = |value: f64| vec![(value, 1e-9 * (1.0 + value.abs()))];
        let mut all = vec![("turns".to_owned(), exact(self.turns)), ("failed".into(), exact(self.failed))];
        if rowless {
            return all;
        }
        all.push(("invalid".into(), exact(share(self.invalid, self.own_turns))));
        all.push(("return".into(), vec![(share(self.reward, self.episodes), 1e-5 * (1e-3 + share(self.size, self.episodes)))]));
        // Which of the failed episodes were branches isn't logged.
        if branches && self.failed > 0.0 {
            return all;
        }
        let won: f64 = self.first.values().sum();
        let of_trials = share(won, self.trials);
        all.push(("success".into(), [exact(of_trials), exact(share(self.won, self.episodes + self.failed))].concat()));
        let mut within = 0.0;
        for attempt in 0..=self.first.keys().last().copied().unwrap_or(0) {
            within += self.first.get(&attempt).copied().unwrap_or(0.0);
            all.push((format!("pass@{}", attempt + 1), exact(share(within, self.trials))));
        }
        all.push(("attempts".into(), exact(share(self.episodes + self.failed, self.trials))));
        all.push(("panel".into(), exact(self.tasks)));
        all
    }
}

/// The sums of each iteration before `end` that has rows or failures.
fn sums(run: &Run, table: &Node, player: &Node, branches: bool, end: u64) -> Result<BTreeMap<u64, Sums>> {
    let (all, failed) = (quoted(&table.id), failures(table, player));
    // Branches are further samples.
    let own = ops::samples(player).filter(|_| branches).map_or("true".into(), |samples| format!("sample < {samples}"));
    let episodes = format!(
        "SELECT iteration, task, sample, attempt, count(*) AS turns, count(*) FILTER (WHERE NOT valid) AS invalid, \
         count(*) FILTER (WHERE won) AS won, bool_or(won) AS ends_won, sum(reward::DOUBLE) AS reward, sum(abs(reward::DOUBLE)) AS size \
         FROM {all} WHERE phase = 'play' AND iteration < {end} AND {own} GROUP BY ALL"
    );
    let failed = format!("(SELECT * FROM {failed} WHERE iteration < {end})");
    let mut sums: BTreeMap<u64, Sums> = BTreeMap::new();
    type Add<'a> = &'a dyn Fn(&mut Sums, &dyn Fn(&str) -> f64);
    let mut each = |sql: &str, add: Add| -> Result<()> {
        for row in rows(&flow_log::query(run, sql)?)? {
            let value = |name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
            add(sums.entry(value("iteration") as u64).or_default(), &value);
        }
        Ok(())
    };
    each(
        &format!("SELECT iteration, count(*) AS n FROM {all} WHERE phase = 'play' AND iteration < {end} GROUP BY ALL"),
        &|sums, value| {
            sums.turns = value("n");
        },
    )?;
    each(
        &format!(
            "SELECT iteration, sum(turns)::BIGINT AS turns, sum(invalid)::BIGINT AS invalid, sum(won)::BIGINT AS won, count(*) AS n, \
             sum(reward) AS reward, sum(size) AS size FROM ({episodes}) GROUP BY ALL"
        ),
        &|sums, value| {
            (sums.own_turns, sums.invalid, sums.won) = (value("turns"), value("invalid"), value("won"));
            (sums.episodes, sums.reward, sums.size) = (value("n"), value("reward"), value("size"));
        },
    )?;
    each(&format!("SELECT iteration, count(*) AS n FROM {failed} GROUP BY ALL"), &|sums, value| sums.failed = value("n"))?;
    let trials = format!(
        "SELECT iteration, task, sample, min(attempt) FILTER (WHERE ends_won) AS first FROM \
         (SELECT iteration, task, sample, attempt, ends_won FROM ({episodes}) UNION ALL \
         SELECT iteration, task, sample, attempt, false FROM {failed}) GROUP BY ALL"
    );
    each(&format!("SELECT iteration, count(*) AS n, count(DISTINCT task) AS names FROM ({trials}) GROUP BY ALL"), &|sums, value| {
        (sums.trials, sums.tasks) = (value("n"), value("names"));
    })?;
    let first = format!("SELECT iteration, first, count(*) AS n FROM ({trials}) WHERE first IS NOT NULL GROUP BY ALL");
    each(&first, &|sums, value| {
        sums.first.insert(value("first") as u64, value("n"));
    })?;
    Ok(sums)
}
