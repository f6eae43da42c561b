//! What contends for the places of a memory: the rows of an iteration that make entries, and the entries that have a
//! place.

use super::{Entries, Home, MemoryUpdate};
use arrow::array::RecordBatch;
use flow_core::row::{self, Name};
use flow_credit::memory::{self, Change, Clusters, Entry, Item, Library, Rank, Rescore};
use flow_dataflow::relation::Contender;
use flow_dataflow::{Failed, Lost};
use flow_rollout::points::Pointer;
use flow_rollout::tags;
use std::collections::{BTreeMap, BTreeSet};

/// The candidates of an iteration's rows with their entries, and rows whose text is too long.
#[derive(Default)]
pub struct Admitted {
    pub contenders: Vec<(Contender, Change)>,
    pub long: Vec<Lost>,
}

/// Says what contends. A candidate contends for one iteration, and for longer if it got a place in it: so a rejected
/// candidate never takes the place of an entry that leaves later, and a memory follows from its changes alone.
pub struct Admit {
    pointer: Pointer,
    with: MemoryUpdate,
    iterations: u64,
    library: Library,
    /// Where entries live by `per: cluster`.
    clusters: Option<Clusters>,
    /// What contends, in its bucket, with its rank and its last iteration.
    offered: BTreeMap<u64, (u64, Rank, Option<u64>)>,
    /// The candidates of the iteration before.
    fresh: BTreeSet<u64>,
    /// By bucket, the ranks of the entries that have a place.
    places: BTreeMap<u64, BTreeSet<(Rank, u64)>>,
}

impl Admit {
    /// Nothing contends yet; the run ends after `iterations`.
    pub fn new(pointer: Pointer, with: MemoryUpdate, iterations: u64) -> Admit {
        let clusters = (with.found.per == Home::Cluster).then(|| Clusters::new(with.found.at_least));
        let (library, offered, fresh, places) = Default::default();
        Admit { pointer, with, iterations, library, clusters, offered, fresh, places }
    }

    /// `rows` are what entries are made of, the changes of the iteration before, and all changes of before the run was
    /// stopped.
    pub fn iteration(&mut self, iteration: u64, rows: &[Vec<RecordBatch>]) -> Result<Admitted, Failed> {
        let mut admitted = Admitted::default();
        self.remembered(iteration, &rows[2], &mut admitted)?;
        for batch in &rows[1] {
            let changes = Change::read(batch)?;
            // What left and came at once has only got another score, and contends with it already.
            let left: BTreeSet<u64> = changes.iter().filter(|change| change.change < 0).map(|change| change.entry.id).collect();
            let rescored = |change: &Change| change.change > 0 && left.contains(&change.entry.id);
            let rescored: BTreeSet<u64> = changes.iter().filter(|change| rescored(change)).map(|change| change.entry.id).collect();
            for change in changes {
                if !rescored.contains(&change.entry.id) {
                    self.follow(iteration, &change, &mut admitted);
                }
                self.library.apply([change]);
            }
        }
        for turned_away in std::mem::take(&mut self.fresh) {
            self.offered.remove(&turned_away);
        }
        if let Some(window) = self.with.admission.window {
            // They leave by themselves: they were offered until now.
            for old in self.library.forget((iteration + 1).saturating_sub(window)) {
                self.withdraw(old.id);
            }
        }
        if let (Some(rescore), Some(turns)) = (&self.with.rescore.clone(), rows.get(3)) {
            self.rescore(iteration, rescore, turns, &mut admitted)?;
        }
        if let Some(rows) = row::sorted(&rows[0])? {
            let candidates = self.candidates(&rows, &mut admitted.long)?;
            let mut ages: BTreeMap<u64, u64> = BTreeMap::new();
            for entry in self.with.admission.contenders(&self.library, candidates) {
                let age = ages.entry(entry.shelf()).or_default();
                let place = self.place(&entry, *age);
                *age += 1;
                // Who can't push anybody out costs differential nothing.
                if !self.room(&entry, place) {
                    continue;
                }
                // For one iteration, until it is known whether it got a place.
                admitted
                    .contenders
                    .extend([(1, iteration), (-1, iteration + 1)].map(|(change, at)| self.contender(&entry, place, change, at)));
                self.fresh.insert(entry.id);
                self.offered.insert(entry.id, place);
            }
        }
        Ok(admitted)
    }

    /// Goes along with an entry that came into the memory or left it in the iteration before.
    fn follow(&mut self, iteration: u64, change: &Change, admitted: &mut Admitted) {
        if change.change > 0 {
            self.confirm(iteration, &change.entry, admitted);
            self.clusters.iter_mut().for_each(|clusters| clusters.insert(&change.entry));
        } else if let Some(place) = self.withdraw(change.entry.id).filter(|place| place.2.is_none_or(|end| end > iteration)) {
            self.tell(iteration, &change.entry, place, -1, admitted);
        }
    }

    /// Takes up the entries of the stopped run.
    fn remembered(&mut self, iteration: u64, past: &[RecordBatch], admitted: &mut Admitted) -> Result<(), Failed> {
        let mut changes = Vec::new();
        for batch in past {
            changes.extend(Change::read(batch)?);
        }
        changes.sort_by(|a, b| a.order().cmp(&b.order()));
        if let Some(clusters) = &mut self.clusters {
            changes.iter().filter(|change| change.change > 0).for_each(|change| clusters.insert(&change.entry));
        }
        self.library.apply(changes);
        let mut there: Vec<Entry> = if past.is_empty() { vec![] } else { self.library.entries().cloned().collect() };
        there.sort_by(|a, b| a.place().cmp(&b.place()));
        let mut ages: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for entry in there {
            let age = ages.entry((entry.shelf(), entry.source.iteration)).or_default();
            let place = self.place(&entry, *age);
            *age += 1;
            self.tell(iteration, &entry, place, 1, admitted);
            self.offered.insert(entry.id, place);
            self.places.entry(place.0).or_default().insert((place.1, entry.id));
        }
        Ok(())
    }

    /// Moves the scores of the entries that stood in the prompts of these turns.
    fn rescore(&mut self, iteration: u64, rescore: &Rescore, turns: &[RecordBatch], admitted: &mut Admitted) -> Result<(), Failed> {
        // By task a worker holds the entries of its own tasks alone, so what they were worth to another task doesn't
        // count.
        let by_task = self.with.found.per == Home::Task;
        for ((bucket, id), mean) in rescore.outcomes(turns, |task| if by_task { memory::bucket(task) } else { 0 })? {
            let bucket = match self.with.found.per {
                Home::Task | Home::All => bucket,
                Home::Cluster => self.library.buckets().find(|bucket| self.library.contains(*bucket, id)).unwrap_or_default(),
            };
            let Some(place) = self.offered.get(&id).copied().filter(|place| place.2.is_none_or(|end| end > iteration)) else { continue };
            let Some(mut entry) = self.library.get(bucket, id).cloned() else { continue };
            let score = rescore.moved(entry.score, mean);
            if score == entry.score {
                continue;
            }
            self.tell(iteration, &entry, place, -1, admitted);
            self.withdraw(id);
            entry.score = score;
            if rescore.below.is_some_and(|least| score < least) {
                continue;
            }
            let place = (place.0, self.with.admission.reranked(place.1, score), place.2);
            self.tell(iteration, &entry, place, 1, admitted);
            self.offered.insert(id, place);
            self.places.entry(place.0).or_default().insert((place.1, id));
        }
        Ok(())
    }

    /// The shelf, the rank and the end of an entry; `age` is how many of its shelf and iteration are older.
    fn place(&self, entry: &Entry, age: u64) -> (u64, Rank, Option<u64>) {
        let admission = &self.with.admission;
        let until = admission.until(entry.source.iteration).filter(|until| *until < self.iterations);
        (entry.shelf(), admission.rank(entry.score, entry.source.iteration << 32 | age), until)
    }

    /// Whether there is room on the shelf for an entry of this rank, or one has to leave that is worse.
    fn room(&self, entry: &Entry, (shelf, rank, _): (u64, Rank, Option<u64>)) -> bool {
        let full = self.places.get(&shelf).filter(|own| own.len() >= self.with.admission.places(&entry.kind));
        full.and_then(BTreeSet::last).is_none_or(|(worst, _)| rank < *worst)
    }

    /// An entry has left, or is about to; where it stood, if it had not left before.
    fn withdraw(&mut self, id: u64) -> Option<(u64, Rank, Option<u64>)> {
        let place = self.offered.remove(&id)?;
        if let Some(own) = self.places.get_mut(&place.0) {
            own.remove(&(place.1, id));
        }
        Some(place)
    }

    /// A candidate that got a place goes on contending.
    fn confirm(&mut self, iteration: u64, entry: &Entry, admitted: &mut Admitted) {
        let Some(place) = self.offered.get(&entry.id).copied().filter(|_| self.fresh.remove(&entry.id)) else { return };
        self.places.entry(place.0).or_default().insert((place.1, entry.id));
        if place.2.is_none_or(|end| end > iteration) {
            self.tell(iteration, entry, place, 1, admitted);
        }
    }

    /// Tells that an entry contends from now until its end, or no longer does.
    fn tell(&self, iteration: u64, entry: &Entry, place: (u64, Rank, Option<u64>), change: i32, admitted: &mut Admitted) {
        admitted.contenders.push(self.contender(entry, place, change, iteration));
        if let Some(until) = place.2.filter(|until| *until > iteration) {
            admitted.contenders.push(self.contender(entry, place, -change, until));
        }
    }

    /// A change of the candidates, with its candidate.
    fn contender(&self, entry: &Entry, (group, rank, _): (u64, Rank, Option<u64>), change: i32, at: u64) -> (Contender, Change) {
        let places = self.with.admission.places(&entry.kind).min(u32::MAX as usize) as u32;
        let contender = Contender { group, places, rank, id: entry.id, change: change.into(), at };
        (contender, Change { iteration: at, change, entry: entry.clone() })
    }

    /// The rows that make entries, in the order of their names.
    fn candidates(&mut self, rows: &RecordBatch, long: &mut Vec<Lost>) -> Result<Vec<Entry>, Failed> {
        let with = &self.with;
        let phases = row::texts(rows, "phase")?;
        let marks = match with.entries {
            Entries::Reflections => Some(row::bools(rows, "valid")?),
            Entries::Endings => Some(row::bools(rows, "done")?),
            Entries::Turns => None,
        };
        let phase = if with.entries == Entries::Reflections { "reflect" } else { "play" };
        let (texts, scores) = (row::texts(rows, &with.text)?, row::f32s(rows, &with.score)?);
        let key = memory::keys(rows, &with.found.keyed.key)?;
        let mut candidates = Vec::new();
        for i in 0..rows.num_rows() {
            if phases.value(i) != phase
                || marks.is_some_and(|marks| !marks.value(i))
                || with.above.is_some_and(|least| scores.value(i) <= least)
            {
                continue;
            }
            let whole = texts.value(i);
            let text = with.tag.as_ref().map_or(Some(whole), |tag| tags::read(tag, whole)).unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let source = Name::of(rows, i);
            if text.len() > with.longest {
                long.push(too_long(&source, text.len(), with.longest));
                continue;
            }
            let key = key(i);
            let items = match &with.list {
                None => vec![Item { text: text.to_owned(), ..Item::default() }],
                Some(list) => {
                    let (items, unread) = list.read(text);
                    long.extend(unread.first().map(|line| unreadable(&source, line, unread.len())));
                    items
                }
            };
            let entry = |(ordinal, item): (u32, Item)| Entry {
                id: Entry::id_of(&source, ordinal),
                bucket: if with.found.per == Home::Task { memory::bucket(&source.task) } else { 0 },
                embedding: vec![],
                key: key.clone(),
                score: scores.value(i),
                text: item.text,
                source: source.clone(),
                ordinal,
                kind: item.kind,
                level: item.level,
            };
            candidates.extend((0..).zip(items).map(entry));
        }
        let points = self.pointer.points(candidates.iter().map(|entry| entry.key.clone()).collect())?;
        candidates.iter_mut().zip(points).for_each(|(entry, point)| entry.embedding = point);
        self.clusters.iter().for_each(|clusters| clusters.assign(&mut candidates));
        Ok(candidates)
    }
}

fn too_long(source: &Name, bytes: usize, longest: usize) -> Lost {
    let error = format!("its text has {bytes} bytes and is not remembered: `longest` allows {longest}");
    lost(source, "too_long", error)
}

fn unreadable(source: &Name, line: &str, lines: usize) -> Lost {
    let more = if lines > 1 { format!(", nor can {} more lines", lines - 1) } else { String::new() };
    lost(source, "unreadable", format!("the line `{line}` of its list can't be read{more}: `list` says how a line begins"))
}

fn lost(source: &Name, cause: &'static str, error: String) -> Lost {
    Lost {
        task: source.task.clone(),
        sample: source.sample,
        attempt: source.attempt,
        turn: source.turn,
        phase: if source.phase == "reflect" { "reflect" } else { "play" },
        node: String::new(),
        cause,
        error,
        tries: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Float32Array, StringArray, UInt32Array, UInt64Array};
    use flow_rollout::points::Points;
    use std::sync::Arc;

    /// Two reflections on one task, the first of them with this text.
    fn rows(text: &str) -> RecordBatch {
        row::batch(vec![
            ("iteration", Arc::new(UInt64Array::from(vec![0, 0]))),
            ("task", Arc::new(StringArray::from(vec!["t", "t"]))),
            ("sample", Arc::new(UInt32Array::from(vec![0, 1]))),
            ("attempt", Arc::new(UInt32Array::from(vec![0, 0]))),
            ("turn", Arc::new(UInt32Array::from(vec![3, 3]))),
            ("phase", Arc::new(StringArray::from(vec!["reflect", "reflect"]))),
            ("observation", Arc::new(StringArray::from(vec!["a door", "a lamp"]))),
            ("action", Arc::new(StringArray::from(vec![text, "push"]))),
            ("valid", Arc::new(BooleanArray::from(vec![true, true]))),
            ("score", Arc::new(Float32Array::from(vec![1.0, 2.0]))),
        ])
        .unwrap()
    }

    fn admitted(text: &str, with: serde_json::Value) -> Admitted {
        let mut admit = Admit::new(Pointer::new(Points::Words, None, None), serde_json::from_value(with).unwrap(), 9);
        admit.iteration(0, &[vec![rows(text)], vec![], vec![]]).unwrap()
    }

    #[test]
    fn a_text_of_a_megabyte_is_not_remembered_and_noted() {
        let long = "x".repeat(1 << 20);
        let found = admitted(&long, serde_json::json!({}));
        assert_eq!(
            found.contenders.iter().map(|(_, change)| change.entry.text.as_str()).collect::<Vec<_>>(),
            ["push", "push"],
            "it came, for one iteration"
        );
        let [lost] = &found.long[..] else { panic!("one text is too long") };
        assert_eq!((lost.sample, lost.cause, lost.phase), (0, "too_long", "reflect"));
        assert_eq!(lost.error, "its text has 1048576 bytes and is not remembered: `longest` allows 4000");
        let just = admitted("knock", serde_json::json!({ "longest": 5 }));
        assert_eq!((just.contenders.len(), just.long.len()), (4, 0), "as long as is allowed");
        assert_eq!(admitted("knocks", serde_json::json!({ "longest": 5 })).long.len(), 1);
    }

    #[test]
    fn a_row_whose_score_is_not_above_what_is_asked_makes_no_entry() {
        // The scores are 1 and 2; an entry is told twice, since it comes for one iteration.
        let texts = |with| admitted("pull", with).contenders.into_iter().map(|(_, change)| change.entry.text).collect::<Vec<_>>();
        assert_eq!(texts(serde_json::json!({ "above": 0.5 })), ["pull", "pull", "push", "push"]);
        assert_eq!(texts(serde_json::json!({ "above": 1.0 })), ["push", "push"], "1 is not above 1");
        assert!(texts(serde_json::json!({ "above": 2.0 })).is_empty());
    }

    #[test]
    fn a_row_without_a_text_makes_no_entry() {
        assert_eq!(admitted(" \n", serde_json::json!({})).contenders.len(), 2);
        assert_eq!(admitted("no tag", serde_json::json!({ "tag": "tip" })).contenders.len(), 0);
    }
}
