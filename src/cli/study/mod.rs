//! `flow study`: a paper's table as a file. Trains what is missing, measures it, writes the tables; goes on where it
//! was left.

mod cell;
mod covered;
mod file;
mod lines;
mod page;
mod plan;
mod tables;
mod values;
mod verdict;
mod work;

use super::error::Error;
use super::output::{finish, CommandResult};
use super::session::info;
use crate::ops;
use clap::Args;
use file::Study;
use flow_core::files;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
pub use tables::ShownStudy;
use values::StudyValues;
use work::{remaining, work};

/// The JSON Schema of a study's file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Study).to_value()
}

/// The JSON Schema of a study's file as an author writes it: it may be `like` another one, and an entry of a list or a
/// map may stand for several by `for`.
pub fn published_schema() -> serde_json::Value {
    let mut schema = schema();
    let about = "The file of a study that this one is like: it has only the differences. Maps are merged, a null takes a key away, a list takes the place of a list.";
    schema["properties"]["like"] = serde_json::json!({ "description": about, "type": "string" });
    // The other file has what this one must have otherwise.
    schema["if"] = serde_json::json!({ "not": { "required": ["like"] } });
    schema["then"] = serde_json::json!({ "required": schema["required"].take() });
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("required");
    }
    for shape in schema["$defs"].as_object_mut().into_iter().flat_map(|shapes| shapes.values_mut()) {
        if let Some(properties) = shape["properties"].as_object_mut() {
            let about =
                "Name -> values: this entry is written once and stands for one of each value, which takes the place of {name} in it.";
            let lists = serde_json::json!({ "type": "array", "minItems": 1 });
            let each = serde_json::json!({ "description": about, "type": "object", "minProperties": 1, "additionalProperties": lists });
            properties.insert("for".into(), each);
        }
    }
    schema
}

#[derive(Args)]
pub struct StudyArgs {
    /// The study's file
    study: PathBuf,
    /// How many jobs run at a time, each with its share of the processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Another value in the study's file: its `home` and `page` for your own tables, or a run's pipeline; paths as in
    /// the file
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Checks everything and lists the remaining jobs, but does nothing
    #[arg(long)]
    dry_run: bool,
    /// Writes the page from the present results, without doing the rest
    #[arg(long, conflicts_with = "dry_run")]
    write: bool,
    /// Prints the commands behind a cell, named by its table, row and column
    #[arg(long, num_args = 3, value_names = ["TABLE", "ROW", "COLUMN"], conflicts_with_all = ["dry_run", "write"])]
    cell: Option<Vec<String>>,
}

impl StudyArgs {
    pub fn run(self) -> CommandResult {
        let study: Study = flow_pipeline::document(&self.study, "the study", &self.sets, Study::mistakes)?;
        if let Some([table, row, column]) = self.cell.as_deref() {
            return finish(&page::origin(&StudyValues::new(&study), table, row, column)?);
        }
        checked(&study)?;
        let jobs = remaining(&study)?;
        if self.dry_run {
            let all: Vec<String> = jobs.iter().map(|job| format!("  {}\n", job.name())).collect();
            let done = study.trainings().len() + study.measurings().len() - jobs.len();
            return finish(&format!("{done} pieces of work are done, {} are left\n{}", jobs.len(), all.concat()));
        }
        if !self.write && !work(&study, jobs, self.jobs as usize)? {
            eprintln!("interrupted; finished jobs stay done: the same command goes on");
            return Ok(ExitCode::from(130));
        }
        let before = files::text(&study.page, 16 << 20).unwrap_or_default();
        let page = page::page(&StudyValues::new(&study), &self.command(), &before)?;
        if let Some(folder) = study.page.parent() {
            std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
        }
        for (name, picture) in page.pictures {
            let file = study.page.with_file_name(name);
            std::fs::write(&file, picture).map_err(Error::file(&file))?;
        }
        std::fs::write(&study.page, &page.text).map_err(Error::file(&study.page))?;
        finish(&format!("{}\n\nTry next:\n  flow view --folder {}", study.page.display(), study.home().display()))
    }
}

impl StudyArgs {
    /// The command that makes the page.
    fn command(&self) -> String {
        let sets = self.sets.iter().flat_map(|set| ["--set".into(), set.into()]);
        work::command_line(&["study".into(), self.study.clone().into()].into_iter().chain(sets).collect::<Vec<OsString>>())
    }
}

/// Checks the queries of all columns against the tables of this run, so that a mistake shows before anything is
/// trained.
fn queries(study: &Study, run: &str, info: &flow_log::RunInfo) -> super::error::Result<()> {
    for table in &study.tables {
        for row in table.rows.iter().filter(|row| plan::sides(table, row).any(|(shown_run, _)| shown_run == run)) {
            let audited = plan::sides(table, row)
                .all(|(_, name)| name.and_then(|name| study.measurements.get(name)).is_some_and(|m| m.audit.is_some()));
            for column in &table.columns {
                let at = |e: flow_log::LogError| Error::from(e).at(format!("`{}` of `{}`", column.name, row.name));
                column.query.iter().try_for_each(|sql| flow_log::parses(info, sql, audited)).map_err(at)?;
            }
        }
    }
    Ok(())
}

/// Looks at every pipeline and panel before anything runs.
fn checked(study: &Study) -> super::error::Result<()> {
    let programs = flow_env::process::Programs::default();
    let mut checked_runs = std::collections::BTreeSet::new();
    for training in study.trainings() {
        if checked_runs.insert(training.run.clone()) {
            let run = &study.runs[&training.run];
            let pipeline = flow_pipeline::load(&run.pipeline, &study.sets(&training), &ops::catalog())?;
            queries(study, &training.run, &info(&pipeline, None))?;
            ops::programs(&pipeline).for_each(|(_, program)| programs.declare(program));
        }
    }
    for (name, measured) in &study.measurements {
        // What is played as another pipeline does may be played in that one's world.
        if let Some(like) = &measured.like {
            let pipeline =
                flow_pipeline::load(like, &[], &ops::catalog()).map_err(|e| Error::from(e).at(format!("measurements.{name}.like")))?;
            ops::programs(&pipeline).for_each(|(_, program)| programs.declare(program));
        }
        let panel = measured.panel.as_ref().map_or(Ok(()), |panel| flow_env::Panel::load(panel).and_then(|panel| panel.verify(&programs)));
        panel.map_err(|e| Error::from(e).at(format!("measurements.{name}.panel")))?;
    }
    Ok(())
}
