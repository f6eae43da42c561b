//! The pages of runs as files, for a paper or any web server: every answer that the pages ask for, of some iterations, lies beside them.

use super::runs::{ServedRun, ServedRuns};
use super::server::FILES;
use super::{episode, pages, Answer};
use crate::cli::error::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// Answers that were written, by the questions as the pages ask them.
struct Writer<'a> {
    folder: &'a Path,
    index: Map<String, Value>,
}

/// Writes the pages of the runs into `folder`, with the rows of the last `iterations` iterations; answers how many files.
///
/// # Errors
/// If the folder has something in it, or a file can't be written.
pub fn write(runs: &ServedRuns, folder: &Path, iterations: usize) -> Result<usize> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::Request(format!("{} has something in it: name a new folder", folder.display())));
    }
    std::fs::create_dir_all(folder.join("data")).map_err(Error::file(folder))?;
    let mut writer = Writer { folder, index: Map::new() };
    writer.put("runs", &[], pages::runs(runs))?;
    for (number, run) in runs.list().iter().enumerate() {
        writer.run(number, run, iterations)?;
    }
    let count = writer.index.len();
    writer.file("data/index.js", &format!("window.FLOW_FILES = {};", Value::Object(writer.index.clone())))?;
    for (path, _, text) in FILES {
        let page = path == "/";
        // The index says that answers are files.
        let text = if page {
            text.replace("<script src=\"app.js\">", "<script src=\"data/index.js\"></script>\n<script src=\"app.js\">")
        } else {
            text.into()
        };
        writer.file(if page { "index.html" } else { path.trim_start_matches('/') }, &text)?;
    }
    Ok(count + FILES.len() + 1)
}

impl Writer<'_> {
    fn file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(Error::file(&path))
    }

    /// Writes an answer. What a run doesn't have is no file.
    fn put(&mut self, path: &str, given: &[(&str, String)], answer: Answer) -> Result<Value> {
        let Ok(answer) = answer else { return Ok(Value::Null) };
        let given = given.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}"));
        let question = std::iter::once(path.to_owned()).chain(given).collect::<Vec<_>>().join("&");
        let number = self.index.len();
        self.file(&format!("data/{number}.js"), &format!("(window.FLOW_ANSWERS ||= {{}})[{number}] = {answer};"))?;
        self.index.insert(question, number.into());
        Ok(answer)
    }

    fn run(&mut self, number: usize, run: &ServedRun, iterations: usize) -> Result<()> {
        let path = |page: &str| format!("runs/{number}/{page}");
        let overview = self.put(&path("run"), &[], pages::run(run))?;
        self.put(&path("state"), &[], pages::state(run))?;
        self.put(&path("failures"), &[], pages::failures(run))?;
        for (node, names) in overview["figures"].as_object().into_iter().flatten() {
            for name in names.as_object().into_iter().flatten().map(|(name, _)| name) {
                self.put(&path("curve"), &[("node", node.clone()), ("name", name.clone())], pages::curve(run, node, name, 1000))?;
            }
        }
        let manifest = run.manifest()?;
        // A finished run may have measured once more after its last iteration.
        let (trained, after): (Vec<u64>, Vec<u64>) =
            manifest.committed.iter().map(|iteration| iteration.iteration).partition(|iteration| *iteration < manifest.info.iterations);
        let last: Vec<u64> = after.into_iter().chain(trained.into_iter().rev().take(iterations)).collect();
        for (node, role) in overview["roles"].as_object().into_iter().flatten() {
            for iteration in &last {
                let given = [("node", node.clone()), ("iteration", iteration.to_string())];
                match role.as_str() {
                    Some("remembers") => drop(self.put(&path("memory"), &given, pages::memory(run, node, *iteration))?),
                    Some("measures") => drop(self.put(&path("panel"), &given, pages::panel(run, node, *iteration))?),
                    _ => {}
                }
            }
        }
        last.iter().try_for_each(|iteration| self.iteration(number, run, *iteration))
    }

    /// The rows of an iteration: its episodes, each in full, its groups, its updates.
    fn iteration(&mut self, number: usize, run: &ServedRun, iteration: u64) -> Result<()> {
        let path = |page: &str| format!("runs/{number}/{page}");
        let at = ("iteration", iteration.to_string());
        self.put(&path("updates"), std::slice::from_ref(&at), pages::updates(run, iteration))?;
        let table = "trajectories";
        let episodes = self.put(&path("episodes"), &[at.clone(), ("table", table.into())], pages::episodes(run, iteration, table))?;
        for row in episodes["rows"].as_array().into_iter().flatten() {
            let (Some(task), Some(sample)) = (row[0].as_str(), row[1].as_u64()) else { continue };
            let given = [at.clone(), ("table", table.into()), ("task", task.into()), ("sample", sample.to_string())];
            self.put(&path("episode"), &given, episode::episode(run, iteration, table, task, sample as u32))?;
        }
        let groups = pages::groups(run, iteration, "group");
        let groupings: Vec<String> = groups
            .iter()
            .flat_map(|known| known["by"].as_array().cloned().unwrap_or_default())
            .filter_map(|by| by.as_str().map(Into::into))
            .collect();
        for by in groupings {
            let groups = self.put(&path("groups"), &[at.clone(), ("by", by.clone())], pages::groups(run, iteration, &by))?;
            for row in groups["rows"].as_array().into_iter().flatten() {
                let id = row[0].as_str().map_or_else(|| row[0].to_string(), Into::into);
                let given = [at.clone(), ("by", by.clone()), ("id", id.clone())];
                self.put(&path("group"), &given, pages::group(run, iteration, &by, &id))?;
            }
        }
        Ok(())
    }
}
