//! `flow verify`: computes a run's credit and updates again from its logged rollouts, and compares column by column.

use super::bundle::unpacked;
use super::error::{Error, Result};
use super::output::{answer, CommandResult, OutputFormat};
use crate::log::{self, Manifest, NodeDiff, Run, SavedWeights, WeightsDiff};
use clap::Args;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

#[derive(Args)]
pub struct VerifyArgs {
    /// The run's folder, or a bundle of it
    run: PathBuf,
    /// How many iterations are verified, from the first on; all unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// The logged values that were compared with recomputed ones.
struct Verified {
    name: String,
    iterations: u64,
    nodes: Vec<NodeDiff>,
    /// The run's final weights; none if only a part of its iterations is verified.
    weights: Vec<WeightsDiff>,
    /// The files of vocabularies that aren't those of the models.
    other_vocabularies: Vec<PathBuf>,
}

impl VerifyArgs {
    pub fn run(self) -> CommandResult {
        let bundle = if self.run.is_file() { Some(unpacked(&self.run)?) } else { None };
        let root = bundle.as_ref().map_or(self.run.as_path(), |folder| folder.path());
        let run = Run::open(root)?;
        let verified = self.compared(&run, root)?;
        let agrees = verified.agrees();
        answer(&match self.format {
            OutputFormat::Json => serde_json::to_string_pretty(&verified.json())?,
            OutputFormat::Text => verified.text(),
        });
        Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Replays the run in a process of its own, and compares the two.
    fn compared(&self, run: &Run, root: &Path) -> Result<Verified> {
        let manifest = run.manifest()?;
        // What is computed and compared follows from this file.
        run.same_pipeline(&manifest)?;
        let all = manifest.committed.iter().filter(|iteration| iteration.iteration < manifest.info.iterations).count() as u64;
        let iterations = self.iterations.unwrap_or(all).min(all);
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("replay");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("replay").arg(root).arg("--out").arg(&out).args(["--format", "json", "--set", &format!("iterations={iterations}")]);
        let mut replay = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        // That a bundle lies elsewhere than its run did is no news.
        let lines = replay.stderr.take().into_iter().flat_map(|said| BufReader::new(said).lines().map_while(std::io::Result::ok));
        lines.filter(|line| !line.starts_with("note: nothing is played")).for_each(|line| eprintln!("{line}"));
        if !replay.wait()?.success() {
            return Err(Error::Request(format!("{} can't be computed again: its replay failed, as it says above", self.run.display())));
        }
        let replay = Run::open(&out)?;
        let taken = replay.manifest()?.info.replays.map(|replays| replays.nodes).unwrap_or_default();
        let nodes = log::diff(run, &replay, None, 0)?.nodes;
        let mut nodes: Vec<NodeDiff> = nodes.into_iter().filter(|node| !taken.contains_key(&node.node) && node.rows.both > 0).collect();
        if iterations < all {
            for node in &mut nodes {
                // Rows of later iterations weren't computed again.
                let there = format!("select count(*) as n from \"{}\" where iteration < {iterations}", node.node.replace('"', "\"\""));
                let counted = log::query(run, &there)?;
                let counts = counted.batches.first().and_then(|batch| batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>());
                node.rows.only_a = counts.map_or(0, |counts| counts.value(0) as u64).saturating_sub(node.rows.both);
            }
        }
        let weights = match iterations == all {
            true => {
                newest(&manifest).try_for_each(|weights| run.whole_weights(weights).map(drop))?;
                log::weights(run, &replay)?
            }
            false => Vec::new(),
        };
        let other_vocabularies = other_files(&run.vocabularies(), &replay.vocabularies())?;
        Ok(Verified { name: manifest.info.name, iterations, nodes, weights, other_vocabularies })
    }
}

/// The weights that each model ended with.
fn newest(manifest: &Manifest) -> impl Iterator<Item = &SavedWeights> {
    let all = manifest.committed.iter().flat_map(|iteration| &iteration.weights);
    all.map(|weights| (&weights.model, weights)).collect::<BTreeMap<_, _>>().into_values()
}

/// The files below `theirs` that differ from those of the same place below `own`.
fn other_files(own: &Path, theirs: &Path) -> Result<Vec<PathBuf>> {
    let mut other = Vec::new();
    let (mut folders, mut files) = (vec![theirs.to_owned()], Vec::new());
    while let Some(folder) = folders.pop().filter(|folder| folder.is_dir()) {
        for entry in std::fs::read_dir(&folder).map_err(Error::file(&folder))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path)
            }
        }
    }
    for file in files {
        let place = own.join(file.strip_prefix(theirs).unwrap_or(&file));
        if std::fs::read(&file).map_err(Error::file(&file))? != std::fs::read(&place).unwrap_or_default() {
            other.push(place);
        }
    }
    Ok(other)
}

impl Verified {
    fn agrees(&self) -> bool {
        let node = |node: &NodeDiff| node.differ.is_empty() && node.rows.only_a + node.rows.only_b == 0;
        let compared = !self.nodes.is_empty() || self.weights.iter().any(|weights| weights.equal.is_some());
        compared
            && self.other_vocabularies.is_empty()
            && self.nodes.iter().all(node)
            && self.weights.iter().all(|weights| weights.equal != Some(false))
    }

    fn json(&self) -> serde_json::Value {
        json!({ "name": self.name, "iterations": self.iterations, "agrees": self.agrees(), "nodes": self.nodes, "weights": self.weights,
            "other_vocabularies": self.other_vocabularies })
    }

    fn text(&self) -> String {
        let mut text = format!("{} iterations of {}, computed again from their logged rollouts\n\n", self.iterations, self.name);
        let width = self.nodes.iter().map(|node| node.node.len()).max().unwrap_or(4).max(4);
        text += &format!("{:width$}  {:>9}  {:>7}  {:>5}\n", "node", "rows", "columns", "agree");
        for node in &self.nodes {
            let same = node.compared - node.differ.len();
            text += &format!("{:width$}  {:>9}  {:>7}  {same:>5}", node.node, node.rows.both, node.compared);
            let missing = node.rows.only_a + node.rows.only_b;
            let differing = node.differ.iter().map(|(column, rows)| format!("{column} in {rows} rows"));
            let wrong: Vec<String> = differing.chain((missing > 0).then(|| format!("{missing} rows on one side alone"))).collect();
            text += &if wrong.is_empty() { "\n".into() } else { format!("  {}\n", wrong.join(", ")) };
        }
        for weights in &self.weights {
            let verdict = match weights.equal {
                Some(true) => "the same, bit for bit",
                Some(false) => "others",
                None => "not kept, so not compared",
            };
            text += &format!("weights of {}, version {}: {verdict}\n", weights.model, weights.a.unwrap_or_default());
        }
        for file in &self.other_vocabularies {
            text += &format!("{} isn't what the model has\n", file.display());
        }
        text += if self.agrees() {
            "\nevery digit agrees"
        } else if !self.other_vocabularies.is_empty() {
            "\nnot every file agrees: restore it from a copy"
        } else {
            "\nnot every digit agrees; another make of processor rounds otherwise, so look how far apart they are: flow replay, then flow diff"
        };
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::RowCounts;

    #[test]
    fn what_differs_is_counted_and_nothing_compared_is_no_agreement() {
        let rows = RowCounts { both: 7, only_a: 1, only_b: 0 };
        let node = NodeDiff {
            node: "update".into(),
            rows,
            compared: 3,
            differ: BTreeMap::from([("ratio".into(), 2)]),
            columns_only_a: Vec::new(),
            columns_only_b: Vec::new(),
        };
        let verified = |nodes| Verified { name: "x".into(), iterations: 2, nodes, weights: Vec::new(), other_vocabularies: Vec::new() };
        let differs = verified(vec![node]);
        let text = differs.text();
        assert!(
            !differs.agrees() && text.contains("ratio in 2 rows, 1 rows on one side alone") && text.contains("not every digit agrees"),
            "{text}"
        );
        assert!(!verified(Vec::new()).agrees());
    }
}
