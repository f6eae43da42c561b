//! What a replay takes from the run that it repeats: rows in place of played ones, and what the models began with.

use super::error::{Error, Result};
use super::models::{learners, starts, Starts};
use crate::ops;
use flow_dataflow::feed::{self, Feeds};
use flow_log::{Manifest, NodeInfo, Replays, Run};
use flow_pipeline::{Node, Pipeline, Role, LOOP};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The run that is repeated.
pub struct ReplaySource {
    pub run: Run,
    manifest: Manifest,
    /// As the user named it.
    name: String,
}

/// The pipeline without the nodes whose rows the log replaces. Those rows are logged again in any case, so that a
/// replay can be replayed.
pub fn reduced(pipeline: &Pipeline, replays: &Replays) -> Pipeline {
    let fed: BTreeSet<&str> = replays.nodes.keys().map(String::as_str).collect();
    let mut left = pipeline.fed(&fed, ops::plays);
    left.log.extend(replays.nodes.keys().filter(|id| !pipeline.log.contains(id)).cloned());
    left
}

/// Names in backquotes, for a sentence.
fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

impl ReplaySource {
    pub fn open(run: &Path) -> Result<ReplaySource> {
        let name = run.display().to_string();
        let run = Run::open(run)?;
        let manifest = run.manifest()?;
        Ok(ReplaySource { run, manifest, name })
    }

    /// How many iterations can be repeated.
    pub fn iterations(&self) -> Result<u64> {
        match self.manifest.trained() {
            0 => Err(Error::Request(format!("{} has no committed iteration yet, so there is nothing to replay", self.name))),
            n => Ok(n),
        }
    }

    /// Insists on that many iterations.
    pub fn require_iterations(&self, iterations: u64) -> Result<()> {
        let there = self.iterations()?;
        if iterations > there {
            return Err(Error::Request(format!("{iterations} iterations can't be replayed: {} has committed {there}", self.name)));
        }
        Ok(())
    }

    /// Which logged node stands for each rollout of `pipeline` (from the file `file`): the one of the same name, else
    /// the only one that either has. The tasks come from the log too where both log them.
    pub fn rollouts(&self, pipeline: &Pipeline, file: &Path) -> Result<Replays> {
        let logged = |selects: fn(&NodeInfo) -> bool| {
            self.manifest.info.nodes.iter().filter(|n| selects(n)).map(|n| n.id.as_str()).collect::<Vec<_>>()
        };
        // A loop stands for the rollout inside it.
        let theirs = logged(|n| n.op == LOOP || ops::role(&n.op) == Some(Role::Plays));
        let rollouts: Vec<&Node> = pipeline.nodes.iter().filter(|n| ops::rolls_out(n)).collect();
        if rollouts.is_empty() {
            return Err(Error::Request(format!("{} has no rollout, so there are no rows to put in place of its own", file.display())));
        }
        let mut nodes: BTreeMap<String, String> = BTreeMap::new();
        for node in &rollouts {
            let same = theirs.iter().find(|id| **id == node.id);
            if let Some(id) = same.or(theirs.first().filter(|_| theirs.len() == 1 && rollouts.len() == 1)) {
                nodes.insert(node.id.clone(), id.to_string());
            }
        }
        let lacking: Vec<&Node> = rollouts.iter().filter(|n| !nodes.contains_key(&n.id)).copied().collect();
        if !lacking.is_empty() {
            let spare: Vec<&str> = theirs.into_iter().filter(|id| !nodes.values().any(|used| used == id)).collect();
            return Err(Error::Request(self.unlogged(pipeline, file, &lacking, &spare)));
        }
        let tasks = logged(|n| ops::role(&n.op) == Some(Role::Opens));
        let opens = |n: &&Node| ops::is(n, Role::Opens) && pipeline.log.contains(&n.id) && tasks.contains(&n.id.as_str());
        let both = pipeline.nodes.iter().filter(opens);
        nodes.extend(both.map(|n| (n.id.clone(), n.id.clone())));
        // Reflections were written by that run's policy, so they are replayed too; there may be none.
        let reflections = logged(|n| ops::role(&n.op) == Some(Role::Reflects));
        for node in pipeline.nodes.iter().filter(|n| ops::is(n, Role::Reflects)) {
            if !reflections.contains(&node.id.as_str()) {
                if ops::replayed_from_log(node) {
                    return Err(Error::Request(self.unlogged(pipeline, file, &[node], &[])));
                }
                continue;
            }
            if !flow_log::columns(&self.run, &self.manifest, &node.id)?.is_empty() {
                nodes.insert(node.id.clone(), node.id.clone());
            }
        }
        Ok(Replays { run: self.name.clone(), nodes })
    }

    /// The message for rollouts that the log lacks: which nodes need them, and what to do.
    fn unlogged(&self, pipeline: &Pipeline, file: &Path, lacking: &[&Node], spare: &[&str]) -> String {
        let ids: Vec<&str> = lacking.iter().map(|n| n.id.as_str()).collect();
        let readers = pipeline.nodes.iter().filter(|n| n.inputs.iter().any(|i| ids.contains(&i.from.as_str())));
        let readers = quoted(readers.map(|n| n.id.as_str()));
        let logged: Vec<&str> = self.manifest.info.nodes.iter().map(|n| n.id.as_str()).collect();
        let mut text = format!("{} has not logged the rows of {}", self.name, quoted(ids.iter().copied()));
        if !readers.is_empty() {
            let verb = if readers.contains(", ") { "read" } else { "reads" };
            text += &format!(", which {readers} {verb}");
        }
        text += "\na replay plays and writes nothing: it needs the logged rows of each rollout and of each `reflect`\n";
        if !spare.is_empty() {
            let name = spare.first().copied().unwrap_or_default();
            return text
                + &format!(
                    "its logged rollouts are {}: if one of them is meant, call the node `{name}` in {} too",
                    quoted(spare.iter().copied()),
                    file.display()
                );
        }
        let all: Vec<&str> = ids.iter().copied().chain(logged.iter().copied()).collect();
        text += &format!("to have them, run it again with `log: [{}]`", all.join(", "));
        if pipeline.nodes.iter().filter(|n| ops::rolls_out(n)).count() > lacking.len() {
            text += &format!("\nor replay a pipeline without {}: `flow replay {} --with other.yaml`", quoted(ids), self.name);
        }
        text
    }

    /// The columns that the log has of each node that stands for a played one.
    pub fn columns(&self, replays: &Replays) -> Result<BTreeMap<String, Vec<String>>> {
        let mut all = BTreeMap::new();
        for (node, theirs) in &replays.nodes {
            let columns = flow_log::columns(&self.run, &self.manifest, theirs)?;
            // Of several environments one may have failed in each iteration: its node then has the columns of its operator.
            if !columns.is_empty() {
                all.insert(node.clone(), columns);
            }
        }
        match all.is_empty() {
            true => {
                let nodes = quoted(replays.nodes.values().map(String::as_str));
                Err(Error::Request(format!("{} has logged no row of {nodes}, so there is nothing to replay", self.name)))
            }
            false => Ok(all),
        }
    }

    /// The rows themselves.
    pub fn feeds(&self, replays: &Replays) -> Result<Feeds> {
        let feed = |(node, theirs): (&String, &String)| Ok((node.clone(), feed::logged(&self.run, theirs)?));
        replays.nodes.iter().map(feed).collect()
    }

    /// What the models of a reduced pipeline begin with: as the model of the same name, else as the only one did that
    /// either has. A model that is only compared with may be one that the run didn't have.
    pub fn starts(&self, pipeline: &Pipeline) -> Result<Starts> {
        let Starts { folders: theirs, mut acting } = starts(&self.run)?;
        let only = theirs.iter().next().filter(|_| theirs.len() == 1 && learners(pipeline).count() == 1);
        let mut folders = BTreeMap::new();
        for name in learners(pipeline) {
            if let Some((own, folder)) = theirs.get_key_value(name).or(only) {
                folders.insert(name.clone(), folder.clone());
                if let Some(act) = acting.get(own).cloned() {
                    acting.insert(name.clone(), act);
                }
                continue;
            }
            // Imported rows come without the weights that acted: a model begins as the pipeline says.
            if theirs.is_empty() && self.manifest.info.nodes.iter().any(|node| node.op == ops::importing().name) {
                continue;
            }
            // Nodes without inputs are those whose rows are there already.
            let trains = pipeline.nodes.iter().find(|n| !n.inputs.is_empty() && n.model() == Some(name.as_str()));
            if let Some(node) = trains {
                let known = if theirs.is_empty() { "none".into() } else { quoted(theirs.keys().map(String::as_str)) };
                return Err(Error::Request(format!(
                    "`{}` trains the model `{name}`, and {} has no weights that `{name}` began with (it has of: {known})\n\
                     a replay begins as its run did: give the model the name that it has there",
                    node.id, self.name
                )));
            }
        }
        Ok(Starts { folders, acting })
    }
}
