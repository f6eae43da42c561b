//! `flow run --seeds --grid`: the same pipeline under several seeds and settings, one run after the other, each a
//! process and a run of its own.

use super::begun::{self, RunProgress};
use super::budget::Budget;
use super::child::tied;
use super::decline::percent;
use super::error::{Error, Result};
use super::grid::Case;
use super::machine::Machine;
use super::output::{answer, finish, CommandResult, OutputFormat};
use super::progress;
use crate::ops;
use flow_core::printable::shell_word;
use flow_pipeline::{Pipeline, Role};
use serde_json::{json, Value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// One of the runs: what it trains, and where.
pub struct CaseRun {
    pub case: Case,
    pub folder: PathBuf,
    pub pipeline: Pipeline,
}

impl CaseRun {
    fn progress(&self) -> Result<RunProgress> {
        begun::progress(&self.folder, &self.pipeline, self.pipeline.iterations).map_err(|error| match error {
            Error::Request(_) => error.help("give another --out, or move that run away"),
            error => error,
        })
    }
}

/// Whether a run has used up what it may.
fn spent(run: &Path, budget: Option<u64>) -> Result<bool> {
    let committed = flow_log::Run::open(run)?.manifest()?.committed;
    let earlier: Vec<_> = committed.into_iter().map(|committed| (committed.iteration, committed.metrics)).collect();
    Ok(Budget::new(budget, &earlier).is_err())
}

/// One run that ended well.
struct FinishedRun {
    case: Case,
    run: PathBuf,
    /// Success before and after: on the frozen panel, or at both ends of training.
    success: [Option<f64>; 2],
}

/// One run of several seeds or settings, with its success at both ends.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct CaseAnswer<'a> {
    seed: Option<u64>,
    run: String,
    success_first: Option<f64>,
    success_last: Option<f64>,
    /// The overrides of `--grid`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    set: &'a [String],
}

/// Runs `flow run` with these arguments once for each case, which adds its overrides, its folder and the format.
/// A run that was begun before is continued, and a finished one is kept.
///
/// # Errors
/// A run in one of the folders that has other settings.
pub fn each(cases: &[CaseRun], arguments: &[OsString], machine: &Machine) -> CommandResult {
    let flow = std::env::current_exe()?;
    // A Ctrl-C reaches the run too, which commits what it has in hand; waiting for that is all that is left to do here.
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())?;
    let mut ended = Vec::new();
    let begun = cases.iter().map(CaseRun::progress).collect::<Result<Vec<_>>>()?;
    for (CaseRun { case, folder, pipeline }, begun) in cases.iter().zip(begun) {
        let run = folder.clone();
        let what: Vec<String> =
            Some(case.settings()).filter(|s| !s.is_empty()).into_iter().chain(case.seed.map(|s| format!("seed {s}"))).collect();
        let kept = match begun {
            RunProgress::Absent => "",
            RunProgress::Partial(_) => ", which was begun before",
            RunProgress::Finished => ", which is finished",
        };
        eprintln!("{} -> {}{kept}", what.join(", "), run.display());
        // One that has used its budget up is as far as it goes.
        let over = matches!(begun, RunProgress::Partial(_)) && spent(&run, machine.budget)?;
        if begun == RunProgress::Finished || over {
            ended.push(FinishedRun { case: case.clone(), success: successes(&run, pipeline)?, run });
            continue;
        }
        let mut command = Command::new(&flow);
        if begun == RunProgress::Absent {
            command.arg("run").args(arguments);
            for set in case.overrides() {
                command.args(["--set", &set]);
            }
            command.arg("--out").arg(&run);
        } else {
            command.arg("resume").arg(&run).args(machine.arguments());
            if matches!(begun, RunProgress::Partial(1..)) {
                command.args(["--iterations", &pipeline.iterations.to_string()]);
            }
        }
        command.args(["--format", "json"]);
        let output =
            tied(&mut command).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().and_then(|child| child.wait_with_output())?;
        if !output.status.success() || interrupted.load(Ordering::Relaxed) {
            if !ended.is_empty() {
                answer(&table(&ended));
            }
            return Ok(ExitCode::from(output.status.code().unwrap_or(1) as u8));
        }
        ended.push(ending(case.clone(), run, &output.stdout)?);
    }
    finish(&match machine.format {
        OutputFormat::Json => json!(ended.iter().map(FinishedRun::answer).collect::<Vec<_>>()).to_string(),
        OutputFormat::Text => table(&ended),
    })
}

/// Success at both ends of a finished run, as its own summary had it.
fn successes(run: &Path, pipeline: &Pipeline) -> Result<[Option<f64>; 2]> {
    let committed = flow_log::Run::open(run)?.manifest()?.committed;
    let panels: Vec<String> = pipeline.nodes.iter().filter(|n| ops::is(n, Role::Measures)).map(|n| n.id.clone()).collect();
    Ok(progress::successes(&committed.into_iter().map(|i| i.metrics).collect::<Vec<_>>(), &panels))
}

fn ending(case: Case, run: PathBuf, output: &[u8]) -> Result<FinishedRun> {
    let summary: Value = serde_json::from_slice(output)?;
    // Without a frozen panel, success in training is what there is.
    let success = |key: &str, end: usize| summary[key].as_f64().or(summary["training_success"][end].as_f64());
    Ok(FinishedRun { case, run, success: [success("success_before", 0), success("success_after", 1)] })
}

impl FinishedRun {
    fn answer(&self) -> CaseAnswer<'_> {
        let ([success_first, success_last], Case { seed, sets }) = (self.success, &self.case);
        CaseAnswer { seed: *seed, run: self.run.display().to_string(), success_first, success_last, set: sets }
    }
}

/// The runs in a table, the mean over the seeds of each setting, and what to do with them.
fn table(ended: &[FinishedRun]) -> String {
    let share = |x: Option<f64>| x.map_or("-".into(), percent);
    let width = ended.iter().map(|e| e.run.display().to_string().chars().count()).max().unwrap_or(0).max(3);
    let mut text = format!("{:<6}  {:<width$}  {:>8}  {:>8}\n", "seed", "run", "first", "last");
    for FinishedRun { case, run, success: [before, after] } in ended {
        let seed = case.seed.map_or("-".into(), |seed| seed.to_string());
        text += &format!("{seed:<6}  {:<width$}  {:>8}  {:>8}\n", run.display().to_string(), share(*before), share(*after));
    }
    for alike in ended.chunk_by(|a, b| a.case.sets == b.case.sets) {
        let after: Vec<f64> = alike.iter().filter_map(|e| e.success[1]).collect();
        if let (true, Some(deviation)) = (after.len() == alike.len(), deviation(&after)) {
            let mean = after.iter().sum::<f64>() / after.len() as f64;
            let label = Some(alike[0].case.settings()).filter(|settings| !settings.is_empty()).map_or(String::new(), |s| format!("{s}: "));
            text += &format!("{label}success at last: {:.1}% on average, standard deviation {:.1}\n", 100.0 * mean, 100.0 * deviation);
        }
    }
    let runs: Vec<String> = ended.iter().map(|e| shell_word(&e.run.display().to_string())).collect();
    text + &format!("\nTry next:\n  flow view {}\n", runs.join(" "))
}

/// The standard deviation of a sample (divided by n - 1); none of fewer than two.
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.len() > 1).then(|| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// The runs of these cases in the first of runs/name, runs/name-2, ... where none is begun, or where some are and not all
/// are finished.
pub fn continued(name: &str, cases: &[(Case, Pipeline)]) -> Vec<CaseRun> {
    let at = |n: u32| {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let folder = |case: &Case| PathBuf::from("runs").join(format!("{name}{}{number}", case.suffix()));
        cases
            .iter()
            .map(|(case, pipeline)| CaseRun { folder: folder(case), case: case.clone(), pipeline: pipeline.clone() })
            .collect::<Vec<_>>()
    };
    let free = |runs: &Vec<CaseRun>| {
        let begun: Vec<_> = runs.iter().map(CaseRun::progress).collect();
        // Folders of anything else, and runs with other settings, are left alone.
        let own =
            runs.iter().zip(&begun).all(|(run, begun)| matches!(begun, Ok(begun) if *begun != RunProgress::Absent || !run.folder.exists()));
        own && !begun.iter().all(|begun| matches!(begun, Ok(RunProgress::Finished)))
    };
    (1..).map(at).find(free).unwrap_or_else(|| at(1))
}

/// The folder of a case's run: beside `base`.
pub fn case_folder(base: &Path, case: &Case) -> PathBuf {
    let mut name = base.file_name().map(OsString::from).unwrap_or_else(|| "run".into());
    name.push(case.suffix());
    base.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_seeds_are_told_in_one_table() {
        let finished = |seed, sets: &[&str], after| {
            let case = Case { seed: Some(seed), sets: sets.iter().map(|set| set.to_string()).collect() };
            FinishedRun { run: case_folder(Path::new("runs/a"), &case), case, success: [Some(0.1), after] }
        };
        let ended = |seed, after| finished(seed, &[], after);
        let text = table(&[ended(1, Some(0.5)), ended(2, Some(0.7))]);
        assert!(text.contains("1       runs/a-seed1     10.0%     50.0%\n"), "{text}");
        // The sample's deviation of 0.5 and 0.7 is sqrt(0.02).
        assert!(text.contains("success at last: 60.0% on average, standard deviation 14.1\n"), "{text}");
        assert!(text.ends_with("flow view runs/a-seed1 runs/a-seed2\n"), "{text}");
        assert!(!table(&[ended(1, None)]).contains("average"));
        let grid = ["x.lr=1", "x.lr=2"].map(|set| [1, 2].map(|seed| finished(seed, &[set], Some(seed as f64 / 10.0))));
        let text = table(&grid.into_iter().flatten().collect::<Vec<_>>());
        assert!(text.contains("1       runs/a-lr-1-seed1     10.0%     10.0%\n"), "{text}");
        assert!(text.contains("lr=2: success at last: 15.0% on average, standard deviation 7.1\n"), "{text}");
    }
}
