//! What a difference shows: above, below, or not told apart. Said by the page itself, by the interval of the paired difference, at a level that
//! counts how often the page compares.

use super::cell::{cell, difference, Cell};
use super::file::{Column, Row, Study, Table};
use crate::cli::error::Result;

/// What one may say of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Above,
    Below,
    Apart,
}

impl Verdict {
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Above => "above",
            Verdict::Below => "below",
            Verdict::Apart => "not told apart",
        }
    }
}

/// How many comparisons a study's page makes.
pub fn comparisons(study: &Study) -> usize {
    let of = |table: &Table| table.rows.iter().filter(|row| compared(table, row)).count() * table.columns.len();
    study.tables.iter().map(of).sum()
}

/// The share of differences of nothing that each comparison may call one, so that all together call one in 0.05 of pages (Bonferroni).
pub fn level(study: &Study) -> f64 {
    1.0 - 0.05 / comparisons(study).max(1) as f64
}

/// Whether a verdict is given on a row: it is a difference, or stands beside plain methods and is none.
fn compared(table: &Table, row: &Row) -> bool {
    row.less.is_some() || (!row.plain && table.rows.iter().any(|row| row.plain))
}

/// The verdict on a cell; none where nothing is compared, and of fewer than two seeds, which tell nothing.
///
/// # Errors
/// If a figure can't be read.
pub fn verdict(study: &Study, table: &Table, row: &Row, column: &Column, own: &Cell) -> Result<Option<Verdict>> {
    if !compared(table, row) {
        return Ok(None);
    }
    if row.less.is_some() {
        return Ok(of(own, level(study)));
    }
    let Some(best) = best(study, table, column)? else { return Ok(None) };
    Ok(of(&difference(study, table, [row, best], column)?, level(study)))
}

/// The plain method that does best in this column.
fn best<'a>(study: &Study, table: &'a Table, column: &Column) -> Result<Option<&'a Row>> {
    let mut best: Option<(f64, &Row)> = None;
    for row in table.rows.iter().filter(|row| row.plain) {
        let Some(mean) = cell(study, table, row, column)?.mean() else { continue };
        let mean = if column.lower { -mean } else { mean };
        if best.is_none_or(|(most, _)| mean > most) {
            best = Some((mean, row));
        }
    }
    Ok(best.map(|(_, row)| row))
}

fn of(difference: &Cell, level: f64) -> Option<Verdict> {
    let interval = difference.interval(level)?;
    Some(if interval.low > 0.0 {
        Verdict::Above
    } else if interval.high < 0.0 {
        Verdict::Below
    } else {
        Verdict::Apart
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_the_intervals() {
        let cell = |values: &[f64]| Cell { seeds: (1..).zip(values.iter().copied()).collect(), missing: 0, drawn: vec![] };
        assert_eq!(of(&cell(&[3.0, 4.0, 5.0]), 0.95), Some(Verdict::Above));
        assert_eq!(of(&cell(&[3.0, 4.0, 5.0]), 1.0 - 0.05 / 82.0), Some(Verdict::Apart), "one of 82 comparisons");
        assert_eq!(of(&cell(&[-3.0, -4.0, -5.0]), 0.95), Some(Verdict::Below));
        assert_eq!(of(&cell(&[-3.0, 4.0]), 0.95), Some(Verdict::Apart));
        assert_eq!(of(&cell(&[3.0]), 0.95), None);
    }
}
