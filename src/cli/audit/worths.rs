//! What an audit says of a memory.

use crate::cli::error::{Error, Result};
use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Float64Type;
use flow_core::seed::text;
use flow_credit::stats::agreement::{clustered, mean_worth, Pair};
use flow_credit::stats::Interval;
use flow_log::{sql::literal, Run};
use std::collections::{BTreeMap, BTreeSet};

/// The seed of the bootstraps.
const SEED: u64 = 1;

/// Of fewer tasks the bootstrap's intervals are too narrow: simulated with normal draws.
const FEW: usize = 20;

/// What is taken away, by the role of the plays without it.
const TAKEN: [(&str, &str, &str); 3] = [
    ("without", "an entry", "less without it; others may then be retrieved"),
    ("another", "what it says", "less with another task's text in its place"),
    ("emptied", "the memory", "less with nothing in it"),
];

/// The figures of an audit of a memory, with 95% intervals over tasks.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Worths {
    episodes: usize,
    tasks: usize,
    /// Episodes that could not be restored, by reason.
    refused: BTreeMap<String, usize>,
    /// By role of the plays: `without` an entry, with `another` task's text in its place, or with an `emptied` memory.
    worth: BTreeMap<&'static str, Loss>,
}

/// The loss of episodes that played without something.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Loss {
    /// The mean, with a 95% interval over tasks.
    worth: Option<Interval>,
    /// How many episodes there are, and how many lost and won at the level of 5%.
    episodes: usize,
    helped: usize,
    harmed: usize,
}

impl Worths {
    /// Of the rows of the audit called `name`.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn of(run: &Run, name: &str) -> Result<Worths> {
        let sql = format!("SELECT task, role, audited, audited_error, refused FROM audit WHERE audit = {} ORDER BY ALL", literal(name));
        let answer = flow_log::query(run, &sql)?;
        let rows = concat_batches(&answer.schema, &answer.batches)?;
        let number = |i: usize| {
            rows.column(i).as_primitive_opt::<Float64Type>().ok_or_else(|| Error::request("the table `audit` was made by another version"))
        };
        let (worths, errors) = (number(2)?, number(3)?);
        let [tasks, roles, reasons] = [0, 1, 4].map(|i| rows.column(i).as_string::<i32>());
        let mut worths_of = Worths { episodes: 0, tasks: 0, refused: BTreeMap::new(), worth: BTreeMap::new() };
        let mut pairs: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
        for i in 0..rows.num_rows() {
            let policy = roles.value(i) == "policy";
            if worths.is_null(i) {
                *worths_of.refused.entry(reasons.value(i).to_owned()).or_default() += usize::from(policy);
                continue;
            }
            worths_of.episodes += usize::from(policy);
            let pair = Pair { cluster: text(tasks.value(i)), credit: 0.0, worth: -worths.value(i), error: errors.value(i) };
            pairs.entry(roles.value(i)).or_default().push(pair);
        }
        worths_of.tasks = pairs.get("policy").map_or(0, |pairs| pairs.iter().map(|pair| pair.cluster).collect::<BTreeSet<_>>().len());
        for (role, ..) in TAKEN {
            // Notes have no way without one of them.
            let Some(pairs) = pairs.remove(role) else { continue };
            let decided = |sign: f64| pairs.iter().filter(|pair| pair.decided() && pair.worth * sign > 0.0).count();
            let mean = clustered(&pairs, mean_worth, SEED);
            worths_of.worth.insert(role, Loss { worth: mean, episodes: pairs.len(), helped: decided(1.0), harmed: decided(-1.0) });
        }
        Ok(worths_of)
    }

    pub fn text(&self) -> String {
        let mut out = format!(
            "worth of a memory to {} episodes of {} tasks that began with its entries or notes, with 95% intervals over tasks\n\n",
            self.episodes, self.tasks
        );
        for (role, name, how) in TAKEN {
            let Some(Loss { worth: mean, episodes, helped, harmed }) = self.worth.get(role) else { continue };
            let shown = mean.map_or_else(|| "nothing to compare".into(), |i| format!("{:+.3}   {:+.3} to {:+.3}", i.value, i.low, i.high));
            out += &format!("{name:<14}{shown}   {how}; of {episodes} episodes it surely helped {helped} and harmed {harmed}\n");
        }
        if self.tasks < FEW {
            out += &format!("of fewer than {FEW} tasks such intervals are too narrow: five cover 83%, sixteen 92%\n");
        }
        for (why, episodes) in &self.refused {
            out += &format!("{episodes} episodes were not restored: {why}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;

    /// Of 2,000 draws of as many normal tasks, the share of intervals that hold the true mean, in percent.
    fn covered(tasks: u64) -> f64 {
        let mut random = Random::new(7);
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let mut one = || {
            let pairs: Vec<Pair> = (0..tasks).map(|cluster| Pair { cluster, credit: 0.0, worth: normal(), error: 0.0 }).collect();
            clustered(&pairs, mean_worth, SEED).is_some_and(|i| i.low <= 0.0 && i.high >= 0.0)
        };
        (0..2000).filter(|_| one()).count() as f64 / 20.0
    }

    /// What the text and docs/audit.md say of few tasks.
    #[test]
    fn few_tasks_have_narrow_intervals() {
        let (five, sixteen) = (covered(5), covered(16));
        assert!((five - 84.0).abs() < 3.0 && (sixteen - 92.0).abs() < 2.0, "{five} {sixteen}");
    }
}
