//! The pages of runs as files, for a paper or any web server: every answer that the pages ask for, of some iterations,
//! lies beside them.

use super::experiments::experiments;
use super::folder::PagesFolder;
use super::runs::{ServedRun, ServedRuns};
use super::server::{of_page, FILES};
use super::study::ShownStudy;
use super::{clusters, curves, episode, iteration, overview, panel, Answer};
use crate::cli::error::Result;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// About how many bytes of answers a file has.
const LONG: usize = 1 << 20;

/// A run with its number.
type Numbered<'a> = (usize, &'a ServedRun);

/// The written part.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct Written {
    /// The page to open.
    #[serde(rename = "file")]
    pub page: PathBuf,
    pub files: usize,
    pub bytes: u64,
    /// Answers that the pages lack.
    pub left_out: Vec<LeftOut>,
}

/// Answers that the pages lack for one reason.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct LeftOut {
    why: String,
    /// How many answers.
    answers: usize,
}

/// Answers that were written, by the questions as the pages ask them.
struct Writer {
    folder: PagesFolder,
    /// Question -> the number of the file with its answer.
    index: Map<String, Value>,
    /// The answers of the file that is being made.
    open: Map<String, Value>,
    length: usize,
    full: usize,
    left_out: BTreeMap<String, usize>,
}

/// Writes the pages of the runs into `folder`, with the rows of the last `iterations` iterations.
///
/// # Errors
/// If the folder has something in it that this didn't write, or a file can't be written.
pub fn write(runs: &ServedRuns, folder: &Path, iterations: usize) -> Result<Written> {
    let folder = PagesFolder::begin(folder)?;
    let page = folder.path("index.html");
    let mut writer = Writer { folder, index: Map::new(), open: Map::new(), length: 0, full: 0, left_out: BTreeMap::new() };
    writer.put("runs", &[], overview::runs(runs))?;
    if let Ok(study) = runs.study() {
        writer.study(study)?;
    }
    let all = runs.list();
    for (number, run) in all.iter().enumerate() {
        writer.run((number, run), iterations)?;
    }
    for experiment in experiments(&all).iter().filter(|experiment| experiment.runs.len() > 1) {
        writer.experiment(&experiment.runs.iter().filter_map(|number| Some((*number, all.get(*number)?.clone()))).collect::<Vec<_>>())?;
    }
    writer.close()?;
    let Writer { mut folder, index, left_out, .. } = writer;
    folder.file("data/index.js", &format!("window.FLOW_FILES = {};", Value::Object(index)))?;
    for (path, _, text) in FILES {
        match path {
            "/" => folder.file("index.html", &as_file(text))?,
            path => folder.file(path.trim_start_matches('/'), text)?,
        }
    }
    let (files, bytes) = folder.end()?;
    let left_out = left_out.into_iter().map(|(why, answers)| LeftOut { why, answers }).collect();
    Ok(Written { page, files, bytes, left_out })
}

/// The page where its answers are files: they are scripts, since a page of a file may fetch nothing, and nothing else
/// is loaded.
fn as_file(page: &str) -> String {
    let policy = "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src data:; base-uri 'none'; form-action 'none'";
    let meta = format!("<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    let scripts = "<script src=\"data/index.js\"></script>\n<script src=\"app.js\">";
    page.replace("<meta charset=\"utf-8\">", &meta).replace("<script src=\"app.js\">", scripts)
}

impl Writer {
    /// Writes an answer. What a run can't answer is written with the reason, and counted.
    fn put(&mut self, path: &str, given: &[(&str, &str)], answer: Answer) -> Result<Value> {
        let answer = answer.unwrap_or_else(|error| {
            let page = path.rsplit('/').next().unwrap_or(path);
            *self.left_out.entry(format!("{page}: {error}")).or_default() += 1;
            json!({ "error": error.to_string() })
        });
        let given = given.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}"));
        let question = std::iter::once(path.to_owned()).chain(given).collect::<Vec<_>>().join("&");
        self.index.insert(question.clone(), self.full.into());
        self.length += answer.to_string().len();
        self.open.insert(question, answer.clone());
        if self.length > LONG {
            self.close()?;
        }
        Ok(answer)
    }

    /// Ends the file that is being made, and begins the next one.
    fn close(&mut self) -> Result<()> {
        let answers = Value::Object(std::mem::take(&mut self.open));
        self.folder.file(&format!("data/{}.js", self.full), &format!("Object.assign(window.FLOW_ANSWERS ||= {{}}, {answers});"))?;
        (self.full, self.length) = (self.full + 1, 0);
        Ok(())
    }

    /// Writes what the server would answer for this page of a run.
    fn page(&mut self, (number, run): Numbered, page: &str, given: &[(&str, &str)]) -> Result<Value> {
        let parameters = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.put(&format!("runs/{number}/{page}"), given, of_page(run, page, &parameters))
    }

    fn run(&mut self, of: Numbered, iterations: usize) -> Result<()> {
        let run = of.1;
        let overview = self.page(of, "run", &[])?;
        if overview.get("error").is_some() {
            return Ok(());
        }
        self.page(of, "state", &[])?;
        self.page(of, "failures", &[])?;
        for (node, name) in figures(&overview) {
            self.page(of, "curve", &[("node", &node), ("name", &name)])?;
        }
        let manifest = run.manifest()?;
        // A finished run may have measured once more after its last iteration.
        let (trained, after): (Vec<u64>, Vec<u64>) =
            manifest.committed.iter().map(|iteration| iteration.iteration).partition(|iteration| *iteration < manifest.info.iterations);
        let last: Vec<u64> = after.into_iter().chain(trained.into_iter().rev().take(iterations)).collect();
        for (node, role) in overview["roles"].as_object().into_iter().flatten() {
            match role.as_str() {
                Some("remembers") => self.memory(of, node, &last)?,
                Some("measures") => self.panel(of, node, &last)?,
                _ => {}
            }
        }
        for (node, i) in clusters::nodes(run)?.into_iter().flat_map(|node| last.iter().map(move |i| (node.clone(), i.to_string()))) {
            self.page(of, "clusters", &[("node", &node), ("iteration", &i)])?;
        }
        for name in super::audit::of_credit(run)? {
            self.page(of, "audit", &[("name", &name)])?;
        }
        last.iter().try_for_each(|iteration| self.iteration(of, *iteration))
    }

    /// The tables of a study, and where each cell comes from.
    fn study(&mut self, study: &ShownStudy) -> Result<()> {
        let shown = self.put("study", &[], study.tables())?;
        for table in shown["tables"].as_array().into_iter().flatten() {
            let (rows, columns) = (table["rows"].as_array().into_iter().flatten(), table["columns"].as_array());
            for (row, column) in rows.flat_map(|row| columns.into_iter().flatten().map(move |column| (row, column))) {
                let [title, name, column] = [&table["title"], &row["name"], column].map(|name| name.as_str().unwrap_or_default());
                self.put("study", &[("table", title), ("row", name), ("column", column)], study.origin(title, name, column))?;
            }
        }
        Ok(())
    }

    /// The curves of an experiment: the mean of its runs.
    fn experiment(&mut self, runs: &[(usize, std::sync::Arc<ServedRun>)]) -> Result<()> {
        let Some((first, run)) = runs.first() else { return Ok(()) };
        let Ok(overview) = overview::run(run) else { return Ok(()) };
        let numbers = runs.iter().map(|(number, _)| number.to_string()).collect::<Vec<_>>().join(",");
        let served: Vec<_> = runs.iter().map(|(_, run)| run.clone()).collect();
        for (node, name) in figures(&overview) {
            let given = [("runs", numbers.as_str()), ("node", &node), ("name", &name)];
            self.put(&format!("runs/{first}/band"), &given, curves::band(&served, &node, &name))?;
        }
        Ok(())
    }

    /// A memory as of these iterations.
    fn memory(&mut self, of: Numbered, node: &str, iterations: &[u64]) -> Result<()> {
        for iteration in iterations.iter().map(u64::to_string) {
            self.page(of, "memory", &[("node", node), ("iteration", &iteration)])?;
            self.page(of, "told", &[("iteration", &iteration)])?;
        }
        Ok(())
    }

    /// A panel, the last time that it was measured, with its episodes.
    fn panel(&mut self, of: Numbered, node: &str, iterations: &[u64]) -> Result<()> {
        let measured = panel::measured(of.1, node)?;
        for iteration in iterations.iter().chain(measured.last()).collect::<std::collections::BTreeSet<_>>() {
            self.page(of, "panel", &[("node", node), ("iteration", &iteration.to_string())])?;
        }
        measured.last().map_or(Ok(()), |iteration| self.episodes(of, *iteration, node))
    }

    /// The rows of an iteration: its episodes, each in full, its groups, its updates.
    fn iteration(&mut self, of: Numbered, iteration: u64) -> Result<()> {
        let at = ("iteration", &*iteration.to_string());
        self.page(of, "figures", &[at])?;
        self.page(of, "updates", &[at])?;
        self.page(of, "credit", &[at])?;
        self.episodes(of, iteration, "trajectories")?;
        let known = iteration::groups(of.1, iteration, "group").unwrap_or_default();
        let mut groupings: Vec<&str> = known["by"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if groupings.is_empty() {
            groupings.push("group");
        }
        for by in groupings {
            self.page(of, "groups", &[at, ("by", by)])?;
            for (id, group) in iteration::all_groups(of.1, iteration, by).unwrap_or_default() {
                self.put(&format!("runs/{}/group", of.0), &[at, ("by", by), ("id", &id)], group)?;
            }
        }
        Ok(())
    }

    /// The episodes of a table in an iteration, each in full.
    fn episodes(&mut self, of: Numbered, iteration: u64, table: &str) -> Result<()> {
        let shared = [("iteration", &*iteration.to_string()), ("table", table)];
        self.page(of, "episodes", &shared)?;
        for (task, sample, answer) in episode::episodes(of.1, iteration, table).unwrap_or_default() {
            let given = [shared[0], shared[1], ("task", &task), ("sample", &sample.to_string())];
            self.put(&format!("runs/{}/episode", of.0), &given, answer)?;
        }
        Ok(())
    }
}

/// The figures of a run: node and name.
fn figures(overview: &Value) -> Vec<(String, String)> {
    let nodes = overview["figures"].as_object().into_iter().flatten();
    nodes.flat_map(|(node, names)| names.as_object().into_iter().flatten().map(|(name, _)| (node.clone(), name.clone()))).collect()
}

impl Written {
    /// For people: the written pages, the missing ones, `more`, and how to open it.
    pub fn text(&self, more: Option<String>) -> String {
        let times = |answers: usize| if answers > 1 { format!(" ({answers} times)") } else { String::new() };
        let left_out = self.left_out.iter().map(|LeftOut { why, answers }| format!("not written: {why}{}\n", times(*answers)));
        let lines: String = left_out.chain(more.map(|line| line + "\n")).collect();
        format!("{} files, {:.1} MB\n{lines}{}: open it in a browser", self.files, self.bytes as f64 / 1e6, self.page.display())
    }
}
