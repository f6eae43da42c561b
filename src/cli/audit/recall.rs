//! The memories that an agent reads, as they were when an iteration was played, and the same without an entry, with
//! another task's text in its place, and with nothing in them.

use super::source::Source;
use crate::cli::error::{Error, Result};
use crate::cli::log_inputs;
use crate::ops;
use arrow::array::RecordBatch;
use flow_core::seed::Random;
use flow_credit::memory::{table, Change, Entry};
use flow_dataflow::feed::Feed;
use flow_pipeline::Node;
use flow_policy::Policy;
use flow_rollout::context::ContextSource;
use std::collections::BTreeMap;

/// What is played in place of the episode that was logged; in each but the first the memory is another one.
pub const WAYS: [&str; 4] = ["policy", "without", "another", "emptied"];

/// The memories that a node's agent reads.
pub struct Memories<'a> {
    node: &'a Node,
    inputs: Vec<Read>,
}

/// A port of a source of context.
struct Read {
    /// The rows up to an iteration.
    rows: Feed,
    /// How many iterations old the state is that a rollout reads.
    staleness: u64,
    /// A memory, not the clusters by which one is read.
    memory: bool,
}

/// The rows that came to each of these ports.
pub type Rows = Vec<Came>;

#[derive(Clone)]
pub enum Came {
    Changes(Vec<Change>),
    Clusters(Vec<RecordBatch>),
}

impl<'a> Memories<'a> {
    /// Those of the node that plays; none where its agent reads notes alone.
    ///
    /// # Errors
    /// If a memory or its clusters weren't logged.
    pub fn of(source: &'a Source) -> Result<Memories<'a>> {
        let plays = |node: &&Node| ops::play(node).is_some();
        let node = source.pipeline.node(&source.plays).and_then(|node| node.all().find(plays));
        let node = node.ok_or_else(|| Error::request("no node plays with a model"))?;
        let manifest = source.played.manifest()?;
        let mut inputs = Vec::new();
        for memory in source.play.agent.memories() {
            for (port, memory) in [(Some(&memory.memory), true), (memory.clusters.as_ref(), false)] {
                if let Some((from, staleness)) = port.and_then(|port| ops::delayed(node, &source.pipeline, port)) {
                    inputs.push(Read { rows: log_inputs::changes(from, &source.played, &manifest)?, staleness, memory });
                }
            }
        }
        Ok(Memories { node, inputs })
    }

    /// Whether the agent reads none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// What each held when an iteration was played, as the rows that led there.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn at(&self, iteration: u64) -> Result<Rows> {
        let each = self.inputs.iter().map(|input| {
            let last = iteration.checked_sub(1 + input.staleness);
            let rows = last.map_or_else(|| Ok(vec![]), |last| (input.rows)(last)).map_err(Error::request)?;
            if !input.memory {
                return Ok(Came::Clusters(rows));
            }
            let mut changes = Vec::new();
            for batch in rows {
                changes.extend(Change::read(&batch)?);
            }
            changes.sort_by(|a, b| a.order().cmp(&b.order()));
            Ok(Came::Changes(changes))
        });
        each.collect()
    }

    /// The sources of the agent's context with these rows.
    ///
    /// # Errors
    /// If an encoder can't answer.
    pub fn sources(&self, source: &Source, policy: &Policy, rows: Rows) -> Result<Vec<Box<dyn ContextSource>>> {
        let came = rows.into_iter().map(|came| match came {
            Came::Changes(changes) => Ok(vec![table(&changes)?]),
            Came::Clusters(rows) => Ok(rows),
        });
        let came = came.collect::<Result<Vec<_>>>()?;
        let mut sources = ops::reading(self.node, &source.play.agent, &source.pipeline, Some(policy));
        ops::begin_reading(&mut sources, &came, 0).map_err(Error::request)?;
        Ok(sources)
    }
}

/// The rows of a way, for an entry in an episode of `task`; none where no other task has an entry.
pub fn changed(role: &str, full: &Rows, (entry, task): (u64, &str), random: &mut Random) -> Option<Rows> {
    let each = |of: &dyn Fn(&Change) -> Option<Change>| {
        let one = |came: &Came| match came {
            Came::Changes(changes) => Came::Changes(changes.iter().filter_map(of).collect()),
            clusters => clusters.clone(),
        };
        full.iter().map(one).collect()
    };
    match role {
        "policy" => Some(full.clone()),
        "without" => Some(each(&|change| (change.entry.id != entry).then(|| change.clone()))),
        "another" => {
            let text = another(full, entry, task, random)?;
            Some(each(&|change| {
                let mut change = change.clone();
                if change.entry.id == entry {
                    change.entry.text.clone_from(&text);
                }
                Some(change)
            }))
        }
        _ => Some(each(&|_| None)),
    }
}

/// The text of an entry of the same memory, kind and level that is there, came from neither task and says something else.
fn another(full: &Rows, entry: u64, task: &str, random: &mut Random) -> Option<String> {
    let memories = full.iter().filter_map(|came| match came {
        Came::Changes(changes) => Some(changes),
        Came::Clusters(_) => None,
    });
    let own = memories.into_iter().find(|changes| changes.iter().any(|change| change.entry.id == entry))?;
    let mut there: BTreeMap<u64, &Change> = BTreeMap::new();
    for change in own {
        match change.change > 0 {
            true => there.insert(change.entry.id, change),
            false => there.remove(&change.entry.id),
        };
    }
    let own = &there.get(&entry)?.entry;
    let differs = |other: &Entry| ![task, &own.source.task].contains(&other.source.task.as_str()) && other.text != own.text;
    let alike = |other: &Entry| (&other.kind, &other.level) == (&own.kind, &own.level);
    let others: Vec<&Entry> = there.values().map(|change| &change.entry).filter(|other| differs(other) && alike(other)).collect();
    (!others.is_empty()).then(|| others[random.below(others.len())].text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::row::Name;

    fn change(change: i32, id: u64, task: &str, said: &str) -> Change {
        let source = Name { iteration: 0, task: task.into(), sample: 0, attempt: 0, turn: 0, phase: "reflect".into() };
        let (key, kind, level) = (String::new(), String::new(), String::new());
        let entry = Entry { id, bucket: 0, key, embedding: vec![], score: 0.0, text: said.into(), source, ordinal: 0, kind, level };
        Change { iteration: 0, change, entry }
    }

    /// Entries 1 and 2 are of one task, 3 and 4 of another, and 4 has left: 3 alone can take the place of 1.
    #[test]
    fn each_way_has_the_memory_that_it_names() {
        let all = [(1, 1, "a", "one"), (1, 2, "a", "two"), (1, 3, "b", "three"), (1, 4, "b", "four"), (-1, 4, "b", "four")];
        let all: Vec<Change> = all.into_iter().map(|(came, id, task, said)| change(came, id, task, said)).collect();
        let ways = |role: &str, all: &[Change]| changed(role, &vec![Came::Changes(all.to_vec())], (1, "c"), &mut Random::new(1));
        let texts = |role: &str| match &ways(role, &all).unwrap()[0] {
            Came::Changes(changes) => changes.iter().map(|change| change.entry.text.clone()).collect::<Vec<_>>(),
            Came::Clusters(_) => vec![],
        };
        assert_eq!(texts("policy"), ["one", "two", "three", "four", "four"]);
        assert_eq!(texts("without"), ["two", "three", "four", "four"]);
        assert_eq!(texts("another"), ["three", "two", "three", "four", "four"]);
        assert!(texts("emptied").is_empty());
        assert!(ways("another", &all[..2]).is_none(), "no other task has an entry");
        let rows = vec![Came::Changes(all.clone())];
        assert!(changed("another", &rows, (1, "b"), &mut Random::new(1)).is_none(), "the episode's own task has the other one");
        let mut warning = all[..3].to_vec();
        warning[2].entry.kind = "warning".into();
        assert!(ways("another", &warning).is_none(), "the other one is of another kind");
    }
}
