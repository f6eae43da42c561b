//! `flow study`: a paper's table as a file. Trains what is missing, measures it, writes the tables; goes on where it
//! was left.

mod cell;
mod covered;
mod error;
mod file;
mod flow;
mod lines;
mod page;
mod plan;
mod stats;
mod tables;
mod values;
mod verdict;
mod work;

use clap::Parser;
use error::{Error, Result};
use file::Study;
use flow::Flow;
use flow_core::files;
use flow_core::printable::printable;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use values::StudyValues;
use work::{remaining, work};

/// The JSON Schema of a study's file as an author writes it: it may be `like` another one, and an entry of a list or a
/// map may stand for several by `for`.
fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Study).to_value();
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

/// Makes a paper's tables from a file: trains missing runs, measures them, writes the page
#[derive(Parser)]
#[command(name = "flow-study", bin_name = "flow study", version, max_term_width = 100)]
struct StudyArgs {
    /// The study's file
    #[arg(required_unless_present = "schema")]
    study: Option<PathBuf>,
    /// How many jobs run at a time, each with its share of the CPUs
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
    /// Prints the tables for another program, from the present results
    #[arg(long, conflicts_with_all = ["dry_run", "write", "cell"])]
    json: bool,
    /// Prints the JSON Schema of a study's file
    #[arg(long, exclusive = true)]
    schema: bool,
}

impl StudyArgs {
    fn run(self) -> Result<ExitCode> {
        let Some(file) = &self.study else { return finish(&serde_json::to_string_pretty(&schema())?) };
        let study: Study = flow_pipeline::document(file, "the study", &self.sets, Study::mistakes)?;
        let flow = Flow::find()?;
        if let Some([table, row, column]) = self.cell.as_deref() {
            return finish(&page::origin(&StudyValues::new(&study, &flow), table, row, column)?);
        }
        if self.json {
            return finish(&tables::tables(&StudyValues::new(&study, &flow))?.to_string());
        }
        checked(&flow, &study)?;
        let jobs = remaining(&flow, &study)?;
        if self.dry_run {
            let all: Vec<String> = jobs.iter().map(|job| format!("  {}\n", job.name())).collect();
            let done = study.trainings().len() + study.measurings().len() - jobs.len();
            return finish(&format!("{done} pieces of work are done, {} are left\n{}", jobs.len(), all.concat()));
        }
        if !self.write && !work(&flow, &study, jobs, self.jobs as usize)? {
            eprintln!("interrupted; finished jobs stay done: the same command goes on");
            return Ok(ExitCode::from(130));
        }
        let before = files::text(&study.page, 16 << 20).unwrap_or_default();
        let page = page::page(&StudyValues::new(&study, &flow), &self.command(file), &before)?;
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
    fn command(&self, file: &Path) -> String {
        let sets = self.sets.iter().flat_map(|set| ["--set".into(), set.into()]);
        work::command_line(&["study".into(), file.into()].into_iter().chain(sets).collect::<Vec<OsString>>())
    }
}

/// Checks the queries of all columns against the tables of this run, so that a mistake shows before anything is
/// trained.
fn queries(study: &Study, run: &str, info: &flow_log::RunInfo) -> Result<()> {
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
fn checked(flow: &Flow, study: &Study) -> Result<()> {
    let mut checked_runs = std::collections::BTreeSet::new();
    for training in study.trainings() {
        if checked_runs.insert(training.run.clone()) {
            queries(study, &training.run, &flow.describe(&study.runs[&training.run].pipeline, &study.sets(&training))?)?;
        }
    }
    for (name, measured) in &study.measurements {
        // What is played as another pipeline does may be played in that one's environment.
        if let Some(like) = &measured.like {
            flow.describe(like, &[]).map_err(|e| e.at(format!("measurements.{name}.like")))?;
        }
        if let Some(panel) = &measured.panel {
            flow.panel(panel).map_err(|e| e.at(format!("measurements.{name}.panel")))?;
        }
    }
    Ok(())
}

/// Prints the last text of a command that succeeded; a reader that went away (`| head`) is no error.
fn finish(text: &str) -> Result<ExitCode> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = std::io::stdout().lock().write_all(format!("{}{end}", printable(text)).as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    StudyArgs::parse().run().unwrap_or_else(|error| {
        anstream::eprintln!("{}", error.styled().trim_end());
        ExitCode::FAILURE
    })
}
