//! `flow test --invariance`: one pipeline, run in every way that must not matter. Rows, metrics and weights are compared
//! with those of one plain run, bit for bit where nothing is added in another order, else within rounding.

mod cases;
mod measure;
mod runs;

use crate::cli::error::{Error, Result};
use crate::cli::output::{answer, OutputFormat};
use crate::ops;
use cases::{cases, Case, Way};
use flow_pipeline::{Pipeline, Role};
use measure::{Difference, Measured};
use runs::Runs;
use serde_json::json;
use std::path::Path;

/// Iterations that are run: the second begins with weights that an update made.
const ITERATIONS: u64 = 2;

/// Runs all cases of a pipeline; whether each agrees.
///
/// # Errors
/// A pipeline that doesn't check, or whose plain run fails.
pub fn invariance(file: &Path, sets: &[String], format: OutputFormat) -> Result<bool> {
    let pipeline = flow_pipeline::load(file, sets, &ops::catalog())?;
    let unlogged = ops::unlogged(&pipeline);
    if !unlogged.is_empty() {
        let names: Vec<String> = unlogged.iter().map(|name| format!("`{name}`")).collect();
        return Err(Error::Request(format!("the rows of {} aren't logged, so none can be replayed: name them in `log`", names.join(", "))));
    }
    if ops::updates(&pipeline) == 0 {
        return Err(Error::request("nothing learns in this pipeline, so there is no update to compare"));
    }
    let sets: Vec<String> = sets.iter().cloned().chain(steady(&pipeline)).collect();
    let runs = Runs::new(file, &sets, ITERATIONS)?;
    eprintln!("playing {} iterations of {}", ITERATIONS, pipeline.name);
    let base = Measured::of(&runs.base()?, &pipeline)?;
    if base.silent() {
        eprintln!(
            "note: no update had a gradient, so little could differ: let the tasks have outcomes that differ (more of them, more samples)"
        );
    }
    let mut good = true;
    if format == OutputFormat::Text {
        answer(&format!("{}: {ITERATIONS} iterations, {} rows learnt from\n{}", file.display(), base.rows(), head()));
    }
    for case in cases(&pipeline) {
        let outcome = outcome(&case, &runs, &base, &pipeline);
        good &= outcome.as_ref().is_ok_and(|outcome| outcome.as_ref().is_none_or(|difference| difference.within(case.bound)));
        answer(&match format {
            OutputFormat::Json => json!(case_answer(file, &case, &outcome)).to_string(),
            OutputFormat::Text => line(&case, &outcome),
        });
    }
    if format == OutputFormat::Text {
        answer(if good { "every way gives the same update" } else { "an update depends on something that must not matter" });
    }
    Ok(good)
}

/// Adam makes a whole step of a gradient that is rounding alone, so weights after it differ by more than rounding: an
/// `eps` of this size, in all runs, leaves such a step small.
const EPS: f64 = 1e-5;

/// The overrides that give each update this `eps`, where its own is smaller.
fn steady(pipeline: &Pipeline) -> Vec<String> {
    let learns = pipeline.all().filter(|node| ops::is(node, Role::Learns));
    let sharp = learns.filter(|node| node.with.raw()["eps"].as_f64().unwrap_or(0.0) < EPS);
    sharp.map(|node| format!("{}.with.eps={EPS}", pipeline.path_to(&node.id))).collect()
}

/// How far a case is from the plain run; nothing where the pipeline doesn't have it.
fn outcome(case: &Case, runs: &Runs, base: &Measured, pipeline: &Pipeline) -> Result<Option<Difference>> {
    match &case.way {
        Way::NotHad(_) => Ok(None),
        way => Ok(Some(base.apart(&Measured::of(&runs.run(way)?, pipeline)?, case.bound.is_none())?)),
    }
}

/// What went wrong, without the advice: the run's folder is gone.
fn reason(error: &Error) -> String {
    let text = error.text();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn head() -> String {
    format!("{:<44}  {:>12}  {:>9}", "way", "largest", "bound")
}

fn line(case: &Case, outcome: &Result<Option<Difference>>) -> String {
    let bound = case.bound.map_or("0".into(), |bound| format!("{bound:.0e}"));
    match (outcome, &case.way) {
        (Err(error), _) => format!("{:<44}  {:>12}  {bound:>9}  failed: {}", case.name, "-", reason(error)),
        (Ok(None), Way::NotHad(why)) => format!("{:<44}  {:>12}  {:>9}  not had: {why}", case.name, "-", "-"),
        (Ok(None), _) => format!("{:<44}  {:>12}  {:>9}", case.name, "-", "-"),
        (Ok(Some(difference)), _) => {
            let verdict = if difference.within(case.bound) { String::new() } else { format!("  DIFFERS: {}", difference.place) };
            format!("{:<44}  {:>12}  {bound:>9}{verdict}", case.name, difference.shown())
        }
    }
}

/// One way to run the pipeline, and how far its figures are from those of the plain run.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct CaseAnswer {
    pipeline: String,
    case: String,
    /// The largest difference that counts as rounding, as a share of the largest number of its kind.
    bound: f64,
    error: Option<String>,
    /// The largest difference, and its place.
    largest: Option<f64>,
    place: Option<String>,
    same: Option<bool>,
    /// Why the pipeline doesn't have this way.
    not_had: Option<String>,
}

fn case_answer(file: &Path, case: &Case, outcome: &Result<Option<Difference>>) -> CaseAnswer {
    let difference = outcome.as_ref().ok().and_then(Option::as_ref);
    CaseAnswer {
        pipeline: file.display().to_string(),
        case: case.name.clone(),
        bound: case.bound.unwrap_or(0.0),
        error: outcome.as_ref().err().map(|error| error.text()),
        largest: difference.map(|difference| difference.largest),
        place: difference.map(|difference| difference.place.clone()),
        same: difference.map(|difference| difference.within(case.bound)),
        not_had: if let Way::NotHad(why) = &case.way { Some(why.clone()) } else { None },
    }
}
