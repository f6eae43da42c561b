//! The file of a study: runs, measurements of them, and tables of both.

use flow_core::defaults::number;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A paper's table as a file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The study's name.
    #[schemars(regex(pattern = "^[a-z][a-z0-9-]{0,63}$"))]
    pub study: String,
    /// The page's heading; the study's name unless given.
    pub title: Option<String>,
    /// The page's first paragraph.
    #[serde(default)]
    pub about: String,
    /// The folder of its runs and measurements; runs/NAME where `flow` runs unless given. Paths in this file begin in
    /// its own folder.
    #[schemars(extend("x-names" = "file"))]
    pub home: Option<PathBuf>,
    /// The Markdown page that its tables are written to. Its text from the line `## What came out` on is kept.
    #[schemars(extend("x-names" = "file"))]
    pub page: PathBuf,
    /// The seeds of each run that names none of its own; no two alike.
    #[serde(default = "seed_one")]
    #[schemars(length(min = 1))]
    pub seeds: Vec<u64>,
    /// Path -> value, as with `--set`, in the pipeline of every run, which must have what it names: how the agent
    /// plays, for example. What a run sets itself comes after it.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// The runs to train, by name.
    #[schemars(length(min = 1))]
    pub runs: BTreeMap<String, RunSpec>,
    /// The run's measurement.
    #[serde(default)]
    pub measurements: BTreeMap<String, MeasurementSpec>,
    /// The tables of the page.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
}

fn seed_one() -> Vec<u64> {
    vec![1]
}

impl Study {
    /// The folder of the study's runs and measurements.
    pub fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(|| PathBuf::from("runs").join(&self.study))
    }

    /// The seeds of this run.
    pub fn seeds<'a>(&'a self, run: &'a RunSpec) -> &'a [u64] {
        run.seeds.as_deref().unwrap_or(&self.seeds)
    }
}

impl TableSpec {
    /// The row that verdicts are given against.
    pub fn comparator(&self) -> Option<&RowSpec> {
        let mut plain = self.rows.iter().filter(|row| row.plain);
        match &self.against {
            Some(name) => self.rows.iter().find(|row| row.name == *name),
            None => plain.next().filter(|_| plain.next().is_none()),
        }
    }
}

/// A run, once a seed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The pipeline's file.
    #[schemars(extend("x-names" = "file"))]
    pub pipeline: PathBuf,
    /// Its seeds, if they aren't the study's.
    #[schemars(length(min = 1))]
    pub seeds: Option<Vec<u64>>,
    /// Model -> the run of this study whose last weights it starts from: of the same seed, or of its only one.
    #[serde(default)]
    pub from: BTreeMap<String, String>,
    /// Path -> value, as with `--set`: a file named here is looked for where `flow` runs.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// A measurement by `flow eval` on a panel, or by `flow audit` of a credit, of each seed of the runs that a table asks
/// it of.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasurementSpec {
    /// The frozen panel of tasks.
    #[schemars(extend("x-names" = "file"))]
    pub panel: Option<PathBuf>,
    /// In place of a panel: turns of the run that are played on. Its rows are the run's table `audit`, under the
    /// measurement's name.
    pub audit: Option<AuditSpec>,
    /// The pipeline to play by; the run's own unless given.
    #[schemars(extend("x-names" = "file"))]
    pub like: Option<PathBuf>,
    /// Which of its nodes plays, if there are several.
    pub node: Option<String>,
    /// Attempts at a task, until one succeeds; as many as the loop has unless given.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: Option<u32>,
    /// Trials a task.
    #[schemars(range(min = 1, max = 10_000))]
    pub samples: Option<u32>,
    /// The run of this study whose memory is read, of the same seed, or of its only one; none unless given.
    pub memory: Option<String>,
    /// Sampling temperature; that of `flow eval` unless given.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub temperature: Option<f64>,
    /// Path -> value, as with `--set` of `flow eval`.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// What `flow audit` plays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditSpec {
    /// How many turns.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub turns: u32,
    /// How often each of their answers, and as often the policy's own draws.
    #[schemars(range(min = 2, max = 100_000))]
    pub plays: u32,
    /// The column with the credit.
    #[serde(default = "advantage")]
    pub credit: String,
}

fn advantage() -> String {
    "advantage".into()
}

/// A table of the page.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its heading.
    pub title: String,
    /// Notes for the reader of the page.
    #[serde(default)]
    pub about: String,
    /// The measurement of rows that name none.
    pub measurement: Option<String>,
    /// The row that verdicts are given against, by its name: each other row that is neither `plain` nor a difference is
    /// compared with it, column by column. It is named before anything is measured: the best of several rows, chosen by
    /// their results, is too high to be a fair opponent.
    pub against: Option<String>,
    /// The spread printed beside a mean over seeds.
    #[serde(default)]
    pub spread: Uncertainty,
    /// The column that is drawn below the table: a bar a row, in Mermaid, which Markdown's readers draw.
    pub picture: Option<String>,
    /// Draws the rows as lines over the columns, with their means' intervals as bands, into an SVG file beside the
    /// page; this is what the axis of the columns is called, such as `thousand tokens computed`.
    pub lines: Option<String>,
    /// Methods and their controls.
    #[schemars(length(min = 1))]
    pub rows: Vec<RowSpec>,
    /// The values shown of each.
    #[schemars(length(min = 1))]
    pub columns: Vec<ColumnSpec>,
}

/// The measure of the seeds' spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Uncertainty {
    /// Their standard deviation (of a sample, n - 1).
    #[default]
    Deviation,
    /// The mean's 95% interval: over seeds and tasks, both drawn anew, where a measurement has values by task (crossed
    /// random effects); else over seeds, by Student's t. Where one or two of five seeds or more lie far from all
    /// others, the number of seeds instead.
    Interval,
}

/// A row: a run, or the difference of two.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowSpec {
    pub name: String,
    /// The run.
    pub run: String,
    /// The row's measurement; the table's unless given.
    pub measurement: Option<String>,
    /// A control that is subtracted from it, seed by seed.
    pub less: Option<ControlSpec>,
    /// Another difference that is taken away from this one: a difference of differences, such as what notes are worth
    /// to one method beyond what they are worth to another.
    pub beyond: Option<DifferenceSpec>,
    /// Whether it is a baseline: no verdict is given on it. Where the table has no `against`, its only plain row is
    /// what it is against.
    #[serde(default)]
    pub plain: bool,
    /// The paper's value, printed as given.
    pub paper: Option<String>,
}

/// The subtrahend of a difference.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlSpec {
    pub run: String,
    /// The run's measurement; the row's unless given.
    pub measurement: Option<String>,
}

/// A difference of two runs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DifferenceSpec {
    pub run: String,
    /// The run's measurement; the row's unless given.
    pub measurement: Option<String>,
    /// A run that is subtracted from it, seed by seed.
    pub less: ControlSpec,
}

/// A column: of each row's measurement, or of its run's log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    pub name: String,
    /// An expression of SQL over the measurement's figures, such as "pass@3" - "pass@1" (quoted as names are in SQL):
    /// `pass@1` to `pass@k`, `return`, `turns`, `episodes`, and `diversity` where a task has several trials.
    pub value: Option<String>,
    /// Or a query over the run's log, whose answer is one number.
    pub query: Option<String>,
    /// Whether less is better.
    #[serde(default)]
    pub lower: bool,
    /// A factor for the value: 100 for percent.
    #[serde(default = "number::<f64, 1>")]
    pub scale: f64,
    /// Digits behind the point.
    #[serde(default = "number::<usize, 1>")]
    #[schemars(range(min = 0, max = 9))]
    pub digits: usize,
}
