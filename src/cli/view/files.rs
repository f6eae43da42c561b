//! The pages of runs as files, for a paper or any web server: every answer that the pages ask for, of some iterations,
//! lies beside them.

use super::experiments::experiments;
use super::folder::PagesFolder;
use super::runs::{ServedRun, ServedRuns};
use super::server::FILES;
use super::{audit, clusters, curves, episode, iteration, memory, overview, panel, Answer};
use crate::cli::error::Result;
use crate::cli::study::ShownStudy;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// About how many bytes of answers a file has.
const LONG: usize = 1 << 20;

/// The written part.
pub struct Written {
    /// The page to open.
    pub page: PathBuf,
    pub files: usize,
    pub bytes: u64,
    /// Answers that the pages lack: why, and how many.
    pub left_out: BTreeMap<String, usize>,
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
        writer.run(number, run, iterations)?;
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
    fn put(&mut self, path: &str, given: &[(&str, String)], answer: Answer) -> Result<Value> {
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

    fn run(&mut self, number: usize, run: &ServedRun, iterations: usize) -> Result<()> {
        let path = |page: &str| format!("runs/{number}/{page}");
        let overview = self.put(&path("run"), &[], overview::run(run))?;
        if overview.get("error").is_some() {
            return Ok(());
        }
        self.put(&path("state"), &[], overview::state(run))?;
        self.put(&path("failures"), &[], panel::failures(run))?;
        for (node, name) in figures(&overview) {
            self.put(&path("curve"), &[("node", node.clone()), ("name", name.clone())], curves::curve(run, &node, &name))?;
        }
        let manifest = run.manifest()?;
        // A finished run may have measured once more after its last iteration.
        let (trained, after): (Vec<u64>, Vec<u64>) =
            manifest.committed.iter().map(|iteration| iteration.iteration).partition(|iteration| *iteration < manifest.info.iterations);
        let last: Vec<u64> = after.into_iter().chain(trained.into_iter().rev().take(iterations)).collect();
        for (node, role) in overview["roles"].as_object().into_iter().flatten() {
            match role.as_str() {
                Some("remembers") => self.memory(number, run, node, &last)?,
                Some("measures") => self.panel(number, run, node, &last)?,
                _ => {}
            }
        }
        for (node, i) in clusters::nodes(run)?.into_iter().flat_map(|node| last.iter().map(move |i| (node.clone(), *i))) {
            let answer = clusters::clusters(run, &node, i);
            self.put(&path("clusters"), &[("node", node), ("iteration", i.to_string())], answer)?;
        }
        for name in run.audits()? {
            self.put(&path("audit"), &[("name", name.clone())], audit::audit(run, &name))?;
        }
        last.iter().try_for_each(|iteration| self.iteration(number, run, *iteration, "trajectories"))
    }

    /// The tables of a study, and where each cell comes from.
    fn study(&mut self, study: &ShownStudy) -> Result<()> {
        let shown = self.put("study", &[], study.tables())?;
        for table in shown["tables"].as_array().into_iter().flatten() {
            let (rows, columns) = (table["rows"].as_array().into_iter().flatten(), table["columns"].as_array());
            for (row, column) in rows.flat_map(|row| columns.into_iter().flatten().map(move |column| (row, column))) {
                let cell = [&table["title"], &row["name"], column].map(|name| name.as_str().unwrap_or_default().to_owned());
                let [title, name, column] = &cell;
                let given = [("table", title.clone()), ("row", name.clone()), ("column", column.clone())];
                self.put("study", &given, study.origin(title, name, column))?;
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
            let given = [("runs", numbers.clone()), ("node", node.clone()), ("name", name.clone())];
            self.put(&format!("runs/{first}/band"), &given, curves::band(&served, &node, &name))?;
        }
        Ok(())
    }

    /// A memory as of these iterations.
    fn memory(&mut self, number: usize, run: &ServedRun, node: &str, iterations: &[u64]) -> Result<()> {
        for iteration in iterations {
            let at = ("iteration", iteration.to_string());
            self.put(&format!("runs/{number}/memory"), &[("node", node.into()), at.clone()], memory::memory(run, node, *iteration))?;
            self.put(&format!("runs/{number}/told"), &[at], memory::effects(run, *iteration))?;
        }
        Ok(())
    }

    /// A panel, the last time that it was measured, with its episodes.
    fn panel(&mut self, number: usize, run: &ServedRun, node: &str, iterations: &[u64]) -> Result<()> {
        let measured = panel::measured(run, node)?;
        let newest = iterations.iter().chain(measured.last()).copied().collect::<std::collections::BTreeSet<u64>>();
        for iteration in &newest {
            let given = [("node", node.into()), ("iteration", iteration.to_string())];
            self.put(&format!("runs/{number}/panel"), &given, panel::panel(run, node, *iteration))?;
        }
        measured.last().map_or(Ok(()), |iteration| self.episodes(number, run, *iteration, node))
    }

    /// The rows of an iteration: its episodes, each in full, its groups, its updates.
    fn iteration(&mut self, number: usize, run: &ServedRun, iteration: u64, table: &str) -> Result<()> {
        let path = |page: &str| format!("runs/{number}/{page}");
        let at = ("iteration", iteration.to_string());
        self.put(&path("figures"), std::slice::from_ref(&at), overview::figures(run, iteration))?;
        self.put(&path("updates"), std::slice::from_ref(&at), iteration::updates(run, iteration))?;
        self.episodes(number, run, iteration, table)?;
        let groups = iteration::groups(run, iteration, "group");
        let mut groupings: Vec<String> = groups
            .iter()
            .flat_map(|known| known["by"].as_array().cloned().unwrap_or_default())
            .filter_map(|by| by.as_str().map(Into::into))
            .collect();
        if groupings.is_empty() {
            groupings.push("group".into());
        }
        for by in groupings {
            self.put(&path("groups"), &[at.clone(), ("by", by.clone())], iteration::groups(run, iteration, &by))?;
            for (id, group) in iteration::all_groups(run, iteration, &by).unwrap_or_default() {
                self.put(&path("group"), &[at.clone(), ("by", by.clone()), ("id", id)], group)?;
            }
        }
        Ok(())
    }

    /// The episodes of a table in an iteration, each in full.
    fn episodes(&mut self, number: usize, run: &ServedRun, iteration: u64, table: &str) -> Result<()> {
        let path = |page: &str| format!("runs/{number}/{page}");
        let at = ("iteration", iteration.to_string());
        self.put(&path("episodes"), &[at.clone(), ("table", table.into())], iteration::episodes(run, iteration, table))?;
        for (task, sample, answer) in episode::episodes(run, iteration, table).unwrap_or_default() {
            let given = [at.clone(), ("table", table.into()), ("task", task), ("sample", sample.to_string())];
            self.put(&path("episode"), &given, answer)?;
        }
        Ok(())
    }
}

/// The figures of a run: node and name.
fn figures(overview: &Value) -> Vec<(String, String)> {
    let nodes = overview["figures"].as_object().into_iter().flatten();
    nodes.flat_map(|(node, names)| names.as_object().into_iter().flatten().map(|(name, _)| (node.clone(), name.clone()))).collect()
}

impl From<&Written> for Value {
    /// For another program.
    fn from(written: &Written) -> Value {
        let left_out: Vec<Value> = written.left_out.iter().map(|(why, answers)| json!({ "why": why, "answers": answers })).collect();
        json!({ "file": written.page.display().to_string(), "files": written.files, "bytes": written.bytes, "left_out": left_out })
    }
}

impl Written {
    /// For people: the written pages, the missing ones, `more`, and how to open it.
    pub fn text(&self, more: Option<String>) -> String {
        let times = |answers: usize| if answers > 1 { format!(" ({answers} times)") } else { String::new() };
        let left_out = self.left_out.iter().map(|(why, answers)| format!("not written: {why}{}\n", times(*answers)));
        let lines: String = left_out.chain(more.map(|line| line + "\n")).collect();
        format!("{} files, {:.1} MB\n{lines}{}: open it in a browser", self.files, self.bytes as f64 / 1e6, self.page.display())
    }
}
