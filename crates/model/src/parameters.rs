//! Named parameters, and where each lies in the one flat vector that the optimiser steps and processes exchange.
//!
//! An architecture lists its parameters once, in a [`Layout`]; everything else asks for them by name. A parameter has
//! the name and the sizes that it has in a checkpoint. Several that are multiplied by the same states may be stacked
//! into one *leaf*: one matrix product in place of three, and one tensor that gradients are taken of.

use flow_core::seed::Random;
use std::collections::HashMap;

/// How a parameter of a new model is initialised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initializer {
    /// Ones: the gain of a norm.
    Ones,
    /// Zeros: a bias.
    Zeros,
    /// Normally distributed with this deviation: a matrix.
    Normal(f64),
    /// Evenly distributed between this much below 0 and as much above.
    Uniform(f64),
}

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in a checkpoint.
    pub name: String,
    /// Its sizes.
    pub size: Vec<i64>,
    /// How it is initialised in a new model.
    pub start: Initializer,
    /// Its first place in the flat vector.
    pub at: i64,
}

impl Parameter {
    /// How many numbers it has.
    pub fn len(&self) -> i64 {
        self.size.iter().product()
    }
}

/// One tensor of the computation: a parameter, or several stacked on each other.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its sizes.
    pub size: Vec<i64>,
    /// Its first place in the flat vector.
    pub at: i64,
}

/// The parameters of a model in the order of the flat vector.
///
/// Matrices come first, biases and gains of norms last, so that what usually decays is one span.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Every parameter in its order.
    pub parameters: Vec<Parameter>,
    /// Every leaf in its order.
    pub leaves: Vec<Leaf>,
    by_name: HashMap<String, usize>,
}

impl Layout {
    /// Adds a parameter that is a leaf of its own.
    pub fn add(&mut self, name: impl Into<String>, size: &[i64], start: Initializer) {
        let name = name.into();
        let at = self.len();
        self.leaf(name.clone(), size.to_vec(), at);
        self.parameters.push(Parameter { name, size: size.to_vec(), start, at });
    }

    /// Adds the matrices `parts` (names and rows) of `columns` columns each, stacked into the leaf called `name`;
    /// vectors where there are no `columns`.
    pub fn stacked(&mut self, name: impl Into<String>, parts: &[(String, i64)], columns: Option<i64>, start: Initializer) {
        let size = |rows: i64| [rows].into_iter().chain(columns).collect::<Vec<_>>();
        let at = self.len();
        self.leaf(name.into(), size(parts.iter().map(|(_, rows)| rows).sum()), at);
        for (name, rows) in parts {
            let at = self.len();
            self.parameters.push(Parameter { name: name.clone(), size: size(*rows), start, at });
        }
    }

    fn leaf(&mut self, name: String, size: Vec<i64>, at: i64) {
        self.by_name.insert(name, self.leaves.len());
        self.leaves.push(Leaf { size, at });
    }

    /// Which leaf is called `name`.
    pub fn leaf_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The parameters that the leaf `leaf` is made of.
    pub fn stacked_in(&self, leaf: &Leaf) -> impl Iterator<Item = &Parameter> {
        let (from, to) = (leaf.at, leaf.at + leaf.size.iter().product::<i64>());
        let first = self.parameters.partition_point(|p| p.at < from);
        self.parameters[first..].iter().take_while(move |p| p.at < to)
    }

    /// How many numbers all parameters have together.
    pub fn len(&self) -> i64 {
        self.parameters.last().map_or(0, |last| last.at + last.len())
    }

    /// The start of a new model, `[len]`: the same from a seed whatever libtorch's own generator would give (Box and
    /// Muller 1958).
    pub fn random(&self, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        let mut values = Vec::with_capacity(self.len() as usize);
        for parameter in &self.parameters {
            for _ in 0..parameter.len() {
                values.push(match parameter.start {
                    Initializer::Ones => 1.0,
                    Initializer::Zeros => 0.0,
                    Initializer::Normal(deviation) => {
                        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
                        (deviation * radius * (std::f64::consts::TAU * random.unit()).cos()) as f32
                    }
                    Initializer::Uniform(bound) => (bound * (2.0 * random.unit() - 1.0)) as f32,
                });
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        let mut layout = Layout::default();
        layout.add("embed", &[3, 2], Initializer::Normal(0.5));
        layout.stacked("qk", &[("q".into(), 2), ("k".into(), 1)], Some(2), Initializer::Normal(1.0));
        layout.add("norm", &[2], Initializer::Ones);
        layout
    }

    #[test]
    fn parameters_lie_one_after_the_other() {
        let layout = layout();
        assert_eq!(layout.len(), 14);
        assert_eq!(
            layout.parameters.iter().map(|p| (p.name.as_str(), p.at)).collect::<Vec<_>>(),
            [("embed", 0), ("q", 6), ("k", 10), ("norm", 12)]
        );
        let random = layout.random(7);
        assert!(random == layout.random(7) && random[12..] == [1.0, 1.0] && random[0] != random[1]);
        let stacked: Vec<_> = layout.stacked_in(&layout.leaves[1]).map(|p| p.name.as_str()).collect();
        assert_eq!((stacked, layout.leaf_of("qk"), layout.leaf_of("q")), (vec!["q", "k"], Some(1), None));
    }
}
