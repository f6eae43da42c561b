//! What an update is judged by: what it saw of each row, its figures, and the weights that it made.

use crate::cli::error::{Error, Result};
use crate::ops;
use arrow::array::AsArray;
use arrow::datatypes::Float32Type;
use flow_core::row::{self, View};
use flow_log::Run;
use flow_pipeline::{Pipeline, Role};
use std::path::{Path, PathBuf};

/// Columns of an update that hold what it saw of a row.
const COLUMNS: [&str; 5] = ["ratio", "clip_share", "loss_share", "logit_grad", "row_kl"];
/// Figures of an update as a whole; the gradient's norm is that of a sum over all passes.
const FIGURES: [&str; 4] = ["loss", "grad_norm", "kl", "entropy"];

/// What may be rounding alone: differences are shares of so much at least. A divergence from the weights that acted is
/// 0 in a first step, and where advantages are 0 so is the gradient.
const LEAST: [(&str, f64); 6] =
    [("`loss`", 1e-2), ("`entropy`", 1e-2), ("`kl`", 1e-2), ("`row_kl`", 1e-2), ("`logit_grad`", 1e-6), ("`grad_norm`", 1e-4)];
/// A gradient below this is rounding.
const SILENT: f64 = 1e-6;

/// A run's updates.
pub struct Measured {
    root: PathBuf,
    /// Each with where it stands: a kind of number, its values in the order of rows.
    numbers: Vec<(String, Vec<f64>)>,
    rows: usize,
}

/// How far two runs are apart.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The largest difference, as a share of the largest number of its kind.
    pub largest: f64,
    /// Where that is.
    pub place: String,
}

impl Measured {
    /// Those of the run in this folder.
    pub fn of(root: &Path, pipeline: &Pipeline) -> Result<Measured> {
        let run = Run::open(root)?;
        let manifest = run.manifest()?;
        let (mut numbers, mut rows) = (Vec::new(), 0);
        for node in pipeline.nodes.iter().filter(|node| ops::is(node, Role::Learns)) {
            for iteration in &manifest.committed {
                let figures = iteration.metrics.get(&node.id);
                let value = |name: &&str| figures.and_then(|figures| figures.get(*name)).copied();
                let found = FIGURES.iter().filter_map(|name| Some((format!("`{name}` of `{}`", node.id), vec![value(name)?])));
                numbers.extend(found.map(|(name, value)| (format!("{name} in iteration {}", iteration.iteration), value)));
            }
            if !pipeline.log.contains(&node.id) {
                continue;
            }
            let batches = flow_log::read(&run, &node.id)?;
            let Some(view) = View::sorted(&batches)? else { continue };
            rows += view.len();
            for name in COLUMNS.into_iter().filter(|name| view.has(name)) {
                let column = view.column(name)?;
                let values = column.as_primitive_opt::<Float32Type>().map(|values| values.values().iter().map(|x| f64::from(*x)).collect());
                numbers.push((format!("`{name}` of `{}`", node.id), values.unwrap_or_default()));
            }
            let used = view.read(&["used"])?;
            let used = row::texts(&used, "used")?.iter().map(|used| f64::from(u8::from(used == Some("yes")))).collect();
            numbers.push((format!("`used` of `{}`", node.id), used));
        }
        Ok(Measured { root: root.into(), numbers, rows })
    }

    /// Rows of updates.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether no update had a gradient: then nothing of it could differ.
    pub fn silent(&self) -> bool {
        let norms = self.numbers.iter().filter(|(name, _)| name.starts_with("`grad_norm`"));
        norms.flat_map(|(_, values)| values).all(|norm| norm.abs() < SILENT)
    }

    /// How far another run is from this one. `exactly`: rows of all nodes, and weights, count bit for bit as well.
    ///
    /// # Errors
    /// Runs that can't be compared.
    pub fn apart(&self, other: &Measured, exactly: bool) -> Result<Difference> {
        let mut found = Difference { largest: 0.0, place: String::new() };
        if exactly {
            found = bits(&Run::open(&self.root)?, &Run::open(&other.root)?)?;
        }
        for (name, values) in &self.numbers {
            let theirs = other.numbers.iter().find(|(other, _)| other == name).map(|(_, values)| values);
            let theirs = theirs.filter(|theirs| theirs.len() == values.len());
            let Some(theirs) = theirs else {
                return Err(Error::Request(format!("{name} has {} numbers in the plain run, and others here", values.len())));
            };
            let least = LEAST.iter().find(|(kind, _)| name.starts_with(kind)).map_or(0.0, |(_, least)| *least);
            let largest = values.iter().fold(least, |most: f64, value| most.max(value.abs()));
            let apart = values.iter().zip(theirs).map(|(a, b)| if a.to_bits() == b.to_bits() { 0.0 } else { (a - b).abs() });
            let apart = apart.fold(0.0, f64::max) / if largest > 0.0 { largest } else { 1.0 };
            if apart > found.largest {
                found = Difference { largest: apart, place: name.clone() };
            }
        }
        Ok(found)
    }
}

/// Whether rows of nodes that both logged, or newest weights, differ in a bit: then 1.
fn bits(a: &Run, b: &Run) -> Result<Difference> {
    for node in flow_log::nodes(a, b)? {
        let rows = node.rows.only_a + node.rows.only_b + node.differ.values().sum::<u64>();
        if rows > 0 {
            let column = node.differ.keys().next().map_or(String::new(), |column| format!(", as in `{column}`"));
            return Ok(Difference { largest: 1.0, place: format!("rows of `{}`{column}", node.node) });
        }
    }
    let other = flow_log::weights(a, b)?.into_iter().find(|weights| weights.equal != Some(true));
    Ok(match other {
        Some(weights) => Difference { largest: 1.0, place: format!("the weights of `{}`", weights.model) },
        None => Difference { largest: 0.0, place: String::new() },
    })
}

impl Difference {
    /// Whether it is within the bound; none: there is no difference at all.
    pub fn within(&self, bound: Option<f64>) -> bool {
        self.largest <= bound.unwrap_or(0.0)
    }

    /// For a table.
    pub fn shown(&self) -> String {
        if self.largest == 0.0 {
            "0".into()
        } else {
            format!("{:.1e}", self.largest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(norm: f64, grad: f64, kl: f64) -> Measured {
        let numbers = [("grad_norm", norm), ("logit_grad", grad), ("row_kl", kl), ("ratio", 1.0)];
        let numbers = numbers.map(|(name, value)| (format!("`{name}` of `update`"), vec![value])).into();
        Measured { root: PathBuf::new(), numbers, rows: 1 }
    }

    #[test]
    fn what_is_rounding_alone_is_no_difference_and_is_said_to_prove_nothing() {
        let (one, other) = (measured(1.9e-8, 3.7e-11, 1e-7), measured(2.0e-8, 4.6e-11, 2e-7));
        assert!(one.silent() && one.apart(&other, false).unwrap().within(Some(1e-4)));
        // A mean over half of the rows is twice as large.
        let (one, other) = (measured(1.9, 3.7e-3, 0.0), measured(3.8, 3.7e-3, 0.0));
        let apart = one.apart(&other, false).unwrap();
        assert!(!one.silent() && !apart.within(Some(1e-4)) && apart.place.contains("grad_norm"), "{apart:?}");
    }
}
