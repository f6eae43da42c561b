//! A figure over the iterations, in stretches whose means are compared.

use std::fmt;

/// Standard errors by which two stretches must differ.
const ERRORS: f64 = 4.0;

/// The values of a figure so far.
pub struct Series {
    /// Iterations of a stretch.
    length: usize,
    stretches: Vec<Stretch>,
    last: Option<f64>,
    /// The sum of the squares of the steps from each value to the next, and how many there are.
    steps: (f64, usize),
}

/// A figure over some iterations.
#[derive(Clone, Debug)]
pub struct Stretch {
    first: u64,
    last: u64,
    sum: f64,
    values: usize,
}

impl Stretch {
    pub fn mean(&self) -> f64 {
        self.sum / self.values as f64
    }

    /// From its first iteration to the last of another one.
    pub fn to(&self, other: &Stretch) -> Span {
        Span(self.first, other.last)
    }
}

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.to(self).fmt(f)
    }
}

/// Some iterations, as one names them.
pub struct Span(pub u64, pub u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Span(first, last) if first == last => write!(f, "iteration {first}"),
            Span(first, last) => write!(f, "iterations {first} to {last}"),
        }
    }
}

impl Series {
    pub fn new(length: usize) -> Series {
        Series { length, stretches: Vec::new(), last: None, steps: (0.0, 0) }
    }

    /// The newest value.
    pub fn last(&self) -> Option<f64> {
        self.last
    }

    pub fn push(&mut self, iteration: u64, value: f64) {
        if let Some(last) = self.last.replace(value) {
            self.steps = (self.steps.0 + (value - last).powi(2), self.steps.1 + 1);
        }
        match self.stretches.last_mut().filter(|stretch| stretch.values < self.length) {
            Some(stretch) => (stretch.last, stretch.sum, stretch.values) = (iteration, stretch.sum + value, stretch.values + 1),
            None => self.stretches.push(Stretch { first: iteration, last: iteration, sum: value, values: 1 }),
        }
    }

    /// The stretches that are complete.
    pub fn complete(&self) -> &[Stretch] {
        let complete = self.stretches.last().is_none_or(|stretch| stretch.values == self.length);
        &self.stretches[..self.stretches.len() - usize::from(!complete)]
    }

    /// By how much the mean of `later` is lower, where that is more than the dice explain. How much dice do is taken
    /// from the steps between neighbours (von Neumann 1941): a trend adds little to them, and all values say something
    /// of it.
    pub fn fall(&self, earlier: &Stretch, later: &Stretch) -> Option<f64> {
        let fall = earlier.mean() - later.mean();
        let variance = self.steps.0 / (2.0 * self.steps.1.max(1) as f64);
        (fall > ERRORS * (2.0 * variance / self.length as f64).sqrt()).then_some(fall)
    }
}
