//! `flow run --seeds`: the same pipeline under several seeds, one run after the other, each a process and a run of its own.

use super::error::{Error, Result};
use super::output::{answer, Outcome, Output};
use super::summary::shell_word;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// One run that ended well.
struct Ended {
    seed: u64,
    run: PathBuf,
    /// Success before and after: on the frozen panel, or at both ends of training.
    success: [Option<f64>; 2],
}

/// Runs `arguments` (those of `flow run` but for the seed, the folder and the format) once a seed, into `folder` of the seed.
pub fn each(seeds: &[u64], arguments: &[OsString], folder: impl Fn(u64) -> PathBuf, format: Output) -> Outcome {
    if let Some(twice) = seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed)) {
        return Err(Error::Asked(format!("the seed {} stands twice in --seeds", twice.1)));
    }
    let flow = std::env::current_exe()?;
    // A Ctrl-C reaches the run too, which commits what it has in hand; waiting for that is all that is left to do here.
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())?;
    let mut ended = Vec::new();
    for seed in seeds {
        let run = folder(*seed);
        eprintln!("seed {seed} -> {}", run.display());
        let mut command = Command::new(&flow);
        command.arg("run").args(arguments).args(["--set", &format!("seed={seed}"), "--format", "json", "--out"]).arg(&run);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().and_then(|child| child.wait_with_output())?;
        if !output.status.success() || interrupted.load(Ordering::Relaxed) {
            if !ended.is_empty() {
                answer(&told(&ended));
            }
            return Ok(ExitCode::from(output.status.code().unwrap_or(1) as u8));
        }
        ended.push(ending(*seed, run, &output.stdout)?);
    }
    answer(&match format {
        Output::Json => Value::from(ended.iter().map(Ended::json).collect::<Vec<_>>()).to_string(),
        Output::Text => told(&ended),
    });
    Ok(ExitCode::SUCCESS)
}

fn ending(seed: u64, run: PathBuf, said: &[u8]) -> Result<Ended> {
    let said: Value = serde_json::from_slice(said)?;
    // Without a frozen panel, success in training is what there is.
    let success = |key: &str, end: usize| said[key].as_f64().or(said["training_success"][end].as_f64());
    Ok(Ended { seed, run, success: [success("success_before", 0), success("success_after", 1)] })
}

impl Ended {
    fn json(&self) -> Value {
        let [before, after] = self.success;
        serde_json::json!({ "seed": self.seed, "run": self.run.display().to_string(), "success_first": before, "success_last": after })
    }
}

/// The runs in a table, the mean over them, and what to do with them.
fn told(ended: &[Ended]) -> String {
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1}%", 100.0 * x));
    let width = ended.iter().map(|e| e.run.display().to_string().chars().count()).max().unwrap_or(0).max(3);
    let mut text = format!("{:<6}  {:<width$}  {:>8}  {:>8}\n", "seed", "run", "first", "last");
    for Ended { seed, run, success: [before, after] } in ended {
        text += &format!("{seed:<6}  {:<width$}  {:>8}  {:>8}\n", run.display().to_string(), percent(*before), percent(*after));
    }
    let after: Vec<f64> = ended.iter().filter_map(|e| e.success[1]).collect();
    if let (true, Some(deviation)) = (after.len() == ended.len(), deviation(&after)) {
        let mean = after.iter().sum::<f64>() / after.len() as f64;
        text += &format!("success at last: {:.1}% on average, standard deviation {:.1}\n", 100.0 * mean, 100.0 * deviation);
    }
    let runs: Vec<String> = ended.iter().map(|e| shell_word(&e.run.display().to_string())).collect();
    text + &format!("\nTry next:\n  flow report {}\n", runs.join(" "))
}

/// The standard deviation of a sample (divided by n - 1); none of fewer than two.
fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.len() > 1).then(|| (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// The folder of a seed's run: beside `base`.
pub fn beside(base: &Path, seed: u64) -> PathBuf {
    let mut name = base.file_name().map(OsString::from).unwrap_or_else(|| "run".into());
    name.push(format!("-seed{seed}"));
    base.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_seeds_are_told_in_one_table() {
        let ended = |seed, after| Ended { seed, run: beside(Path::new("runs/a"), seed), success: [Some(0.1), after] };
        let said = told(&[ended(1, Some(0.5)), ended(2, Some(0.7))]);
        assert!(said.contains("1       runs/a-seed1     10.0%     50.0%\n"), "{said}");
        // The sample's deviation of 0.5 and 0.7 is sqrt(0.02).
        assert!(said.contains("success at last: 60.0% on average, standard deviation 14.1\n"), "{said}");
        assert!(said.ends_with("flow report runs/a-seed1 runs/a-seed2\n"), "{said}");
        assert!(!told(&[ended(1, None)]).contains("average"));
    }
}
