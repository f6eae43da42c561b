//! The verdicts of a page: of each difference its p, adjusted for all comparisons of the page.

use crate::cell::{cell, difference, TableCell};
use crate::error::Result;
use crate::file::{ColumnSpec, RowSpec, TableSpec};
use crate::stats::{around_zero, difference_p, holm, two_kinds};
use crate::values::StudyValues;

/// A chance of error that is accepted for a page.
pub const ERROR: f64 = 0.05;

/// The verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Above,
    Below,
    /// No significant difference.
    Neither,
}

/// A difference that a page gives a verdict on.
pub struct Comparison {
    /// The places of its table, row and column.
    at: [usize; 3],
    pub difference: TableCell,
    /// Adjusted by Holm's method; none of fewer than two seeds, which tell nothing.
    p: Option<f64>,
}

/// All comparisons of a page.
pub struct Comparisons {
    all: Vec<Comparison>,
    /// How many they are, those with the same numbers counted once.
    pub count: usize,
}

impl Comparisons {
    /// # Errors
    /// If a figure can't be read.
    pub fn of(values: &StudyValues) -> Result<Comparisons> {
        let mut all: Vec<Comparison> = Vec::new();
        for (t, table) in values.study.tables.iter().enumerate() {
            for (r, row) in table.rows.iter().enumerate() {
                for (c, column) in table.columns.iter().enumerate() {
                    if let Some(difference) = compared(values, table, row, column)? {
                        all.push(Comparison { at: [t, r, c], difference, p: None });
                    }
                }
            }
        }
        let count = adjust(&mut all);
        Ok(Comparisons { all, count })
    }

    /// The comparison in the cell of this table, row and column.
    pub fn at(&self, at: [usize; 3]) -> Option<&Comparison> {
        self.all.iter().find(|comparison| comparison.at == at)
    }

    /// The smallest and the largest difference, of those in a column, that its verdicts find with 80% probability at
    /// the level that Holm's method begins with.
    pub fn detectable(&self, table: usize, column: usize) -> Option<(f64, f64)> {
        let those = self.all.iter().filter(|comparison| comparison.at[0] == table && comparison.at[2] == column);
        let level = ERROR / self.count.max(1) as f64;
        let all: Vec<f64> = those.filter_map(|c| Some(c.difference.estimate()?.detectable(level, 0.8))).collect();
        all.iter().map(|d| (*d, *d)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// The difference that a verdict is given on: the row itself, or what it has more than the row that the table is
/// `against`.
fn compared(values: &StudyValues, table: &TableSpec, row: &RowSpec, column: &ColumnSpec) -> Result<Option<TableCell>> {
    if row.less.is_some() {
        return cell(values, table, row, column).map(Some);
    }
    match table.comparator().filter(|against| !row.plain && against.name != row.name) {
        Some(against) => difference(values, table, [row, against], column).map(Some),
        None => Ok(None),
    }
}

/// Gives each its p; returns their number, including verdicts that wait for their seeds.
fn adjust(all: &mut [Comparison]) -> usize {
    let mut distinct: Vec<(usize, f64)> = Vec::new();
    let mut same: Vec<(usize, usize)> = Vec::new();
    let mut waiting = 0;
    for (i, comparison) in all.iter().enumerate() {
        let Some(p) = p(&comparison.difference) else {
            waiting += usize::from(comparison.difference.missing > 0);
            continue;
        };
        let known = distinct.iter().position(|(first, _)| same_numbers(&all[*first].difference, &comparison.difference));
        same.push((i, known.unwrap_or(distinct.len())));
        if known.is_none() {
            distinct.push((i, p));
        }
    }
    let count = distinct.len() + waiting;
    let adjusted = holm(&distinct.iter().map(|(_, p)| *p).collect::<Vec<f64>>(), count);
    same.into_iter().for_each(|(i, which)| all[i].p = Some(adjusted[which]));
    count
}

/// Two-sided: that of the mean, or of a sign test where seeds are of two kinds around 0.
fn p(difference: &TableCell) -> Option<f64> {
    difference_p(&difference.values(), difference.of_one_kind().as_ref())
}

/// Whether two differences are of the same numbers, or of one another's opposite.
fn same_numbers(a: &TableCell, b: &TableCell) -> bool {
    let all =
        |cell: &TableCell| cell.seeds.iter().map(|(_, value)| *value).chain(cell.by_task.iter().flatten().copied()).collect::<Vec<f64>>();
    let (a, b) = (all(a), all(b));
    a == b || (a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| *a == -b))
}

impl Comparison {
    /// Above or below, where that is significant on this page: by the mean, or by most seeds where p is a sign test's.
    pub fn direction(&self) -> Direction {
        let values = self.difference.values();
        let sides = |values: &[f64]| values.iter().filter(|v| **v != 0.0).map(|v| v.signum()).sum::<f64>();
        let side = if two_kinds(&values).is_some_and(around_zero) { sides(&values) } else { values.iter().sum() };
        match self.p {
            Some(p) if p <= ERROR && side > 0.0 => Direction::Above,
            Some(p) if p <= ERROR && side < 0.0 => Direction::Below,
            _ => Direction::Neither,
        }
    }

    /// The verdict with its p.
    pub fn text(&self) -> Option<String> {
        let p = self.p?;
        let p = if p < 0.001 { "p < 0.001".into() } else { format!("p {p:.3}") };
        let verdict = match self.direction() {
            Direction::Above => "above",
            Direction::Below => "below",
            Direction::Neither => "not significant",
        };
        Some(format!("{verdict} ({p})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparisons(all: &[&[f64]]) -> (Vec<Option<String>>, usize) {
        let cell =
            |values: &[f64]| TableCell { seeds: (1..).zip(values.iter().copied()).collect(), missing: 0, by_task: vec![], whole: None };
        let mut all: Vec<Comparison> = all.iter().map(|v| Comparison { at: [0; 3], difference: cell(v), p: None }).collect();
        let count = adjust(&mut all);
        (all.iter().map(Comparison::text).collect(), count)
    }

    /// 3, 4, 5 is 4 * sqrt(3) = 6.93 standard errors from 0: p = 1 - 6.93 / sqrt(2 + 48) = 0.0202; of two it would be
    /// 0.0404, of three 0.0606.
    #[test]
    fn a_verdict_is_that_of_the_adjusted_p() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(comparisons(&[&[3.0, 4.0, 5.0]]), (vec![text("above (p 0.020)")], 1));
        assert_eq!(comparisons(&[&[-3.0, -4.0, -5.0], &[3.0]]), (vec![text("below (p 0.020)"), None], 1));
        let (texts, count) = comparisons(&[&[3.0, 4.0, 5.0], &[-3.0, 4.0, 1.0], &[-1.0, 1.0, 9.0]]);
        assert_eq!((texts[0].as_deref(), count), (Some("not significant (p 0.061)"), 3));
        assert_eq!(comparisons(&[&[0.0, 0.0]]).0, [text("not significant (p 1.000)")]);
    }

    #[test]
    fn the_same_numbers_are_one_comparison() {
        let (texts, count) = comparisons(&[&[3.0, 4.0, 5.0], &[3.0, 4.0, 5.0], &[-3.0, -4.0, -5.0]]);
        assert_eq!(count, 1);
        assert_eq!(texts.iter().flatten().collect::<Vec<_>>(), ["above (p 0.020)", "above (p 0.020)", "below (p 0.020)"]);
    }

    /// Nine of ten seeds gain, one of them by far the most, or one loses far more than they gain: there is no interval,
    /// but 2 * 11 / 1024 is the chance of so many.
    #[test]
    fn seeds_of_two_kinds_are_compared_by_their_signs() {
        let mut values = [1.0, 2.0, 1.0, 3.0, 2.0, 1.0, 90.0, 2.0, -1.0, 1.0];
        assert_eq!(comparisons(&[&values]).0, [Some("above (p 0.021)".to_owned())]);
        (values[6], values[8]) = (2.0, -90.0);
        assert_eq!(comparisons(&[&values]).0, [Some("above (p 0.021)".to_owned())]);
    }

    /// Five seeds of two kinds, both far above 0: by a sign test no difference, however large, could be significant.
    #[test]
    fn two_kinds_on_one_side_are_compared_by_their_mean() {
        assert_eq!(comparisons(&[&[50.0, 51.0, 52.0, 51.0, 60.0]]).0, [Some("above (p < 0.001)".to_owned())]);
        assert_eq!(comparisons(&[&[1.0, 2.0, 3.0, 2.0, 40.0]]).0, [Some("not significant (p 0.062)".to_owned())]);
    }
}
