//! A thread that looks at the watch twice a second: it writes `status.json`, which `flow top` reads, and notices when nothing
//! moves any more. No run may wait for ever: one that stands still for longer than its limit ends with a failure that says who
//! holds what and for whom. A stage that is merely busy is named at first, and ends the run when
//! for twice the limit nothing has given a sign of life and the policy isn't at work.

use super::cluster::life::Life;
use super::context::Shared;
use super::failure::Failure;
use super::status::{told, write, Activity, PolicyActivity, STATUS};
use super::watch::Reading;
use crate::pulse::Pulse;
use crossbeam_channel::{bounded, RecvTimeoutError, Sender};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it looks.
const TICK: Duration = Duration::from_millis(500);
/// A run without a limit, or with a long one, is talked about after this much stillness.
const NOTICE: Duration = Duration::from_secs(30);
/// How long the workers may take to end a run that failed by standing still.
const GRACE: Duration = Duration::from_secs(10);

/// Ends with the run: dropping it ends the thread and takes the status file away.
pub(super) struct Watchdog {
    bell: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    status: Option<PathBuf>,
}

impl Watchdog {
    /// Watches a run. `limit` is how long it may stand still; a stage that takes longer is named. Of several processes one
    /// `decides`, and hears by `life` that something moves elsewhere.
    pub fn start(
        shared: &Shared,
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
                // A machine that slept, or a process that was suspended, has not been standing still for that long.
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
                    let (oldest, nodes) = told(&readings);
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
                        eprintln!("error: {failure}\nthe workers don't answer either, so the process ends; what was committed is safe");
                        std::process::exit(1);
                    }
                    return;
                }
            }
        };
        // Without its watchdog a run is as right as with it.
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

/// What the watchdog thinks of what it has seen.
#[derive(Debug, Default, PartialEq)]
struct Verdict {
    warnings: Vec<String>,
    /// The run has to end, and why.
    stalled: Option<String>,
}

/// Remembers what moved when.
struct Judge {
    limit: Option<Duration>,
    decides: bool,
    /// Begins and ends of everything when it was last looked at.
    beats: u64,
    still: Duration,
    /// For how long some stage has been busy without a sign of life of anything, the policy's thread not being at work.
    mute: Duration,
    noticed: bool,
    /// How often a stage was named for its present run.
    named: BTreeMap<(String, usize), u32>,
}

impl Judge {
    fn new(limit: Option<Duration>, decides: bool) -> Self {
        Judge { limit, decides, beats: 0, still: Duration::ZERO, mute: Duration::ZERO, noticed: false, named: BTreeMap::new() }
    }

    /// Looks, `passed` after the look before. `policy`: the beats of the policy thread and of other processes, and whether it works.
    fn look(&mut self, readings: &[Reading], policy: Option<(u64, bool)>, passed: Duration) -> Verdict {
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
        if let Some(limit) = self.limit.filter(|limit| self.decides && works && self.mute >= 2 * *limit) {
            let busy = readings.iter().filter(|r| r.running.is_some()).max_by_key(|r| r.running);
            verdict.stalled = busy.map(|r| {
                let (iteration, seconds) = (r.iteration.unwrap_or(0), self.mute.as_secs());
                format!(
                    "nothing has moved for {seconds} s: `{}` is busy with iteration {iteration} and shows no sign of life; where it may take \
                     longer, say `--stall {}`",
                    r.stage,
                    limit.as_secs() * 4
                )
            });
        }
        if works || beats != self.beats {
            (self.beats, self.still, self.noticed) = (beats, Duration::ZERO, false);
            return verdict;
        }
        self.still += passed;
        let said = |verb: &str| format!("nothing has moved for {} s, and {verb}:{}", self.still.as_secs(), holders(readings));
        match self.limit {
            _ if !self.decides => {}
            Some(limit) if self.still >= limit => verdict.stalled = Some(said("the run isn't over")),
            limit => {
                if !self.noticed && self.still >= limit.map_or(NOTICE, |l| NOTICE.min(l / 2)) {
                    let then = limit.map_or("no --stall is set".into(), |l| format!("after {} s the run will end", l.as_secs()));
                    verdict.warnings.push(said(&then));
                    self.noticed = true;
                }
            }
        }
        verdict
    }
}

/// Who holds which iteration, and for whom.
fn holders(readings: &[Reading]) -> String {
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

    fn waits(stage: &str, iteration: u64, waits_for: &str) -> Reading {
        Reading { stage: stage.into(), iteration: Some(iteration), waits_for: vec![waits_for.into()], ..Reading::default() }
    }

    #[test]
    fn stillness_is_noticed_then_ended() {
        let mut judge = Judge::new(Some(4 * SECOND), true);
        let readings = [waits("group sizes", 3, "group"), waits("tasks", 5, "the commit"), Reading::default()];
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
            let said: Vec<(u64, Verdict)> = (0..100).map(|i| (i, judge.look(&[waits("update", 0, "rollout")], None, SECOND))).collect();
            assert!(said.iter().all(|(_, v)| v.stalled.is_none()));
            let warned: Vec<u64> = said.iter().filter(|(_, v)| !v.warnings.is_empty()).map(|(i, _)| *i).collect();
            assert_eq!(warned, when, "{limit:?}");
        }
    }

    #[test]
    fn a_busy_stage_is_named_each_limit_and_ended_when_nothing_lives() {
        let mut judge = Judge::new(Some(4 * SECOND), true);
        let mut reading = Reading { stage: "rollout".into(), iteration: Some(7), ..Reading::default() };
        let mut said = Vec::new();
        for second in 0..14 {
            reading.running = Some(second * SECOND);
            // The policy's thread answers now and then.
            let verdict = judge.look(std::slice::from_ref(&reading), Some((u64::from(second) / 3, false)), SECOND);
            assert_eq!(verdict.stalled, None);
            said.extend(verdict.warnings);
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
        assert_eq!(said, [line(4), line(8), line(12)]);
    }
}
