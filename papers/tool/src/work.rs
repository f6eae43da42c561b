//! Runs the remaining jobs of a study: each is a `flow` process of its own, a given number of them at a time.

use crate::error::{Error, Result};
use crate::file::Study;
use crate::flow::{Flow, RunProgress};
use crate::plan::{iterations, SeededMeasurement, SeededRun};
use flow_core::files;
use flow_core::printable::shell_word;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A job of a study.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StudyJob {
    Train(SeededRun),
    Measure(SeededMeasurement),
}

impl StudyJob {
    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            StudyJob::Train(t) => format!("run {}, seed {}", t.run, t.seed),
            StudyJob::Measure(m) => format!("measure {} of {}, seed {}", m.measurement, m.training.run, m.training.seed),
        }
    }

    /// Jobs of one kind take about as long as one another.
    fn kind(&self) -> String {
        match self {
            StudyJob::Train(t) => format!("run {}", t.run),
            StudyJob::Measure(m) => format!("measure {}", m.measurement),
        }
    }
}

/// How far the run of this seed has come.
///
/// # Errors
/// A run that another pipeline made than the study's as it is now: its figures would stand under the wrong heading.
pub fn progress(flow: &Flow, study: &Study, training: &SeededRun) -> Result<RunProgress> {
    let folder = study.folder(training);
    if !folder.join("manifest.json").exists() {
        return Ok(RunProgress::Absent);
    }
    let run = study.runs.get(&training.run).ok_or_else(|| Error::request("no such run"))?;
    flow.progress(&folder, &run.pipeline, &study.sets(training), iterations(run))
}

/// The answer to a measurement that was made of the run as it is now, by the command that the study has now.
pub fn measured(study: &Study, m: &SeededMeasurement) -> Option<Value> {
    let stored = files::text(&study.answer(m), 16 << 20).ok()?;
    let stored: Value = serde_json::from_str(&stored).ok()?;
    let digest = manifest_digest(&study.folder(&m.training))?;
    (stored["of"] == digest && stored["command"] == command_line(&study.measure(m))).then(|| stored["answer"].clone())
}

/// The SHA-256 of the run's manifest, which names the measured files.
fn manifest_digest(folder: &Path) -> Option<String> {
    use sha2::{Digest, Sha256};
    let text = files::text(&folder.join("manifest.json"), 1 << 30).ok()?;
    Some(Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect())
}

/// The command as a person would type it.
pub fn command_line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|a| shell_word(&a.to_string_lossy()));
    std::iter::once("flow".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The remaining jobs: all runs under their first seed, each followed by its measurements, before any under the second,
/// so that there is a whole column of figures early on.
pub fn remaining(flow: &Flow, study: &Study) -> Result<Vec<StudyJob>> {
    let measurings = study.measurings();
    let mut jobs = Vec::new();
    let mut trainings = study.trainings();
    trainings.sort_by_key(|t| study.runs.get(&t.run).and_then(|run| study.seeds(run).iter().position(|seed| *seed == t.seed)));
    for training in trainings {
        let finished = progress(flow, study, &training)? == RunProgress::Finished;
        let own = measurings.iter().filter(|m| m.training == training && !(finished && measured(study, m).is_some()));
        let own: Vec<StudyJob> = own.cloned().map(StudyJob::Measure).collect();
        jobs.extend((!finished).then_some(StudyJob::Train(training)));
        jobs.extend(own);
    }
    Ok(jobs)
}

/// A job whose process runs.
struct RunningJob {
    job: StudyJob,
    child: Child,
    /// Where its output goes.
    output: PathBuf,
    /// Tells other processes that work on the study's folder that this job is taken, until its answer is stored.
    _claim: File,
    since: Instant,
}

/// Whose a job is.
enum Claim {
    /// Ours: its output goes to this file, which stays locked meanwhile.
    Ours(File),
    /// Another process is at it.
    Taken,
    /// Another process has done it.
    Done,
}

/// Takes a job whose output goes to `output`, unless another process did.
fn claim(flow: &Flow, study: &Study, job: &StudyJob, output: &Path) -> Result<Claim> {
    let file = File::options().create(true).write(true).truncate(false).open(output).map_err(Error::file(output))?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Ok(Claim::Taken),
        Err(TryLockError::Error(e)) => return Err(Error::file(output)(e)),
    }
    let done = match job {
        StudyJob::Train(t) => progress(flow, study, t)? == RunProgress::Finished,
        StudyJob::Measure(m) => measured(study, m).is_some(),
    };
    if done {
        return Ok(Claim::Done);
    }
    file.set_len(0).map_err(Error::file(output))?;
    Ok(Claim::Ours(file))
}

/// Does all of `jobs`, at most `most` at a time, each with its share of the CPUs. Other processes may do so in the same
/// folder: no job is done twice. `Ok(false)` if it was interrupted.
pub fn work(flow: &Flow, study: &Study, jobs: Vec<StudyJob>, most: usize) -> Result<bool> {
    let home = study.home();
    let create_folder = |path: &Path| std::fs::create_dir_all(path).map_err(Error::file(path));
    create_folder(&home.join("measured"))?;
    create_folder(&home.join("output"))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = (cores / most).max(1);
    let total = jobs.len();
    let mut clock = JobTimes::of(&home);
    let mut waiting = jobs;
    let mut running: Vec<RunningJob> = Vec::new();
    while !(waiting.is_empty() && running.is_empty()) {
        let mut at = 0;
        while running.len() < most && at < waiting.len() && !interrupted.load(Ordering::Relaxed) {
            let busy: Vec<&StudyJob> = waiting.iter().chain(running.iter().map(|r| &r.job)).collect();
            if !ready(study, &waiting[at], &busy) {
                at += 1;
                continue;
            }
            let output = output(study, &waiting[at]);
            let claim = match claim(flow, study, &waiting[at], &output)? {
                Claim::Taken => {
                    at += 1;
                    continue;
                }
                Claim::Done => {
                    waiting.remove(at);
                    continue;
                }
                Claim::Ours(file) => file,
            };
            let job = waiting.remove(at);
            let hours = clock.remaining(waiting.iter().chain(std::iter::once(&job)), running.iter().map(|r| &r.job), most);
            let number = total - waiting.len();
            eprintln!("{number}/{total}  {}{}", job.name(), hours.map(|h| format!("; {h} left")).unwrap_or_default());
            let mut command = flow.command();
            command.args(arguments(flow, study, &job)?).env("OMP_NUM_THREADS", threads.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(claim.try_clone()?);
            running.push(RunningJob { job, child: command.spawn()?, output, _claim: claim, since: Instant::now() });
            // What it makes possible may stand before it.
            at = 0;
        }
        // Where all that is left is others', there is no hurry.
        std::thread::sleep(Duration::from_millis(if running.is_empty() { 1000 } else { 50 }));
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
                let output = files::text(&done.output, 1 << 20).unwrap_or_default();
                let last: Vec<&str> = output.lines().rev().take(12).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                return Err(Error::request(format!("{} failed:\n{}", done.job.name(), last.join("\n")))
                    .help(format!("all that it said is in {}; what is done stays done: the same command goes on", done.output.display())));
            }
            if let StudyJob::Measure(m) = &done.job {
                keep(study, m, &answer.stdout)?;
            }
            clock.record(&done.job, seconds)?;
        }
        if interrupted.load(Ordering::Relaxed) && running.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether all jobs that it depends on are done.
fn ready(study: &Study, job: &StudyJob, busy: &[&StudyJob]) -> bool {
    let pending = |training: &SeededRun| busy.iter().any(|other| matches!(other, StudyJob::Train(t) if t == training));
    match job {
        StudyJob::Measure(m) => !pending(&m.training),
        StudyJob::Train(t) => {
            let from = study.runs.get(&t.run).into_iter().flat_map(|run| run.from.values());
            from.filter_map(|from| study.source(from, t.seed)).all(|source| !pending(&source))
        }
    }
}

/// The file for a job's messages.
fn output(study: &Study, job: &StudyJob) -> PathBuf {
    let name = match job {
        StudyJob::Measure(m) => format!("{}-{}-{}", m.measurement, m.training.run, m.training.seed),
        StudyJob::Train(t) => format!("{}-{}", t.run, t.seed),
    };
    study.home().join("output").join(name + ".txt")
}

/// The arguments of the process that does this job, or goes on with it.
fn arguments(flow: &Flow, study: &Study, job: &StudyJob) -> Result<Vec<OsString>> {
    let mut arguments = match job {
        StudyJob::Measure(m) => study.measure(m),
        StudyJob::Train(t) if progress(flow, study, t)? == RunProgress::Absent => study.train(t),
        StudyJob::Train(t) => {
            let mut arguments: Vec<OsString> = vec!["resume".into(), study.folder(t).into()];
            if let Some(n) = study.runs.get(&t.run).and_then(iterations) {
                arguments.extend(["--iterations".into(), n.to_string().into()]);
            }
            arguments
        }
    };
    arguments.extend(["--format".into(), "json".into()]);
    Ok(arguments)
}

/// Saves the output of a measurement, with its command and the digest of the run that it measured.
fn keep(study: &Study, m: &SeededMeasurement, answer: &[u8]) -> Result<()> {
    let answer: Value = serde_json::from_slice(answer)?;
    let stored = json!({ "command": command_line(&study.measure(m)), "of": manifest_digest(&study.folder(&m.training)), "answer": answer });
    let path = study.answer(m);
    let (new, text) = (path.with_extension("new"), serde_json::to_string_pretty(&stored)?);
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path)).map_err(Error::file(&path))
}

/// How long each kind of job has taken in this study so far, to estimate the time left.
struct JobTimes {
    file: PathBuf,
    /// Kind -> how often, and seconds in all.
    totals: BTreeMap<String, (u64, f64)>,
}

impl JobTimes {
    fn of(home: &Path) -> JobTimes {
        let file = home.join("times.json");
        // Times that can't be read are not known: nothing depends on them but a guess.
        let totals = files::text(&file, 1 << 20).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        JobTimes { file, totals }
    }

    fn record(&mut self, job: &StudyJob, seconds: f64) -> Result<()> {
        let (times, sum) = self.totals.entry(job.kind()).or_default();
        (*times, *sum) = (*times + 1, *sum + seconds);
        std::fs::write(&self.file, serde_json::to_string(&self.totals)?).map_err(Error::file(&self.file))
    }

    /// The estimated time for these jobs, if each kind was timed before; a running job counts in full.
    fn remaining<'a>(
        &self,
        jobs: impl Iterator<Item = &'a StudyJob>,
        running: impl Iterator<Item = &'a StudyJob>,
        most: usize,
    ) -> Option<String> {
        let seconds =
            jobs.chain(running).map(|job| self.totals.get(&job.kind()).map(|(times, sum)| sum / *times as f64)).sum::<Option<f64>>()?;
        let minutes = (seconds / most as f64 / 60.0).ceil() as u64;
        Some(if minutes < 60 { format!("about {minutes} min") } else { format!("about {} h {} min", minutes / 60, minutes % 60) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_reckoned_from_what_was_done() {
        let train = |run: &str, seed| StudyJob::Train(SeededRun { run: run.into(), seed });
        let folder = tempfile::tempdir().unwrap();
        let mut clock = JobTimes::of(folder.path());
        let jobs = [train("a", 1), train("a", 2)];
        assert_eq!(clock.remaining(jobs.iter(), std::iter::empty(), 1), None);
        clock.record(&train("a", 3), 5400.0).unwrap();
        clock.record(&train("a", 4), 1800.0).unwrap();
        // Two of an hour each, one after the other and side by side.
        assert_eq!(JobTimes::of(folder.path()).remaining(jobs.iter(), std::iter::empty(), 1).unwrap(), "about 2 h 0 min");
        assert_eq!(clock.remaining(jobs.iter(), std::iter::empty(), 4).unwrap(), "about 30 min");
        assert_eq!(clock.remaining(jobs[..1].iter(), [train("b", 1)].iter(), 1), None);
    }
}
