//! `flow verify`: computes a run's credit and updates again from its logged rollouts, and compares columns, metrics and
//! weights with the new ones. Tasks are compared with the seed's, metrics of episodes with the logged rows.

pub mod claims;
mod iterations;
mod played;
mod tasks;
mod verdict;

pub use verdict::VerifyAnswer;

use super::child::tied;
use super::error::{Error, Result};
use super::output::{answer, CommandResult, OutputFormat};
use super::source::reduced;
use super::unpack::unpack;
use super::vocabularies;
use crate::ops;
use claims::Claims;
use clap::Args;
use flow_dataflow::cluster::end::end_process;
use flow_dataflow::run::lasting;
use flow_log::{NodeDiff, Run};
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use verdict::Verified;

/// How often an interrupted verification tries to remove its folder.
const REMOVALS: usize = 100;

#[derive(Args)]
pub struct VerifyArgs {
    /// The run's folder, or a bundle of it
    run: PathBuf,
    /// How many iterations are verified, from the first on; all unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Runs the functions in Python that the run brings, though they haven't run here before
    #[arg(long)]
    run_code: bool,
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
}

/// A temporary folder with the unpacked bundle and the replay, and the process that replays. Both end with this value,
/// and when the verification is interrupted.
struct Workspace {
    folder: TempDir,
    replay: Arc<Mutex<Option<Child>>>,
    /// Whether a signal came: the process ends once the folder is gone.
    interrupted: Arc<AtomicBool>,
}

impl Workspace {
    fn new() -> Result<Workspace> {
        let workspace = Workspace { folder: tempfile::tempdir()?, replay: Arc::default(), interrupted: Arc::default() };
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(|error| Error::from(error).at("signals"))?;
        let (folder, replay, interrupted) = (workspace.folder.path().to_owned(), workspace.replay.clone(), workspace.interrupted.clone());
        let interrupt = move || {
            if signals.forever().next().is_none() {
                return;
            }
            interrupted.store(true, Ordering::SeqCst);
            // Held until the process ends, so that no replay begins any more.
            let mut replay = replay.lock();
            // It may have ended.
            let _ = replay.as_mut().map(|child| child.kill().and_then(|()| child.wait()));
            // A file that is being unpacked may come to be meanwhile.
            (0..REMOVALS).find(|_| fs::remove_dir_all(&folder).is_ok());
            end_process(130)
        };
        std::thread::Builder::new().name("signals".into()).spawn(interrupt)?;
        Ok(workspace)
    }

    /// Runs the replay to its end, and gives whether it went well. Each line of its standard error goes to `said`.
    fn replay(&self, command: &mut Command, said: impl FnMut(String)) -> Result<bool> {
        // Ctrl-C at a terminal reaches this process alone, which ends the other one.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let stderr = {
            let mut replay = self.replay.lock();
            replay.insert(tied(command).spawn()?).stderr.take()
        };
        stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines().map_while(std::io::Result::ok)).for_each(said);
        let ended = self.replay.lock().as_mut().map(Child::wait).transpose()?;
        Ok(ended.is_some_and(|status| status.success()))
    }
}

impl VerifyArgs {
    pub fn run(self) -> CommandResult {
        if !self.run.try_exists().map_err(Error::file(&self.run))? {
            return Err(Error::Request(format!("there is no {}: name the folder of a run, or a bundle of one", self.run.display())));
        }
        let workspace = Workspace::new()?;
        let (place, bundle) = (workspace.folder.path().join("run"), self.run.is_file());
        let root = if bundle { place.as_path() } else { self.run.as_path() };
        // The user knows the bundle, and not the folder that it is unpacked into.
        let named = |text: &str| text.replace(&place.display().to_string(), &self.run.display().to_string());
        let compared = || {
            if bundle {
                unpack(&self.run, &place)?;
            }
            self.compared(&workspace, &Run::open(root)?, root, &named)
        };
        let compared = compared();
        // What failed because its folder was taken away is no fault of the run.
        while workspace.interrupted.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let verified = compared.map_err(|error| match bundle {
            true => Error::request(named(error.text().trim_start_matches("error: "))),
            false => error,
        })?;
        let agrees = verified.agrees();
        answer(&match self.format {
            OutputFormat::Json => serde_json::to_string_pretty(&verified.answer())?,
            OutputFormat::Text => verified.text(),
        });
        Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Replays the run in a process of its own, and compares the two.
    fn compared(&self, workspace: &Workspace, run: &Run, root: &Path, named: &dyn Fn(&str) -> String) -> Result<Verified> {
        let manifest = run.manifest()?;
        // What is computed and compared follows from this file.
        run.same_pipeline(&manifest)?;
        vocabularies::verify(run, &manifest)?;
        let all = manifest.committed.iter().filter(|iteration| iteration.iteration < manifest.info.iterations).count() as u64;
        let iterations = self.iterations.unwrap_or(all).min(all);
        if iterations == all {
            manifest.newest().values().try_for_each(|weights| run.whole_weights(weights).map(drop))?;
        }
        let out = workspace.folder.path().join("replay");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("replay").arg(root).arg("--out").arg(&out).args(["--format", "json", "--set", &format!("iterations={iterations}")]);
        // That a bundle lies elsewhere than its run did is no news, and no replay is left to go on with.
        let news = |line: &String| !line.starts_with("note: nothing is played") && !line.contains("`flow resume ");
        if self.run_code {
            command.arg("--run-code");
        }
        let said = |line: String| Some(line).filter(news).iter().for_each(|line| eprintln!("{}", named(line)));
        if !workspace.replay(&mut command, said)? {
            return Err(Error::Request(format!("{} can't be computed again: its replay failed, as it says above", self.run.display())));
        }
        let replay = Run::open(&out)?;
        let recomputed = replay.manifest()?;
        let replays = recomputed.info.replays.clone().unwrap_or_default();
        let taken = &replays.nodes;
        let pipeline = flow_pipeline::load(&run.pipeline(), &[], &ops::replayed(Default::default()))?;
        let mut claims = Claims::of(run, &manifest, &pipeline, if iterations < all { iterations } else { u64::MAX })?;
        let mut nodes: Vec<NodeDiff> = flow_log::nodes(run, &replay)?.into_iter().filter(|node| !taken.contains_key(&node.node)).collect();
        if iterations < all {
            for node in &mut nodes {
                // Rows of later iterations weren't computed again.
                let there = format!("select count(*) as n from {} where iteration < {iterations}", flow_log::sql::quoted(&node.node));
                let counted = flow_log::query(run, &there)?;
                let counts = counted.batches.first().and_then(|batch| batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>());
                node.rows.only_a = counts.map_or(0, |counts| counts.value(0) as u64).saturating_sub(node.rows.both);
            }
        }
        nodes.retain(|node| node.rows.both + node.rows.only_a + node.rows.only_b > 0);
        // Rows without the columns that name a row can't be joined.
        for node in recomputed.info.nodes.iter().filter(|node| !taken.contains_key(&node.id) && nodes.iter().all(|own| own.node != node.id))
        {
            let (own, computed) = (flow_log::columns(run, &manifest, &node.id)?, flow_log::columns(&replay, &recomputed, &node.id)?);
            let differ = |these: &[String], others: &[String], word: &str| {
                these.iter().filter(|c| !others.contains(c)).map(|c| format!("{word} `{c}`")).collect::<Vec<_>>()
            };
            let differ = [differ(&computed, &own, "without"), differ(&own, &computed, "with")].concat();
            if !own.is_empty() && !differ.is_empty() {
                claims.contradictions.push(format!("`{}` has other columns than it was computed with: {}", node.id, differ.join(", ")));
            }
        }
        let again = reduced(&pipeline, &replays);
        let computed = |node: &str| again.node(node).is_some() && !taken.contains_key(node);
        let metrics = flow_log::metrics(&manifest, &recomputed, iterations, &|node, name| computed(node) && verdict::repeats(name));
        // Weights that only a rollout reads, before a second update of the iteration, aren't saved where nothing plays.
        let lasting = lasting(&again);
        let saves = |node: &str| again.node(node).is_none() || lasting.contains(node);
        let versions = flow_log::versions(&manifest, &recomputed, iterations, &saves);
        let weights = if iterations == all { flow_log::weights(run, &replay)? } else { Vec::new() };
        let compared = (nodes.len(), metrics.len(), versions.len(), weights.len());
        if compared == (0, 0, 0, 0) && claims.contradictions.is_empty() {
            return Err(Error::Request(format!(
                "{} logged nothing but rollouts and keeps no weights, so there is nothing to compare: a run whose `log` names a node that computes \
                 from its rollouts can be verified",
                self.run.display()
            )));
        }
        let logged = manifest.info.nodes.iter().map(|node| node.id.clone());
        let rows = logged.filter(|id| taken.contains_key(id) || pipeline.node(id).is_some_and(ops::plays)).collect();
        Ok(Verified { name: manifest.info.name, iterations, nodes, metrics, versions, weights, claims, rows })
    }
}
