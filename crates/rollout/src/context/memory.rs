//! A memory as a source of context: the entries that are retrieved for a turn (EMPO2, section 4.2: memory-augmented
//! prompting; SLEA-RL, section 3.3).

use super::memory_settings::{Fallback, MemorySettings, RecallKey, RecallTime};
use super::pools::ClusterPools;
use super::{ContextSource, Declared, MemoryPorts, Moment, Passage};
use crate::clustering::{self, ObservationClusters};
use crate::error::RolloutError;
use crate::exchange::NotesOwner;
use crate::points::Pointer;
use arrow::array::RecordBatch;
use flow_core::seed::{mix, text, Random};
use flow_credit::memory::{self, By, Change, Clusters, Entry, Library, Lookup, Retrieval};
use flow_model::PolicyError;
use flow_text::Tokenizer;

const ITEM: &str = "- ";

impl Declared for MemorySettings {
    fn ports(&self) -> Vec<(&str, &'static [&'static str])> {
        let clusters = self.clusters.as_deref().map(|clusters| (clusters, clustering::COLUMNS));
        [(self.memory.as_str(), memory::COLUMNS)].into_iter().chain(clusters).collect()
    }

    fn words(&self) -> Vec<String> {
        [self.heading.as_str(), ITEM.trim(), " ", "\n"].map(String::from).to_vec()
    }

    fn open(&self, ports: &dyn MemoryPorts) -> Option<Box<dyn ContextSource>> {
        let (pointer, clusters) = ports.memory(&self.memory)?;
        let observed = self.clusters.as_ref().and_then(|port| ports.clusters(port));
        Some(Box::new(MemoryRecall::new(self.clone(), pointer).clustered(clusters).observing(observed)))
    }
}

/// A memory in an iteration, and how it is read.
#[derive(Clone)]
pub struct MemoryRecall {
    settings: MemorySettings,
    pointer: Pointer,
    library: Library,
    /// The clusters of its entries, if it is partitioned by cluster.
    clusters: Option<Clusters>,
    /// The clusters of observations, if it is read by those.
    observed: Option<ClusterPools>,
    on: bool,
}

impl MemoryRecall {
    /// An empty memory.
    pub fn new(settings: MemorySettings, pointer: Pointer) -> MemoryRecall {
        MemoryRecall { settings, pointer, library: Library::new(), clusters: None, observed: None, on: false }
    }

    /// The same, partitioned by clusters.
    pub fn clustered(self, clusters: Option<Clusters>) -> MemoryRecall {
        MemoryRecall { clusters, ..self }
    }

    /// The same, read by clusters of observations.
    pub fn observing(self, clusters: Option<ObservationClusters>) -> MemoryRecall {
        // Entries in every prompt of an episode were found for its first turn alone, and what another cluster has is a
        // control.
        let MemorySettings { link, at, whose, .. } = self.settings;
        let link = link && at == RecallTime::Turn && whose == NotesOwner::Own;
        MemoryRecall { observed: clusters.map(|clusters| ClusterPools::new(clusters, link)), ..self }
    }

    /// The query key of this turn.
    fn key(&self, moment: &Moment) -> String {
        match self.settings.of {
            RecallKey::Observation => moment.observation.to_owned(),
            RecallKey::Task => moment.start.task.clone(),
            RecallKey::State => moment.state.to_string(),
        }
    }

    /// The entries of one turn that is looked up by its own point, the first ones first.
    fn entries(&self, task: &str, key: &str, point: &[f32]) -> Vec<&Entry> {
        let MemorySettings { retrieval, whose, .. } = &self.settings;
        let own = match &self.clusters {
            Some(clusters) => clusters.bucket(point),
            None => Some(memory::bucket(task)),
        };
        let lookup = |buckets: &[u64], by: By| self.find(by, &Lookup { buckets, key, point, among: None });
        match (whose, own) {
            (NotesOwner::Own, Some(own)) if self.clusters.is_some() => {
                let entries = lookup(&[own], retrieval.by);
                if entries.is_empty() {
                    self.alike(point)
                } else {
                    entries
                }
            }
            (NotesOwner::Own, None) if self.clusters.is_some() => self.alike(point),
            (NotesOwner::Own, own) => lookup(&own.into_iter().chain([0]).collect::<Vec<_>>(), retrieval.by),
            // No key of another task is like what is seen here, so all of its entries count.
            (NotesOwner::Another, own) => lookup(&self.library.after(own.unwrap_or_default()).into_iter().collect::<Vec<_>>(), By::All),
        }
    }

    /// The entries of each turn by the clusters of observations: those of its pool, and where that is empty what is
    /// alike in the whole memory.
    fn pooled(&self, pools: &ClusterPools, moments: &[Moment], keys: &[String]) -> Result<Vec<Vec<&Entry>>, PolicyError> {
        let observations: Vec<_> = moments.iter().map(|moment| (moment.start.task.as_str(), moment.observation)).collect();
        let buckets: Vec<u64> = self.library.buckets().collect();
        let of_pool = |among| self.find(By::All, &Lookup { buckets: &buckets, key: "", point: &[], among: Some(among) });
        let pools = pools.of(&observations, self.settings.whose)?;
        let mut entries: Vec<Vec<&Entry>> = pools.into_iter().map(|pool| pool.map(of_pool).unwrap_or_default()).collect();
        if self.settings.whose == NotesOwner::Own && self.settings.fallback != Fallback::None {
            // Points are dear, and few turns need one.
            let without: Vec<usize> = (0..entries.len()).filter(|i| entries[*i].is_empty()).collect();
            let points = self.pointer.points(without.iter().map(|i| keys[*i].clone()).collect())?;
            for (i, point) in without.into_iter().zip(points) {
                entries[i] = self.alike(&point);
            }
        }
        Ok(entries)
    }

    /// What a turn is given whose cluster has nothing: what is alike in all buckets.
    fn alike(&self, point: &[f32]) -> Vec<&Entry> {
        if self.settings.fallback == Fallback::None {
            return Vec::new();
        }
        let buckets: Vec<u64> = self.library.buckets().collect();
        self.find(By::Similarity, &Lookup { buckets: &buckets, key: "", point, among: None })
    }

    fn find(&self, by: By, lookup: &Lookup) -> Vec<&Entry> {
        let retrieval = Retrieval { by, ..self.settings.retrieval.clone() };
        retrieval.find(&self.library, lookup).into_iter().map(|(entry, _)| entry).collect()
    }

    /// The entries as they stand in the prompt, as far as they fit.
    fn passage(&self, entries: Vec<&Entry>, tokenizer: &Tokenizer) -> Passage {
        let mut passage = Passage { slot: self.settings.place, once: self.once(), ..Passage::default() };
        if entries.is_empty() {
            return passage;
        }
        let heading = format!("{}\n", self.settings.heading);
        let mut left = self.settings.tokens.saturating_sub(tokenizer.encode(&heading).len());
        for entry in entries {
            let line = format!("{ITEM}{}\n", entry.text);
            let Some(rest) = left.checked_sub(tokenizer.encode(&line).len()) else { break };
            left = rest;
            if passage.entries.is_empty() {
                passage.text.push_str(&heading);
            }
            passage.text.push_str(&line);
            passage.entries.push((entry.id, line));
        }
        passage
    }
}

impl ContextSource for MemoryRecall {
    fn ports(&self) -> Vec<&str> {
        let clusters = self.observed.as_ref().and(self.settings.clusters.as_deref());
        [self.settings.memory.as_str()].into_iter().chain(clusters).collect()
    }

    fn begin(&mut self, rows: &[Vec<RecordBatch>], seed: u64) -> Result<(), RolloutError> {
        let mut changes = Vec::new();
        for batch in rows.first().into_iter().flatten() {
            changes.extend(Change::read(batch)?);
        }
        changes.sort_by(|a, b| a.order().cmp(&b.order()));
        if let Some(clusters) = &mut self.clusters {
            changes.iter().filter(|change| change.change > 0).for_each(|change| clusters.insert(&change.entry));
        }
        if let Some(pools) = &mut self.observed {
            pools.begin(&changes, rows.get(1).map_or(&[], Vec::as_slice))?;
        }
        self.library.apply(changes);
        self.on = Random::new(mix(seed, text(&self.settings.memory))).unit() < self.settings.chance;
        Ok(())
    }

    fn queried(&self) -> Option<bool> {
        Some(self.on)
    }

    fn once(&self) -> bool {
        self.settings.at == RecallTime::Episode
    }

    fn contribute(&self, moments: &[Moment], tokenizer: &Tokenizer) -> Result<Vec<Passage>, PolicyError> {
        let warm = moments.iter().all(|moment| moment.start.iteration >= self.settings.warm_up);
        if !self.on || !warm || self.library.len() <= self.settings.more_than {
            return Ok(vec![Passage::default(); moments.len()]);
        }
        let keys: Vec<String> = moments.iter().map(|moment| self.key(moment)).collect();
        let entries = match &self.observed {
            Some(pools) => self.pooled(pools, moments, &keys)?,
            None => {
                let by_point = self.settings.retrieval.by == By::Similarity || self.clusters.is_some();
                let points = if by_point { self.pointer.points(keys.clone())? } else { vec![vec![]; moments.len()] };
                let each = moments.iter().zip(&keys).zip(&points);
                each.map(|((moment, key), point)| self.entries(&moment.start.task, key, point)).collect()
            }
        };
        Ok(entries.into_iter().map(|entries| self.passage(entries, tokenizer)).collect())
    }
}

/// Changes as they come by a memory's port.
#[cfg(test)]
pub fn rows(changes: &[Change]) -> Vec<Vec<RecordBatch>> {
    vec![vec![memory::table(changes).unwrap()]]
}

#[cfg(test)]
impl MemoryRecall {
    /// An entry of task `t` that is retrieved in turn so many: id 1 and up.
    pub fn sample(turn: u32, key: &str, words: &str) -> Change {
        use flow_core::row::Name;
        let source = Name { iteration: 0, task: "t".into(), sample: turn, attempt: 0, turn, phase: "reflect".into() };
        let (key, text, bucket) = (key.to_owned(), words.to_owned(), memory::bucket("t"));
        Change {
            iteration: 0,
            change: 1,
            entry: memory::Entry {
                id: u64::from(turn) + 1,
                bucket,
                key,
                embedding: vec![],
                score: 0.0,
                text,
                source,
                ordinal: 0,
                kind: String::new(),
                level: String::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::EpisodeStart;
    use crate::points::Points;
    use flow_core::row::Name;

    fn change(sample: u32, task: &str, text: &str, score: f32) -> Change {
        let source = Name { iteration: 0, task: task.into(), sample, attempt: 0, turn: 1, phase: "reflect".into() };
        let key = "a red door".to_owned();
        let entry = Entry {
            id: Entry::id_of(&source, 0),
            bucket: memory::bucket(task),
            embedding: memory::words(&key),
            key,
            score,
            text: text.into(),
            source,
            ordinal: 0,
            kind: String::new(),
            level: String::new(),
        };
        Change { iteration: 0, change: 1, entry }
    }

    fn memory(mut with: serde_json::Value) -> MemoryRecall {
        with["memory"] = "memory".into();
        MemoryRecall::new(serde_json::from_value(with).unwrap(), Pointer::new(Points::Words, None, None))
    }

    fn recall(with: serde_json::Value) -> MemoryRecall {
        let mut recall = memory(with);
        recall.begin(&rows(&[change(0, "a", "knock", 1.0), change(1, "a", "push", 2.0), change(0, "b", "dig", 3.0)]), 7).unwrap();
        recall
    }

    fn passage(recall: &MemoryRecall, task: &str, observation: &str) -> Passage {
        let start = EpisodeStart { task: task.into(), sample: 0, attempt: 0, memory: String::new(), iteration: 1, version: 0 };
        recall.contribute(&[Moment { start: &start, observation, state: 5, before: None }], &Tokenizer::bytes()).unwrap().remove(0)
    }

    #[test]
    fn entries_of_the_task_are_told_by_score_as_far_as_they_fit() {
        let all = recall(serde_json::json!({}));
        assert_eq!(passage(&all, "a", "a red door").text, "Remembered:\n- push\n- knock\n");
        assert_eq!(passage(&all, "b", "a red door").text, "Remembered:\n- dig\n");
        assert_eq!((passage(&all, "c", "a red door"), passage(&all, "a", "salt")), Default::default(), "another task's, and nothing alike");
        // 12 bytes of heading, 7 of the first entry, 8 of the second.
        assert_eq!(passage(&recall(serde_json::json!({ "tokens": 26 })), "a", "a red door").text, "Remembered:\n- push\n");
        assert_eq!(passage(&recall(serde_json::json!({ "tokens": 18 })), "a", "a red door"), Passage::default());
        let control = recall(serde_json::json!({ "whose": "another" }));
        assert_eq!(passage(&control, "b", "salt").text, "Remembered:\n- push\n- knock\n", "those of a, whatever is seen");
        assert_eq!(passage(&control, "a", "a red door").text, "Remembered:\n- dig\n");
        let key = recall(serde_json::json!({ "by": "key", "of": "state" }));
        assert_eq!(passage(&key, "a", "a red door"), Passage::default(), "no key is 5");
    }

    /// "a red door" founds a cluster, of whatever task, and "salt" another one.
    #[test]
    fn entries_of_a_cluster_are_told_and_else_what_is_alike() {
        let entry = |sample, task: &str, key: &str, text: &str, bucket| {
            let mut change = change(sample, task, text, 1.0);
            (change.entry.bucket, change.entry.key, change.entry.embedding) = (bucket, key.into(), memory::words(key));
            change
        };
        let came = [entry(0, "a", "a red door", "knock", 5), entry(1, "b", "the red door", "push", 5), entry(2, "b", "salt", "taste", 6)];
        let passage = |with: serde_json::Value, left: Vec<Change>, observation: &str| {
            let mut recall = memory(with).clustered(Some(Clusters::new(0.85)));
            recall.begin(&rows(&came.iter().cloned().chain(left).collect::<Vec<_>>()), 7).unwrap();
            passage(&recall, "c", observation).text
        };
        let all = || serde_json::json!({ "by": "all" });
        assert_eq!(passage(all(), vec![], "a red door"), "Remembered:\n- knock\n- push\n");
        assert_eq!(passage(all(), vec![], "salt"), "Remembered:\n- taste\n");
        assert_eq!(passage(all(), vec![], "a green lamp"), "", "no cluster, and nothing is more alike than 0.5");
        assert_eq!(
            passage(serde_json::json!({ "above": 0.1, "most": 1 }), vec![], "a green lamp"),
            "Remembered:\n- knock\n",
            "no cluster: of all"
        );
        assert_eq!(
            passage(serde_json::json!({ "above": -1.0, "fallback": "none" }), vec![], "a green lamp"),
            "",
            "nothing else is looked for"
        );
        let mut gone = came[2].clone();
        (gone.iteration, gone.change) = (1, -1);
        assert_eq!(
            passage(serde_json::json!({ "above": -1.0 }), vec![gone], "salt"),
            "Remembered:\n- knock\n- push\n",
            "its cluster is empty"
        );
        assert_eq!(passage(serde_json::json!({ "whose": "another" }), vec![], "salt"), "Remembered:\n- knock\n- push\n");
    }

    /// SLEA-RL, section 3.3: after a warm-up, and with more entries than so many.
    #[test]
    fn nothing_is_told_before_the_warm_up_ends_or_from_a_library_that_is_small() {
        let retrieves = |with: serde_json::Value| !passage(&recall(with), "a", "a red door").text.is_empty();
        assert!(retrieves(serde_json::json!({ "warm_up": 1 })), "the episode is of iteration 1");
        assert!(!retrieves(serde_json::json!({ "warm_up": 2 })));
        assert!(
            retrieves(serde_json::json!({ "more_than": 2 })) && !retrieves(serde_json::json!({ "more_than": 3 })),
            "there are three entries"
        );
    }

    #[test]
    fn an_iteration_is_drawn_whole_and_as_often_as_declared() {
        let mut recall = memory(serde_json::json!({ "chance": 0.25 }));
        let drawn = (0..4000).filter(|i| {
            recall.begin(&[], *i).unwrap();
            recall.queried() == Some(true)
        });
        let share = drawn.count() as f64 / 4000.0;
        assert!((share - 0.25).abs() < 0.03, "{share}");
    }
}
