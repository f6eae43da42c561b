//! Does what is left of a study: each piece of work is a `flow` of its own, as many at a time as asked for.

use super::file::Study;
use super::plan::{iterations, Measuring, Training};
use crate::cli::error::{Error, Result};
use crate::log::{self, Status};
use crate::{files, ops, pipeline};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    Train(Training),
    Measure(Measuring),
}

impl Job {
    /// What a person is told that it is.
    pub fn name(&self) -> String {
        match self {
            Job::Train(t) => format!("run {}, seed {}", t.run, t.seed),
            Job::Measure(m) => format!("measure {} of {}, seed {}", m.measurement, m.of.run, m.of.seed),
        }
    }

    /// What takes about as long.
    fn kind(&self) -> String {
        match self {
            Job::Train(t) => format!("run {}", t.run),
            Job::Measure(m) => format!("measure {}", m.measurement),
        }
    }
}

/// How a run stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    Absent,
    /// It has so many iterations to go.
    Begun(u64),
    Finished,
}

/// How far this run has come.
///
/// # Errors
/// A run that another pipeline made than the study's as it is now: its figures would stand under the wrong heading.
pub fn standing(study: &Study, training: &Training) -> Result<Standing> {
    let folder = study.folder(training);
    if !folder.join("manifest.json").exists() {
        return Ok(Standing::Absent);
    }
    let run = study.runs.get(&training.run).ok_or_else(|| Error::asked("no such run"))?;
    // As a run keeps it: with the texts of the files that belong to it.
    let wanted = pipeline::load_to_run(&run.pipeline, &study.sets(training), &ops::catalog(), false, &|_| vec![])?;
    let made = pipeline::load(&folder.join("pipeline.yaml"), &[], &ops::replayed(Default::default()))?;
    // A run that was trained further says so in its manifest alone.
    let other: Vec<String> =
        pipeline::differences(&made.source, &wanted.source).into_iter().map(|d| d.path).filter(|p| p != "iterations").collect();
    if !other.is_empty() {
        let why = format!("{} was made with other settings than the study has now: {}", folder.display(), other.join(", "));
        return Err(Error::asked(why).help("move it away, or give the study another `home`, and it is made anew"));
    }
    let manifest = log::Run::open(&folder)?.manifest()?;
    let target = iterations(run).unwrap_or(wanted.iterations);
    let left = target.saturating_sub(manifest.trained());
    Ok(if left == 0 && manifest.status == Status::Finished { Standing::Finished } else { Standing::Begun(left) })
}

/// The answer to a measurement that was made of the run as it is now, by the command that the study has now.
pub fn measured(study: &Study, m: &Measuring) -> Option<Value> {
    let kept = files::text(&study.answer(m), 16 << 20).ok()?;
    let kept: Value = serde_json::from_str(&kept).ok()?;
    let of = made_of(&study.folder(&m.of))?;
    (kept["of"] == of && kept["command"] == command_line(&study.measure(m))).then(|| kept["answer"].clone())
}

/// What a measurement is of: the run's manifest, by its sum.
fn made_of(folder: &Path) -> Option<String> {
    use sha2::{Digest, Sha256};
    let text = files::text(&folder.join("manifest.json"), 1 << 30).ok()?;
    Some(Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect())
}

/// The command as a person would type it.
pub fn command_line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|a| crate::cli::summary::shell_word(&a.to_string_lossy()));
    std::iter::once("flow".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// What is left to do: each run, and then what is measured of it, so that there are figures before the last run is done.
pub fn left(study: &Study) -> Result<Vec<Job>> {
    let measurings = study.measurings();
    let mut jobs = Vec::new();
    for training in study.trainings() {
        let finished = standing(study, &training)? == Standing::Finished;
        let own = measurings.iter().filter(|m| m.of == training && !(finished && measured(study, m).is_some()));
        let own: Vec<Job> = own.cloned().map(Job::Measure).collect();
        jobs.extend((!finished).then_some(Job::Train(training)));
        jobs.extend(own);
    }
    Ok(jobs)
}

/// A piece of work that is being done.
struct Running {
    job: Job,
    child: Child,
    /// Where its output goes.
    output: PathBuf,
    since: Instant,
}

/// Does all of `jobs`, at most `most` at a time, each with its share of the processors. `Ok(false)` if it was interrupted.
pub fn work(study: &Study, jobs: Vec<Job>, most: usize) -> Result<bool> {
    let home = study.home();
    let made = |path: &Path| std::fs::create_dir_all(path).map_err(Error::file(path));
    made(&home.join("measured"))?;
    made(&home.join("output"))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())?;
    let flow = std::env::current_exe()?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = (cores / most).max(1);
    let total = jobs.len();
    let mut clock = Clock::of(&home);
    let mut waiting = jobs;
    let mut running: Vec<Running> = Vec::new();
    while !(waiting.is_empty() && running.is_empty()) {
        while running.len() < most && !interrupted.load(Ordering::Relaxed) {
            let busy: Vec<&Job> = waiting.iter().chain(running.iter().map(|r| &r.job)).collect();
            let Some(next) = waiting.iter().position(|job| ready(study, job, &busy)) else { break };
            let job = waiting.remove(next);
            let hours = clock.left(waiting.iter().chain(std::iter::once(&job)), running.iter().map(|r| &r.job), most);
            let number = total - waiting.len();
            eprintln!("{number}/{total}  {}{}", job.name(), hours.map(|h| format!("; {h} left")).unwrap_or_default());
            let (arguments, output) = begun(study, &job)?;
            let file = std::fs::File::create(&output).map_err(Error::file(&output))?;
            let mut command = Command::new(&flow);
            command.args(arguments).env("OMP_NUM_THREADS", threads.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
            running.push(Running { job, child: command.spawn()?, output, since: Instant::now() });
        }
        std::thread::sleep(Duration::from_millis(50));
        let mut at = 0;
        while at < running.len() {
            if running[at].child.try_wait()?.is_none() {
                at += 1;
                continue;
            }
            let done = running.remove(at);
            let seconds = done.since.elapsed().as_secs_f64();
            let answer = done.child.wait_with_output()?;
            if interrupted.load(Ordering::Relaxed) {
                continue;
            }
            if !answer.status.success() {
                running.iter_mut().for_each(|r| drop(r.child.kill()));
                let said = files::text(&done.output, 1 << 20).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(12).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(Error::asked(format!("{} failed:\n{}", done.job.name(), last.join("\n")))
                    .help(format!("all that it said is in {}; what is done stays done: the same command goes on", done.output.display())));
            }
            if let Job::Measure(m) = &done.job {
                keep(study, m, &answer.stdout)?;
            }
            clock.took(&done.job, seconds)?;
        }
        if interrupted.load(Ordering::Relaxed) && running.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether nothing that has to come before it is still to be done.
fn ready(study: &Study, job: &Job, busy: &[&Job]) -> bool {
    let pending = |training: &Training| busy.iter().any(|other| matches!(other, Job::Train(t) if t == training));
    match job {
        Job::Measure(m) => !pending(&m.of),
        Job::Train(t) => {
            let from = study.runs.get(&t.run).into_iter().flat_map(|run| run.from.values());
            from.filter_map(|from| study.source(from, t.seed)).all(|source| !pending(&source))
        }
    }
}

/// The arguments that begin this work or go on with it, and where its messages go.
fn begun(study: &Study, job: &Job) -> Result<(Vec<OsString>, PathBuf)> {
    let output = |name: String| study.home().join("output").join(name + ".txt");
    let json = ["--format".into(), "json".into()];
    Ok(match job {
        Job::Measure(m) => {
            let name = format!("{}-{}-{}", m.measurement, m.of.run, m.of.seed);
            (study.measure(m).into_iter().chain(json).collect(), output(name))
        }
        Job::Train(t) => {
            let arguments = match standing(study, t)? {
                Standing::Absent => study.train(t),
                _ => {
                    let mut arguments: Vec<OsString> = vec!["resume".into(), study.folder(t).into()];
                    if let Some(n) = study.runs.get(&t.run).and_then(iterations) {
                        arguments.extend(["--iterations".into(), n.to_string().into()]);
                    }
                    arguments
                }
            };
            (arguments.into_iter().chain(json).collect(), output(format!("{}-{}", t.run, t.seed)))
        }
    })
}

/// Keeps the answer with what it is an answer to.
fn keep(study: &Study, m: &Measuring, answer: &[u8]) -> Result<()> {
    let answer: Value = serde_json::from_slice(answer)?;
    let kept = json!({ "command": command_line(&study.measure(m)), "of": made_of(&study.folder(&m.of)), "answer": answer });
    let path = study.answer(m);
    let (new, text) = (path.with_extension("new"), serde_json::to_string_pretty(&kept)?);
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(Error::file(&path))
}

/// How long each kind of work took, in this study so far: what the hours left are reckoned from.
struct Clock {
    file: PathBuf,
    /// Kind -> how often, and seconds in all.
    took: BTreeMap<String, (u64, f64)>,
}

impl Clock {
    fn of(home: &Path) -> Clock {
        let file = home.join("times.json");
        // Times that can't be read are not known: nothing depends on them but a guess.
        let took = files::text(&file, 1 << 20).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Clock { file, took }
    }

    fn took(&mut self, job: &Job, seconds: f64) -> Result<()> {
        let (times, sum) = self.took.entry(job.kind()).or_default();
        (*times, *sum) = (*times + 1, *sum + seconds);
        std::fs::write(&self.file, serde_json::to_string(&self.took)?).map_err(Error::file(&self.file))
    }

    /// How long this work takes, if each kind of it was done before; what runs already counts whole.
    fn left<'a>(&self, jobs: impl Iterator<Item = &'a Job>, running: impl Iterator<Item = &'a Job>, most: usize) -> Option<String> {
        let seconds =
            jobs.chain(running).map(|job| self.took.get(&job.kind()).map(|(times, sum)| sum / *times as f64)).sum::<Option<f64>>()?;
        let minutes = (seconds / most as f64 / 60.0).ceil() as u64;
        Some(if minutes < 60 { format!("about {minutes} min") } else { format!("about {} h {} min", minutes / 60, minutes % 60) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_reckoned_from_what_was_done() {
        let train = |run: &str, seed| Job::Train(Training { run: run.into(), seed });
        let folder = tempfile::tempdir().unwrap();
        let mut clock = Clock::of(folder.path());
        let jobs = [train("a", 1), train("a", 2)];
        assert_eq!(clock.left(jobs.iter(), std::iter::empty(), 1), None);
        clock.took(&train("a", 3), 5400.0).unwrap();
        clock.took(&train("a", 4), 1800.0).unwrap();
        // Two of an hour each, one after the other and side by side.
        assert_eq!(Clock::of(folder.path()).left(jobs.iter(), std::iter::empty(), 1).unwrap(), "about 2 h 0 min");
        assert_eq!(clock.left(jobs.iter(), std::iter::empty(), 4).unwrap(), "about 30 min");
        assert_eq!(clock.left(jobs[..1].iter(), [train("b", 1)].iter(), 1), None);
    }
}
