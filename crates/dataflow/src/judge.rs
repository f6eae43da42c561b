//! What the watchdog makes of the stages' readings: warnings, and whether the run is stuck.

use super::watch::StageReading;
use std::collections::BTreeMap;
use std::time::Duration;

/// After this long without progress a warning is printed, where there is no limit or a longer one.
const NOTICE: Duration = Duration::from_secs(30);
/// How long another process may load its models before its run begins, where the limit isn't longer.
const LOADING: Duration = Duration::from_secs(1800);

/// The result of one check.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub warnings: Vec<String>,
    /// The run has to end, and why.
    pub stalled: Option<String>,
}

/// The state of the checks: what moved when.
pub(super) struct Judge {
    limit: Option<Duration>,
    decides: bool,
    /// Whether a thread of this process computes.
    computes: fn() -> bool,
    /// The number of starts and ends of all stages at the last check.
    beats: u64,
    pub still: Duration,
    /// For how long some stage has been busy while nothing began or ended and the policy was idle.
    mute: Duration,
    noticed: bool,
    /// For how long another process has been loading its models.
    loading: Duration,
    /// How often a stage was warned about in its current run.
    named: BTreeMap<(String, usize), u32>,
}

impl Judge {
    pub fn new(limit: Option<Duration>, decides: bool, computes: fn() -> bool) -> Self {
        let [still, mute, loading] = [Duration::ZERO; 3];
        Judge { limit, decides, computes, beats: 0, still, mute, noticed: false, loading, named: BTreeMap::new() }
    }

    /// Waits for a process that has joined and has not begun: nothing moves without it, and that is no fault.
    pub fn expect(&mut self, process: usize, passed: Duration) -> Verdict {
        let before = self.loading;
        self.loading += passed;
        let seconds = self.loading.as_secs();
        let notice = before < NOTICE && self.loading >= NOTICE;
        let warning = format!("process {process} has joined {seconds} s ago and not begun: it loads its models, and the run waits for it");
        let stalled = format!("process {process} has joined {seconds} s ago and not begun: look at its output and its machine");
        let late = self.limit.is_some_and(|limit| self.loading >= limit.max(LOADING));
        Verdict { warnings: notice.then_some(warning).into_iter().collect(), stalled: late.then_some(stalled) }
    }

    /// Checks the readings, `passed` after the previous check. `policy`: the beats of the policy thread and of other
    /// processes, and whether it is busy.
    pub fn look(&mut self, readings: &[StageReading], policy: Option<(u64, bool)>, passed: Duration) -> Verdict {
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
        let policy_works = policy.is_some_and(|p| p.1);
        let works = readings.iter().any(|r| r.running.is_some()) || policy_works || beats == self.beats && (self.computes)();
        self.mute = if policy_works || beats != self.beats { Duration::ZERO } else { self.mute + passed };
        if let Some(limit) = self.limit.filter(|limit| self.decides && works && self.mute >= limit.saturating_mul(2)) {
            let busy = readings.iter().filter(|r| r.running.is_some()).max_by_key(|r| r.running);
            let seconds = self.mute.as_secs();
            let what = match busy {
                Some(r) => format!("`{}` is busy with iteration {} and shows no sign of life", r.stage, r.iteration.unwrap_or(0)),
                None => format!("this process computes without an end:{}", holders(readings)),
            };
            let longer = limit.as_secs().saturating_mul(4);
            verdict.stalled = Some(format!("nothing has moved for {seconds} s: {what}; where it may take longer, say `--stall {longer}`"));
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

    fn judge(limit: Option<Duration>, decides: bool) -> Judge {
        Judge::new(limit, decides, || false)
    }

    fn waits(stage: &str, iteration: u64, waits_for: &str) -> StageReading {
        StageReading { stage: stage.into(), iteration: Some(iteration), waits_for: vec![waits_for.into()], ..StageReading::default() }
    }

    #[test]
    fn stillness_is_noticed_then_ended() {
        let mut judge = judge(Some(4 * SECOND), true);
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
        let mut judge = judge(Some(2 * SECOND), true);
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
            let mut judge = judge(limit, decides);
            let verdicts: Vec<(u64, Verdict)> = (0..100).map(|i| (i, judge.look(&[waits("update", 0, "rollout")], None, SECOND))).collect();
            assert!(verdicts.iter().all(|(_, v)| v.stalled.is_none()));
            let warned: Vec<u64> = verdicts.iter().filter(|(_, v)| !v.warnings.is_empty()).map(|(i, _)| *i).collect();
            assert_eq!(warned, when, "{limit:?}");
        }
    }

    /// On a machine that is too busy for the limit, twice the limit counts.
    #[test]
    fn a_process_that_waits_for_a_processor_is_not_still() {
        let mut judge = Judge::new(Some(4 * SECOND), true, || true);
        let verdicts: Vec<Verdict> = (0..8).map(|_| judge.look(&[waits("update", 3, "rollout")], Some((8, false)), SECOND)).collect();
        let stalled = verdicts.iter().position(|verdict| verdict.stalled.is_some());
        // The first look has nothing to compare with.
        assert_eq!(stalled, None);
        let stalled = judge.look(&[waits("update", 3, "rollout")], Some((8, false)), SECOND).stalled.unwrap();
        assert!(
            stalled.starts_with("nothing has moved for 8 s: this process computes without an end:\n  `update` holds iteration 3"),
            "{stalled}"
        );
    }

    #[test]
    fn a_process_that_loads_its_models_is_waited_for() {
        let mut judge = judge(Some(2 * SECOND), true);
        let verdicts: Vec<Verdict> = (0..1800).map(|_| judge.expect(1, SECOND)).collect();
        let warned: Vec<usize> = (0..1800).filter(|&i| !verdicts[i].warnings.is_empty()).collect();
        assert_eq!((warned, verdicts[1798].stalled.is_none()), (vec![29], true));
        assert!(verdicts[1799].stalled.as_ref().unwrap().starts_with("process 1 has joined 1800 s ago and not begun"));
        // Stillness counts from its begin.
        assert_eq!(judge.look(&[waits("update", 0, "rollout")], None, SECOND).stalled, None);
    }

    #[test]
    fn the_longest_limit_is_one() {
        let mut judge = judge(Some(Duration::from_secs(u64::MAX)), true);
        let busy = StageReading { running: Some(SECOND), ..StageReading::default() };
        assert!((0..100).all(|_| judge.look(std::slice::from_ref(&busy), None, SECOND) == Verdict::default()));
    }

    #[test]
    fn a_busy_stage_is_named_each_limit_and_ended_when_nothing_lives() {
        let mut judge = judge(Some(4 * SECOND), true);
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
