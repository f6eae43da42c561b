//! The verdict on a difference: above, below, or not told apart, by the confidence interval of the paired difference, at a level corrected for
//! the number of comparisons on the page.

use super::cell::{cell, difference, TableCell};
use super::file::{ColumnSpec, RowSpec, Study, TableSpec};
use super::values::StudyValues;
use crate::cli::error::Result;

/// The verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceVerdict {
    Above,
    Below,
    Apart,
}

impl DifferenceVerdict {
    pub fn words(self) -> &'static str {
        match self {
            DifferenceVerdict::Above => "above",
            DifferenceVerdict::Below => "below",
            DifferenceVerdict::Apart => "not told apart",
        }
    }
}

/// How many comparisons a study's page makes.
pub fn comparisons(study: &Study) -> usize {
    let comparisons_of = |table: &TableSpec| table.rows.iter().filter(|row| compared(table, row)).count() * table.columns.len();
    study.tables.iter().map(comparisons_of).sum()
}

/// The confidence level of each comparison, so that the chance of any false one on a page is at most 0.05 (Bonferroni).
pub fn level(study: &Study) -> f64 {
    1.0 - 0.05 / comparisons(study).max(1) as f64
}

/// Whether a verdict is given on a row: it is a difference, or stands beside plain methods and is none.
fn compared(table: &TableSpec, row: &RowSpec) -> bool {
    row.less.is_some() || (!row.plain && table.rows.iter().any(|row| row.plain))
}

/// The verdict on a cell; none where nothing is compared, and of fewer than two seeds, which tell nothing.
///
/// # Errors
/// If a figure can't be read.
pub fn verdict(
    values: &StudyValues,
    table: &TableSpec,
    row: &RowSpec,
    column: &ColumnSpec,
    own: &TableCell,
) -> Result<Option<DifferenceVerdict>> {
    if !compared(table, row) {
        return Ok(None);
    }
    if row.less.is_some() {
        return Ok(verdict_on(own, level(values.study)));
    }
    let Some(best) = best(values, table, column)? else { return Ok(None) };
    Ok(verdict_on(&difference(values, table, [row, best], column)?, level(values.study)))
}

/// The plain method that does best in this column.
fn best<'a>(values: &StudyValues, table: &'a TableSpec, column: &ColumnSpec) -> Result<Option<&'a RowSpec>> {
    let mut best: Option<(f64, &RowSpec)> = None;
    for row in table.rows.iter().filter(|row| row.plain) {
        let Some(mean) = cell(values, table, row, column)?.mean() else { continue };
        let mean = if column.lower { -mean } else { mean };
        if best.is_none_or(|(most, _)| mean > most) {
            best = Some((mean, row));
        }
    }
    Ok(best.map(|(_, row)| row))
}

fn verdict_on(difference: &TableCell, level: f64) -> Option<DifferenceVerdict> {
    let interval = difference.interval(level)?;
    Some(if interval.low > 0.0 {
        DifferenceVerdict::Above
    } else if interval.high < 0.0 {
        DifferenceVerdict::Below
    } else {
        DifferenceVerdict::Apart
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_intervals() {
        let cell = |values: &[f64]| TableCell { seeds: (1..).zip(values.iter().copied()).collect(), missing: 0, drawn: vec![] };
        assert_eq!(verdict_on(&cell(&[3.0, 4.0, 5.0]), 0.95), Some(DifferenceVerdict::Above));
        assert_eq!(verdict_on(&cell(&[3.0, 4.0, 5.0]), 1.0 - 0.05 / 82.0), Some(DifferenceVerdict::Apart), "one of 82 comparisons");
        assert_eq!(verdict_on(&cell(&[-3.0, -4.0, -5.0]), 0.95), Some(DifferenceVerdict::Below));
        assert_eq!(verdict_on(&cell(&[-3.0, 4.0]), 0.95), Some(DifferenceVerdict::Apart));
        assert_eq!(verdict_on(&cell(&[3.0]), 0.95), None);
    }
}
