//! The plan of a study: each run under each seed, after the runs whose weights it starts from; then the measurements
//! that its tables need.

use crate::file::{MeasurementSpec, RowSpec, RunSpec, Study, TableSpec};
use flow_pipeline::{Code, Mistake};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// One run under one seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeededRun {
    pub run: String,
    pub seed: u64,
}

/// One measurement of one run under one seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeededMeasurement {
    pub measurement: String,
    pub training: SeededRun,
}

impl Study {
    /// The runs, each after those whose weights it starts from. Those of a circle, which `mistakes` names, are left
    /// out.
    pub fn trainings(&self) -> Vec<SeededRun> {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut order = Vec::new();
        for _ in 0..self.runs.len() {
            for (name, run) in &self.runs {
                if !done.contains(name.as_str()) && run.from.values().all(|from| done.contains(from.as_str())) {
                    done.insert(name);
                    order.extend(self.seeds(run).iter().map(|seed| SeededRun { run: name.clone(), seed: *seed }));
                }
            }
        }
        order
    }

    /// The measurements that the tables need, each once.
    pub fn measurings(&self) -> Vec<SeededMeasurement> {
        let mut all = BTreeSet::new();
        for (table, row) in self.tables.iter().flat_map(|t| t.rows.iter().map(move |row| (t, row))) {
            // A query reads the log, which an audit adds to; a value is read from the measurement's answer.
            let audits = |name: Option<&str>| name.and_then(|name| self.measurements.get(name)).is_some_and(|m| m.audit.is_some());
            let values = table.columns.iter().any(|c| c.value.is_some());
            for (run, measurement) in sides(table, row).filter(|(_, measurement)| values || audits(*measurement)) {
                for seed in self.runs.get(run).map_or(&[][..], |run| self.seeds(run)) {
                    let measurement = measurement.unwrap_or_default().to_owned();
                    all.insert(SeededMeasurement { measurement, training: SeededRun { run: run.into(), seed: *seed } });
                }
            }
        }
        all.into_iter().collect()
    }

    /// The run of this name that a run of `seed` starts from: of the same seed, or the only one.
    pub fn source(&self, from: &str, seed: u64) -> Option<SeededRun> {
        let seeds = self.seeds(self.runs.get(from)?);
        let seed = match seeds {
            [only] => *only,
            _ => *seeds.iter().find(|s| **s == seed)?,
        };
        Some(SeededRun { run: from.into(), seed })
    }

    /// The folder of a run.
    pub fn folder(&self, training: &SeededRun) -> PathBuf {
        self.home().join(format!("{}-{}", training.run, training.seed))
    }

    /// The file of a measurement.
    pub fn answer(&self, m: &SeededMeasurement) -> PathBuf {
        self.home().join("measured").join(format!("{}-{}-{}.json", m.measurement, m.training.run, m.training.seed))
    }

    /// The overrides of a run.
    pub fn sets(&self, training: &SeededRun) -> Vec<String> {
        let Some(run) = self.runs.get(&training.run) else { return vec![] };
        let mut sets = vec![format!("seed={}", training.seed)];
        sets.extend(self.set.iter().chain(&run.set).map(set));
        for (model, from) in &run.from {
            if let Some(source) = self.source(from, training.seed) {
                sets.push(format!("models.{model}.load={}", self.folder(&source).display()));
            }
        }
        sets
    }

    /// The arguments of `flow` that make a run from its beginning.
    pub fn train(&self, training: &SeededRun) -> Vec<OsString> {
        let Some(run) = self.runs.get(&training.run) else { return vec![] };
        let mut arguments = vec!["run".into(), run.pipeline.clone().into_os_string()];
        self.sets(training).into_iter().for_each(|set| arguments.extend(["--set".into(), set.into()]));
        arguments.extend(["--out".into(), self.folder(training).into_os_string()]);
        arguments
    }

    /// The arguments of `flow` that measure a run.
    pub fn measure(&self, m: &SeededMeasurement) -> Vec<OsString> {
        let Some(measured) = self.measurements.get(&m.measurement) else { return vec![] };
        let MeasurementSpec { panel, audit, like, node, attempts, samples, memory, temperature, set: sets } = measured;
        let memory = memory.as_ref().and_then(|run| self.source(run, m.training.seed));
        let verb = if audit.is_some() { "audit" } else { "eval" };
        let mut arguments: Vec<OsString> = vec![verb.into(), self.folder(&m.training).into()];
        let mut with = |flag: &str, value: OsString| arguments.extend([flag.into(), value]);
        panel.iter().for_each(|panel| with("--panel", panel.into()));
        if let Some(audit) = audit {
            with("--turns", audit.turns.to_string().into());
            with("--plays", audit.plays.to_string().into());
            with("--credit", (&audit.credit).into());
            with("--name", (&m.measurement).into());
        }
        with("--seed", m.training.seed.to_string().into());
        like.iter().for_each(|like| with("--like", like.into()));
        node.iter().for_each(|node| with("--node", node.into()));
        attempts.iter().for_each(|n| with("--attempts", n.to_string().into()));
        samples.iter().for_each(|n| with("--samples", n.to_string().into()));
        memory.iter().for_each(|run| with("--memory", self.folder(run).into()));
        temperature.iter().for_each(|t| with("--temperature", t.to_string().into()));
        sets.iter().for_each(|s| with("--set", set(s).into()));
        arguments
    }

    /// Mistakes that the schema can't find: unknown names, cycles, seeds without a counterpart, missing files.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut report = |at: &[&str], message: String| {
            mistakes.push(Mistake { code: Code::Operator, at: at.iter().map(|s| s.to_string()).collect(), message, help: None });
        };
        for (at, seeds) in std::iter::once((vec!["seeds"], &self.seeds))
            .chain(self.runs.iter().filter_map(|(name, run)| Some((vec!["runs", name.as_str(), "seeds"], run.seeds.as_ref()?))))
        {
            if let Some(seed) = seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed)).map(|(_, seed)| seed) {
                report(&at, format!("the seed {seed} stands there twice: a run repeated under it says nothing new, and an interval would take it for another"));
            }
        }
        for (key, names) in [("runs", self.runs.keys().collect::<Vec<_>>()), ("measurements", self.measurements.keys().collect())] {
            for name in names.into_iter().filter(|name| !is_name(name)) {
                report(&[key, name], format!("`{name}` can't be a name of {key}: folders are named after it, so it has letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"));
            }
        }
        let reached: BTreeSet<String> = self.trainings().into_iter().map(|t| t.run).collect();
        for (name, run) in &self.runs {
            for (model, from) in &run.from {
                let at = ["runs", name, "from", model];
                match self.runs.get(from) {
                    None => report(&at, format!("there is no run `{from}` in this study")),
                    Some(source) => {
                        let lacking = self.seeds(run).iter().find(|seed| self.source(from, **seed).is_none());
                        if let Some(seed) = lacking {
                            let has = self.seeds(source);
                            report(&at, format!("`{name}` runs under seed {seed}, and `{from}` has the seeds {has:?}"));
                        }
                    }
                }
            }
            if !run.pipeline.is_file() {
                report(&["runs", name, "pipeline"], format!("there is no file `{}`", run.pipeline.display()));
            }
            if !reached.contains(name) && run.from.values().all(|from| self.runs.contains_key(from)) {
                report(&["runs", name, "from"], format!("`{name}` starts from itself, by way of the runs it starts from"));
            }
        }
        for (name, measured) in &self.measurements {
            if let Some(run) = measured.memory.as_ref().filter(|run| !self.runs.contains_key(*run)) {
                report(&["measurements", name, "memory"], format!("there is no run `{run}` in this study"));
            }
            if measured.panel.is_some() == measured.audit.is_some() {
                report(&["measurements", name], "a measurement needs either a `panel` or an `audit`".into());
            }
            if measured.audit.is_some() && name.contains('.') {
                report(&["measurements", name], format!("`{name}` is the name of its audit, which has letters, digits, `-` and `_`"));
            }
            let further = [measured.like.is_some(), measured.attempts.is_some(), measured.samples.is_some(), measured.memory.is_some()];
            if measured.audit.is_some() && (further.contains(&true) || measured.temperature.is_some() || !measured.set.is_empty()) {
                report(&["measurements", name, "audit"], "an audit plays as the run did: `node` is all that it may have besides".into());
            }
            for (key, file) in [("panel", measured.panel.as_ref()), ("like", measured.like.as_ref())] {
                if let Some(file) = file.filter(|file| !file.is_file()) {
                    report(&["measurements", name, key], format!("there is no file `{}`", file.display()));
                }
            }
        }
        for (t, table) in self.tables.iter().enumerate() {
            let t = t.to_string();
            for (c, column) in table.columns.iter().enumerate() {
                if column.value.is_some() == column.query.is_some() {
                    let message = format!("the column `{}` needs either a `value` or a `query`", column.name);
                    report(&["tables", &t, "columns", &c.to_string()], message);
                }
            }
            if let Some(name) = table.picture.as_ref().filter(|name| table.columns.iter().all(|c| c.name != **name)) {
                report(&["tables", &t, "picture"], format!("there is no column `{name}` in this table to draw"));
            }
            match &table.against {
                Some(name) if table.rows.iter().all(|row| row.name != *name || row.less.is_some()) => {
                    let rows: Vec<&str> = table.rows.iter().filter(|row| row.less.is_none()).map(|row| row.name.as_str()).collect();
                    report(
                        &["tables", &t, "against"],
                        format!("there is no row `{name}` in this table to compare with; there are: {}", rows.join(", ")),
                    );
                }
                None if table.comparator().is_none() => {
                    if let Some(plain) = table.rows.iter().find(|row| row.plain) {
                        let why = "several rows are `plain`, and nothing says which of them the others are compared with (it was the best of them in each column, which is chosen \
                                   from the data of the comparison): name it here";
                        report(&["tables", &t], format!("{why}, such as `against: {}`", plain.name));
                    }
                }
                _ => (),
            }
            for (r, row) in table.rows.iter().enumerate() {
                let r = r.to_string();
                if row.beyond.is_some() && row.less.is_none() {
                    report(&["tables", &t, "rows", &r, "beyond"], format!("`{}` is no difference: it needs a `less`", row.name));
                }
                for (run, measurement) in sides(table, row) {
                    let at = ["tables", &t, "rows", &r];
                    if !self.runs.contains_key(run) {
                        report(&at, format!("there is no run `{run}` in this study"));
                    }
                    match measurement {
                        Some(name) if !self.measurements.contains_key(name) => report(&at, format!("there is no measurement `{name}`")),
                        None if table.columns.iter().any(|c| c.value.is_some()) => {
                            report(&at, format!("nothing says what is measured of `{}`", row.name))
                        }
                        _ => (),
                    }
                }
            }
        }
        mistakes
    }
}

/// Whether the name can be a folder's, and is no path out of its parent.
fn is_name(name: &str) -> bool {
    let within = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.len() <= 100 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(within)
}

/// The run of a row, the one that is taken away from it, and the two whose difference is taken away from theirs, each
/// with its measurement: one, two or four.
pub fn sides<'a>(table: &'a TableSpec, row: &'a RowSpec) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
    let own = row.measurement.as_deref().or(table.measurement.as_deref());
    let less = row.less.as_ref().map(|less| (less.run.as_str(), less.measurement.as_deref().or(own)));
    let beyond = row.beyond.iter().flat_map(move |beyond| {
        let measured = beyond.measurement.as_deref().or(own);
        [(beyond.run.as_str(), measured), (beyond.less.run.as_str(), beyond.less.measurement.as_deref().or(measured))]
    });
    std::iter::once((row.run.as_str(), own)).chain(less).chain(beyond)
}

fn set((path, value): (&String, &Value)) -> String {
    format!("{path}={value}")
}

/// The iterations that a run is to have, where the study says so.
pub fn iterations(run: &RunSpec) -> Option<u64> {
    run.set.get("iterations").and_then(Value::as_u64)
}
