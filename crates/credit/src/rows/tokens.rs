//! Rows seen token by token: what an estimator of tokens and the comparison of its values need, and their way back to
//! rows.
//!
//! A row is as many steps as its response has tokens; one without a token is one step, so that its reward isn't lost.

use arrow::datatypes::Float32Type;
use flow_core::row::Lists;
use std::ops::Range;

/// The steps of each row, one row after the other.
pub(super) struct TokenSteps {
    /// For each row, which steps are its.
    spans: Vec<Range<usize>>,
    /// How many tokens each row has.
    lengths: Vec<usize>,
}

impl TokenSteps {
    /// The steps of rows whose responses have so many tokens.
    pub fn new(lengths: Vec<usize>) -> TokenSteps {
        let mut start = 0;
        let span = |length: &usize| {
            let span = start..start + length.max(&1);
            start = span.end;
            span
        };
        TokenSteps { spans: lengths.iter().map(span).collect(), lengths }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end)
    }

    /// The row of each step.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.spans.iter().enumerate().flat_map(|(row, span)| std::iter::repeat_n(row, span.len()))
    }

    /// Each row's value, at each of its steps.
    pub fn each<T: Copy>(&self, rows: &[T]) -> Vec<T> {
        self.rows().map(|row| rows[row]).collect()
    }

    /// Each row's value at its last step, and `other` at those before.
    pub fn last<T: Copy>(&self, rows: &[T], other: T) -> Vec<T> {
        let mut steps = vec![other; self.len()];
        self.spans.iter().zip(rows).for_each(|(span, value)| steps[span.end - 1] = *value);
        steps
    }

    /// The steps' own values; for a row without a token its value in `rows`.
    pub fn own(&self, lists: &Lists, rows: &[f32]) -> Vec<f32> {
        let own = |row: usize| if self.lengths[row] == 0 { &rows[row..=row] } else { lists.get::<Float32Type>(row) };
        (0..rows.len()).flat_map(|row| own(row).iter().copied()).collect()
    }

    /// Ranges of rows as ranges of their steps.
    pub fn ranges(&self, rows: &[Range<usize>]) -> Vec<Range<usize>> {
        rows.iter().map(|rows| self.spans[rows.start].start..self.spans[rows.end - 1].end).collect()
    }

    /// Each row's value at its first step.
    pub fn first<T: Copy>(&self, steps: &[T]) -> Vec<T> {
        self.spans.iter().map(|span| steps[span.start]).collect()
    }

    /// The mean over each row's steps.
    pub fn mean(&self, steps: &[f32]) -> Vec<f32> {
        let mean = |span: &Range<usize>| steps[span.clone()].iter().map(|x| f64::from(*x)).sum::<f64>() / span.len() as f64;
        self.spans.iter().map(|span| mean(span) as f32).collect()
    }

    /// The steps' values as a list a row, of as many numbers as it has tokens.
    pub fn lists<'a>(&'a self, steps: &'a [f32]) -> impl Iterator<Item = &'a [f32]> {
        self.spans.iter().zip(&self.lengths).map(|(span, length)| &steps[span.start..span.start + length])
    }
}
