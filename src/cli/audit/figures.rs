//! What an audit says of a credit.

use crate::cli::error::{Error, Result};
use arrow::array::{Array, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::Float64Type;
use flow_core::seed::text;
use flow_credit::stats::agreement::{ceiling, clustered, correlation, mean_worth, same_sign, slope, Pair};
use flow_credit::stats::Interval;
use flow_log::{sql::literal, Run};
use std::collections::BTreeMap;

/// The seed of the bootstraps: the figures of a table are always the same.
const SEED: u64 = 1;

/// The parts of equal size into which turns are sorted by their credit.
const PARTS: usize = 5;

/// The figures of an audit, with 95% intervals over tasks.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Figures {
    pub turns: usize,
    pub tasks: usize,
    /// Turns that could not be restored, by reason.
    pub refused: BTreeMap<String, usize>,
    correlation: Option<Interval>,
    /// The correlation of a perfect credit with so many plays.
    ceiling: Option<f64>,
    same_sign: Option<Interval>,
    /// How many turns have a worth that differs from the policy's at the level of 5%, and the signs of these.
    decided: usize,
    same_sign_decided: Option<Interval>,
    slope: Option<Interval>,
    /// Turns of similar credit, the smallest credit first.
    by_size: Vec<SizePart>,
}

/// Turns of similar credit: their mean credit, and their mean worth with its interval.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct SizePart {
    credit: f64,
    audited: f64,
    low: f64,
    high: f64,
}

impl Figures {
    /// Of the rows of the audit called `name`.
    pub fn of(run: &Run, name: &str) -> Result<Figures> {
        let sql = format!(
            "SELECT task, credit, audited, audited_error, refused FROM audit WHERE audit = {} AND role = 'logged' ORDER BY ALL",
            literal(name)
        );
        let answer = flow_log::query(run, &sql)?;
        let rows = concat_batches(&answer.schema, &answer.batches)?;
        let number = |i: usize| {
            rows.column(i).as_primitive_opt::<Float64Type>().ok_or_else(|| Error::request("the table `audit` was made by another version"))
        };
        let (tasks, reasons) = (rows.column(0).as_string::<i32>(), rows.column(4).as_string::<i32>());
        let (credits, worths, errors) = (number(1)?, number(2)?, number(3)?);
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        let mut pairs = Vec::new();
        for i in 0..rows.num_rows() {
            if worths.is_null(i) {
                *refused.entry(reasons.value(i).to_owned()).or_default() += 1;
                continue;
            }
            pairs.push(Pair { cluster: text(tasks.value(i)), credit: credits.value(i), worth: worths.value(i), error: errors.value(i) });
        }
        Ok(Figures { refused, ..Figures::of_pairs(pairs) })
    }

    fn of_pairs(mut pairs: Vec<Pair>) -> Figures {
        let decided: Vec<Pair> = pairs.iter().filter(|pair| pair.decided()).copied().collect();
        pairs.sort_by(|a, b| a.credit.total_cmp(&b.credit));
        let part = |part: &[Pair]| {
            let credit = part.iter().map(|pair| pair.credit).sum::<f64>() / part.len() as f64;
            let Interval { value: audited, low, high } = clustered(part, mean_worth, SEED)?;
            Some(SizePart { credit, audited, low, high })
        };
        let by_size = pairs.chunks(pairs.len().div_ceil(PARTS).max(1)).filter_map(part).collect();
        let mut tasks: Vec<u64> = pairs.iter().map(|pair| pair.cluster).collect();
        tasks.sort_unstable();
        tasks.dedup();
        Figures {
            turns: pairs.len(),
            tasks: tasks.len(),
            refused: BTreeMap::new(),
            correlation: clustered(&pairs, correlation, SEED),
            ceiling: ceiling(&pairs.iter().collect::<Vec<_>>()),
            same_sign: clustered(&pairs, same_sign, SEED),
            decided: decided.len(),
            same_sign_decided: clustered(&decided, same_sign, SEED),
            slope: clustered(&pairs, slope, SEED),
            by_size,
        }
    }

    /// For people; `credit` is the column.
    pub fn text(&self, credit: &str) -> String {
        let mut out = format!(
            "`{credit}` of {} turns of {} tasks against what they were worth, with 95% intervals over tasks\n\n",
            self.turns, self.tasks
        );
        let line = |name: &str, figure: &Option<Interval>, scale: f64, more: &str| {
            let shown = figure.map_or_else(
                || "nothing to compare".into(),
                |i| format!("{:6.2}   {:.2} to {:.2}", scale * i.value, scale * i.low, scale * i.high),
            );
            format!("{name:<22}{shown}   {more}\n")
        };
        let ceiling = self.ceiling.map(|c| format!("a perfect credit would reach {c:.2} with so many plays")).unwrap_or_default();
        out += &line("correlation", &self.correlation, 1.0, &ceiling);
        out += &line("same sign, %", &self.same_sign, 100.0, "of all turns with a credit");
        out += &line(
            "same sign, decided, %",
            &self.same_sign_decided,
            100.0,
            &format!("of the {} turns whose worth surely differs from the policy's", self.decided),
        );
        out += &line("slope", &self.slope, 1.0, "worth more by one unit of credit");
        out += "\nby size of credit\n    credit   audited\n";
        for SizePart { credit, audited, low, high } in &self.by_size {
            out += &format!("{credit:10.3}{audited:10.3}   {low:.3} to {high:.3}\n");
        }
        for (why, turns) in &self.refused {
            out += &format!("{turns} turns were not restored: {why}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten turns of ten tasks whose credit is their worth: no figure may say otherwise.
    #[test]
    fn a_credit_that_is_the_worth_agrees_in_everything() {
        let pair = |i: u64| Pair { cluster: i, credit: i as f64 - 4.5, worth: i as f64 - 4.5, error: 0.0 };
        let figures = Figures::of_pairs((0..10).map(pair).collect());
        let one =
            |i: Option<Interval>| assert!(i.is_some_and(|i| [i.value, i.low, i.high].iter().all(|x| (x - 1.0).abs() < 1e-9)), "{i:?}");
        [figures.correlation, figures.same_sign, figures.same_sign_decided, figures.slope].into_iter().for_each(one);
        assert_eq!((figures.turns, figures.tasks, figures.decided, figures.ceiling), (10, 10, 10, Some(1.0)));
        assert_eq!(
            figures.by_size.iter().map(|part| (part.credit, part.audited)).collect::<Vec<_>>(),
            [-4.0, -2.0, 0.0, 2.0, 4.0].map(|x| (x, x))
        );
    }

    #[test]
    fn without_a_turn_there_is_nothing_to_say() {
        let text = Figures::of_pairs(vec![]).text("advantage");
        assert!(text.contains("nothing to compare") && !text.contains("NaN"), "{text}");
    }
}
