//! The run that is audited: who played in it, and which weights it still has.

use crate::cli::error::{Error, Result};
use crate::ops;
use flow_log::{Manifest, Run, SavedWeights};
use flow_pipeline::Pipeline;
use flow_policy::Policy;
use flow_rollout::context::SourceSettings;
use flow_rollout::player::Play;
use flow_rollout::retry::RetryPolicy;
use std::collections::BTreeMap;
use std::path::Path;

/// What a run is audited with.
pub struct Source {
    pub run: Run,
    /// The run that played its rows: another one where it is a replay.
    pub played: Run,
    pub manifest: Manifest,
    pub pipeline: Pipeline,
    /// The logged node that has the turns.
    pub table: String,
    /// The node of `pipeline` that played them.
    pub plays: String,
    pub play: Play,
    /// The versions of the acting model that are still there.
    pub weights: BTreeMap<u64, SavedWeights>,
}

impl Source {
    /// The run, who played in it, and which weights it has.
    ///
    /// # Errors
    /// If it can't be audited, with the reason.
    pub fn open(folder: &Path, named: Option<&str>, memory: bool) -> Result<Source> {
        let run = Run::open(folder)?;
        let manifest = run.manifest()?;
        // A replay's rows were played by another run, with that run's weights and settings.
        let replays = manifest.info.replays.clone();
        let played = replays.as_ref().map_or(Ok(run.clone()), |replays| {
            let gone =
                |error| Error::from(error).at(&replays.run).help("an audit of a replay needs the weights of the run whose rows it has");
            Run::open(Path::new(&replays.run)).map_err(gone)
        })?;
        let theirs = played.manifest()?;
        refuse(replays.is_some() && theirs.info.replays.is_some(), "it replays a replay: replay the run that played")?;
        // The node here that has the rows of a node there.
        let table = |id: &str| match &replays {
            None => Some(id.to_owned()),
            Some(replays) => replays.nodes.iter().find(|(_, theirs)| theirs.as_str() == id).map(|(own, _)| own.clone()),
        };
        let pipeline = flow_pipeline::load(&played.pipeline(), &[], &ops::replayed(Default::default()))?;
        let players: Vec<(String, String, Play)> = pipeline
            .nodes
            .iter()
            .filter(|node| pipeline.log.contains(&node.id))
            .filter_map(|node| Some((table(&node.id)?, node.id.clone(), node.all().find_map(ops::play)?)))
            .collect();
        let names = || players.iter().map(|(table, ..)| format!("`{table}`")).collect::<Vec<_>>().join(", ");
        let (table, plays, play) = match (players.as_slice(), named) {
            ([], _) => return Err(Error::request("no node that was logged plays with a model: name the rollout in `log` and train again")),
            ([(table, plays, play)], None) => (table, plays, play),
            (_, None) => return Err(Error::Request(format!("several nodes play: name one of {} by --node", names()))),
            (all, Some(named)) => {
                let unknown = || Error::Request(format!("no logged node `{named}` plays with a model; --node names one of {}", names()));
                all.iter().find(|(table, ..)| table == named).map(|(table, plays, play)| (table, plays, play)).ok_or_else(unknown)?
            }
        };
        let reads = play.agent.memories().next().is_some();
        refuse(reads && !memory, "its agent reads a memory, which isn't restored as of a turn: --memory says what its entries were worth")?;
        refuse(!play.agent.by_name.is_empty(), "its agent answers calls of a program by several models")?;
        let model = &play.agent.model;
        let settings = pipeline.models.get(model).cloned().unwrap_or_default();
        refuse(ops::remote(&settings), "a server generates for its agent, and the weights of that time aren't kept")?;
        let all = theirs.start.iter().chain(theirs.committed.iter().flat_map(|committed| &committed.weights));
        let there = all.filter(|weights| weights.model == *model && played.root().join(&weights.path).is_dir());
        let weights = there.map(|weights| (weights.version, weights.clone())).collect();
        let retry = RetryPolicy { max_failed: 1.0, ..play.retry };
        let (table, plays, play) = (table.clone(), plays.clone(), Play { retry, ..play.clone() });
        let play = if memory { always(play) } else { play };
        Ok(Source { run, played, manifest, table, plays, play, weights, pipeline })
    }

    /// Has the policy act with this version.
    pub fn restore(&self, policy: &Policy, version: u64) -> Result<()> {
        let (model, weights) = (&self.play.agent.model, &self.weights[&version]);
        if policy.versions(model)?.contains(&version) {
            return Ok(());
        }
        let folder = self.played.whole_weights(weights)?;
        policy.restore(model, &[folder])?;
        Ok(())
    }
}

/// How the agent plays with its memories read in every iteration.
fn always(mut play: Play) -> Play {
    for source in &mut play.agent.context {
        if let SourceSettings::Memory(memory) = source {
            (memory.chance, memory.warm_up) = (1.0, 0);
        }
    }
    play
}

/// Refuses a run that can't be audited.
fn refuse(is: bool, why: &str) -> Result<()> {
    match is {
        true => Err(Error::Request(format!("this run can't be audited: {why}"))),
        false => Ok(()),
    }
}
