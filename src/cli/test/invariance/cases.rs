//! The ways to run a pipeline that must not matter.

use crate::ops;
use flow_pipeline::{Node, Pipeline, Role};

/// How far figures may be from those of the plain run where sums are added in another order, as a share of the largest
/// figure of their kind: f32 has 7 digits, and a step's gradient is a sum of some thousand numbers.
const ROUNDING: f64 = 1e-4;
/// The same in a trainer, whose processes may compute in other kernels with each layout.
const TRAINER: f64 = 1e-3;

/// One way, and how far it may be from the plain run.
pub struct Case {
    pub name: String,
    pub way: Way,
    /// A share of the largest figure of its kind; none: bit for bit.
    pub bound: Option<f64>,
}

/// A way to run the pipeline.
pub enum Way {
    /// Played anew, with these arguments of `flow run`.
    Played(Vec<String>),
    /// Played anew by so many processes.
    Processes(usize),
    /// The plain run's rollouts, replayed under these overrides and arguments.
    Replayed { sets: Vec<String>, arguments: Vec<String> },
    /// Played anew, killed after its first iteration, and resumed.
    Killed,
    /// This pipeline doesn't have it, and why.
    NotHad(String),
}

/// All cases of a pipeline, those among them that it can't have.
pub fn cases(pipeline: &Pipeline) -> Vec<Case> {
    let exact = |name: &str, way| Case { name: name.into(), way, bound: None };
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let replayed = |arguments: &[&str]| Way::Replayed { sets: vec![], arguments: words(arguments) };
    let mut all = vec![
        exact("2 workers", Way::Played(words(&["--workers", "2"]))),
        exact("4 workers", Way::Played(words(&["--workers", "4"]))),
        exact("2 processes", Way::Processes(2)),
        exact("killed after an iteration, and resumed", Way::Killed),
        exact("replayed, not played", replayed(&[])),
        exact("replayed, rows in another order (4 workers)", replayed(&["--workers", "4"])),
    ];
    let learners: Vec<&Node> = pipeline.nodes.iter().filter(|node| ops::is(node, Role::Learns)).collect();
    let set = |key: &str, value: &str| learners.iter().map(|node| format!("nodes.{}.with.{key}={value}", node.id)).collect::<Vec<_>>();
    let close = |name: String, sets: Vec<String>, bound| Case { name, way: Way::Replayed { sets, arguments: vec![] }, bound: Some(bound) };
    for (rows, more) in [("1", " (no prefix is shared)"), ("2", ""), ("7", ""), ("64", "")] {
        all.push(close(format!("micro_batch: {rows}{more}"), set("micro_batch", rows), ROUNDING));
    }
    for tokens in ["100", "1000"] {
        all.push(close(format!("micro_tokens: {tokens}"), set("micro_tokens", tokens), ROUNDING));
    }
    all.extend(trainers(pipeline));
    let native = |why: &str| Way::NotHad(why.into());
    all.push(exact("padding left, right or none", native("nothing is padded in this process, and a trainer's `layout` stands above")));
    all.push(exact(
        "episodes that fail or none",
        native("an environment can't be told to fail; `make environment-faults` runs environments that do, and compares what is left"),
    ));
    all
}

/// The cases of models that learn in a trainer of their own processes.
fn trainers(pipeline: &Pipeline) -> Vec<Case> {
    let started: Vec<&String> =
        pipeline.models.iter().filter(|(_, model)| model["train"]["torchrun"].is_number()).map(|(name, _)| name).collect();
    let Some(model) = started.first() else {
        let why = "no model here has `train: { torchrun: N }`, so none learns in a trainer".to_string();
        return vec![Case { name: "ranks, layouts, checkpoints of a trainer".into(), way: Way::NotHad(why), bound: None }];
    };
    let case = |name: String, key: &str, value: &str| {
        let sets = vec![format!("models.{model}.train.{key}={value}")];
        Case { name, way: Way::Replayed { sets, arguments: vec![] }, bound: Some(TRAINER) }
    };
    let ranks = ["1", "2", "4"].map(|ranks| case(format!("{ranks} ranks of the trainer"), "torchrun", ranks));
    let layouts = ["padded", "packed", "tree"].map(|layout| case(format!("the trainer's layout: {layout}"), "layout", layout));
    let kept = ["true", "false"].map(|kept| case(format!("gradient_checkpointing: {kept}"), "gradient_checkpointing", kept));
    ranks.into_iter().chain(layouts).chain(kept).collect()
}
