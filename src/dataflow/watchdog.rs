//! A thread that checks the stages twice a second. It writes `status.json`, which `flow top` reads, and detects a run
//! that is stuck: one without progress for longer than the limit ends with a failure that names which stage holds which
//! iteration and what it waits for. A stage that is merely busy is named in a warning first; it ends the run when for
//! twice the limit nothing has given a sign of life and the policy is idle.

use super::cluster::life::Life;
use super::context::RunState;
use super::failure::Failure;
use super::status::{summarize, write, Activity, PolicyActivity, STATUS};
use super::watch::StageReading;
use crate::pulse::Pulse;
use crossbeam_channel::{bounded, RecvTimeoutError, Sender};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of its checks.
const TICK: Duration = Duration::from_millis(500);
/// After this long without progress a warning is printed, where there is no limit or a longer one.
const NOTICE: Duration = Duration::from_secs(30);
/// How long the workers may take to end a stuck run before the process exits.
const GRACE: Duration = Duration::from_secs(10);

/// Ends with the run: dropping it ends the thread and removes the status file.
pub(super) struct Watchdog {
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    status: Option<PathBuf>,
}

impl Watchdog {
    /// Watches a run. `limit` is how long it may make no progress; a stage that takes longer is named. Of several
    /// processes one `decides`, and learns through `life` of progress in the others.
    pub fn start(
        shared: &RunState,
        folder: Option<&Path>,
        iterations: u64,
        limit: Option<Duration>,
        decides: bool,
        mut life: Option<Life>,
    ) -> Watchdog {
        let (bell, rings) = bounded::<()>(0);
        let status = folder.map(|f| f.join(STATUS));
        let (shared, path) = (shared.clone(), status.clone());
        let body = move || {
            let start = Instant::now();
            let before_run = shared.watch.pulse().map(|p| p.busy()).unwrap_or_default();
            let (mut judge, mut warnings) = (Judge::new(limit, decides), Vec::new());
            let mut before = start;
            while let Err(RecvTimeoutError::Timeout) = rings.recv_timeout(TICK) {
                let readings = shared.watch.read();
                let pulse = shared.watch.pulse();
                let (beats, works) = pulse.map_or((0, false), |p| (p.beats(), p.working().is_some()));
                let elsewhere = life.as_mut().map_or(0, Life::heard);
                // Time doesn't count while the machine sleeps or the process is suspended.
                let passed = before.elapsed().min(2 * TICK);
                before = Instant::now();
                let verdict = judge.look(&readings, Some((beats + elsewhere, works)), passed);
                if let Some(life) = life.as_mut().filter(|_| judge.still.is_zero()) {
                    life.moved();
                }
                for warning in verdict.warnings {
                    eprintln!("warning: {warning}");
                    warnings.push(warning);
                }
                if let Some(path) = &path {
                    let seconds = start.elapsed().as_secs_f64();
                    let busy = |p: &Pulse| p.busy().saturating_sub(before_run).as_secs_f64();
                    let policy = pulse.map(|p| PolicyActivity {
                        busy_seconds: busy(p),
                        busy_share: busy(p) / seconds,
                        running_seconds: p.working().map(|w| w.as_secs_f64()),
                        queue: p.waiting(),
                    });
                    let next = shared.watch.next();
                    let (oldest, nodes) = summarize(&readings);
                    write(
                        path,
                        &Activity {
                            process: Some(std::process::id()),
                            seconds,
                            iterations,
                            next,
                            oldest,
                            nodes,
                            policy,
                            warnings: warnings.clone(),
                        },
                    );
                }
                if let Some(message) = verdict.stalled {
                    let failure = Failure::new("engine", shared.watch.next(), message);
                    shared.fail(failure.clone());
                    if let Err(RecvTimeoutError::Timeout) = rings.recv_timeout(GRACE) {
                        eprintln!("error: {failure}\nthe workers don't answer either, so the process ends; committed iterations are safe");
                        std::process::exit(1);
                    }
                    return;
                }
            }
        };
        // Without the thread the run goes on unwatched.
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(body).ok();
        Watchdog { bell: Some(bell), thread, status }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.bell.take();
        let _ = self.thread.take().map(JoinHandle::join); // it has said what it had to say
        let _ = self.status.take().map(fs::remove_file); // it may never have been written
    }
}

/// The result of one check.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    warnings: Vec<String>,
    /// The run has to end, and why.
    stalled: Option<String>,
}

/// The state of the checks: what moved when.
struct Judge {
    limit: Option<Duration>,
    decides: bool,
    /// The number of starts and ends of all stages at the last check.
    beats: u64,
    still: Duration,
    /// For how long some stage has been busy while nothing began or ended and the policy was idle.
    mute: Duration,
    noticed: bool,
    /// How often a stage was warned about in its current run.
    named: BTreeMap<(String, usize), u32>,
}

impl Judge {
    fn new(limit: Option<Duration>, decides: bool) -> Self {
        Judge { limit, decides, beats: 0, still: Duration::ZERO, mute: Duration::ZERO, noticed: false, named: BTreeMap::new() }
    }

    /// Checks the readings, `passed` after the previous check. `policy`: the beats of the policy thread and of other
    /// processes, and whether it is busy.
    fn look(&mut self, readings: &[StageReading], policy: Option<(u64, bool)>, passed: Duration) -> Verdict {
        let mut verdict = Verdict::default();
        if let Some(limit) = self.limit {
            for reading in readings {
                let times = reading.running.map_or(0, |r| (r.as_secs_f64() / limit.as_secs_f64()) as u32);
                let before = self.named.insert((reading.stage.clone(), reading.worker), times).unwrap_or(0);
                if times > before {
                    let (iteration, seconds) = (reading.iteration.unwrap_or(0), reading.running.unwrap_or_default().as_secs());
                    verdict.warnings.push(format!(
                        "`{}` has been busy with iteration {iteration} for {seconds} s; the run waits for it",
                        reading.stage
                    ));
                }
            }
        }
        let beats = readings.iter().map(|r| r.beats).sum::<u64>() + policy.map_or(0, |p| p.0);
        let works = readings.iter().any(|r| r.running.is_some()) || policy.is_some_and(|p| p.1);
        let computes = policy.is_some_and(|p| p.1);
        self.mute = if computes || beats != self.beats { Duration::ZERO } else { self.mute + passed };
        if let Some(limit) = self.limit.filter(|limit| self.decides && works && self.mute >= limit.saturating_mul(2)) {
            let busy = readings.iter().filter(|r| r.running.is_some()).max_by_key(|r| r.running);
            verdict.stalled = busy.map(|r| {
                let (iteration, seconds) = (r.iteration.unwrap_or(0), self.mute.as_secs());
                format!(
                    "nothing has moved for {seconds} s: `{}` is busy with iteration {iteration} and shows no sign of life; where it may take \
                     longer, say `--stall {}`",
                    r.stage,
                    limit.as_secs().saturating_mul(4)
                )
            });
        }
        if works || beats != self.beats {
            (self.beats, self.still, self.noticed) = (beats, Duration::ZERO, false);
            return verdict;
        }
        self.still += passed;
        let message = |verb: &str| format!("nothing has moved for {} s, and {verb}:{}", self.still.as_secs(), holders(readings));
        match self.limit {
            _ if !self.decides => {}
            Some(limit) if self.still >= limit => verdict.stalled = Some(message("the run isn't over")),
            limit => {
                if !self.noticed && self.still >= limit.map_or(NOTICE, |l| NOTICE.min(l / 2)) {
                    let then = limit.map_or("no --stall is set".into(), |l| format!("after {} s the run will end", l.as_secs()));
                    verdict.warnings.push(message(&then));
                    self.noticed = true;
                }
            }
        }
        verdict
    }
}

/// Which stage holds which iteration, and what it waits for.
fn holders(readings: &[StageReading]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for reading in readings {
        let Some(iteration) = reading.iteration else { continue };
        let waits: Vec<String> = reading.waits_for.iter().map(|w| format!("`{w}`")).collect();
        let what = if waits.is_empty() { "has it ready to send".into() } else { format!("waits for {}", waits.join(", ")) };
        let line = format!("\n  `{}` holds iteration {iteration} and {what}", reading.stage);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return " no stage holds an iteration, so an operator keeps one open without rows".into();
    }
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits(stage: &str, iteration: u64, waits_for: &str) -> StageReading {
        StageReading { stage: stage.into(), iteration: Some(iteration), waits_for: vec![waits_for.into()], ..StageReading::default() }
    }

    #[test]
    fn stillness_is_noticed_then_ended() {
        let mut judge = Judge::new(Some(4 * SECOND), true);
        let readings = [waits("group sizes", 3, "group"), waits("tasks", 5, "the commit"), StageReading::default()];
        let mut look = || judge.look(&readings, Some((8, false)), SECOND);
        assert_eq!(look(), Verdict::default(), "the first look has nothing to compare with");
        assert_eq!(look(), Verdict::default());
        let noticed = look();
        assert_eq!(noticed.stalled, None);
        assert_eq!(
            noticed.warnings,
            ["nothing has moved for 2 s, and after 4 s the run will end:\n  `group sizes` holds iteration 3 and waits for `group`\n  `tasks` holds iteration 5 and waits for `the commit`"]
        );
        assert_eq!(look(), Verdict::default(), "it is said once");
        assert!(look().stalled.unwrap().starts_with("nothing has moved for 4 s, and the run isn't over:\n  `group sizes`"));
    }

    #[test]
    fn whoever_moves_or_works_starts_it_anew() {
        let mut judge = Judge::new(Some(2 * SECOND), true);
        let mut reading = waits("update", 0, "rollout");
        for turn in 0..9 {
            reading.beats += turn % 2;
            assert_eq!(judge.look(std::slice::from_ref(&reading), None, SECOND).stalled, None, "a stage began or ended");
        }
        for _ in 0..9 {
            assert_eq!(judge.look(std::slice::from_ref(&reading), Some((1, true)), SECOND).stalled, None, "the policy thread works");
        }
    }

    #[test]
    fn a_run_without_a_limit_is_talked_about_and_one_of_several_processes_keeps_quiet() {
        for (limit, decides, when) in [(None, true, vec![29]), (Some(8 * SECOND), false, vec![])] {
            let mut judge = Judge::new(limit, decides);
            let verdicts: Vec<(u64, Verdict)> = (0..100).map(|i| (i, judge.look(&[waits("update", 0, "rollout")], None, SECOND))).collect();
            assert!(verdicts.iter().all(|(_, v)| v.stalled.is_none()));
            let warned: Vec<u64> = verdicts.iter().filter(|(_, v)| !v.warnings.is_empty()).map(|(i, _)| *i).collect();
            assert_eq!(warned, when, "{limit:?}");
        }
    }

    #[test]
    fn the_longest_limit_is_one() {
        let mut judge = Judge::new(Some(Duration::from_secs(u64::MAX)), true);
        let busy = StageReading { running: Some(SECOND), ..StageReading::default() };
        assert!((0..100).all(|_| judge.look(std::slice::from_ref(&busy), None, SECOND) == Verdict::default()));
    }

    #[test]
    fn a_busy_stage_is_named_each_limit_and_ended_when_nothing_lives() {
        let mut judge = Judge::new(Some(4 * SECOND), true);
        let mut reading = StageReading { stage: "rollout".into(), iteration: Some(7), ..StageReading::default() };
        let mut warnings = Vec::new();
        for second in 0..14 {
            reading.running = Some(second * SECOND);
            // The policy's thread answers now and then.
            let verdict = judge.look(std::slice::from_ref(&reading), Some((u64::from(second) / 3, false)), SECOND);
            assert_eq!(verdict.stalled, None);
            warnings.extend(verdict.warnings);
        }
        let mut ended = (0..7).map(|_| judge.look(std::slice::from_ref(&reading), Some((99, true)), SECOND).stalled);
        assert!(ended.all(|stalled| stalled.is_none()), "the policy computes");
        let mut ended = (0..8).filter_map(|_| judge.look(std::slice::from_ref(&reading), Some((99, false)), SECOND).stalled);
        let stalled = ended.next().expect("an end");
        assert!(
            stalled.contains("nothing has moved for 8 s: `rollout` is busy with iteration 7") && stalled.contains("--stall 16"),
            "{stalled}"
        );
        let line = |s: u32| format!("`rollout` has been busy with iteration 7 for {s} s; the run waits for it");
        assert_eq!(warnings, [line(4), line(8), line(12)]);
    }
}
