//! Live progress: a line that moves at a terminal, a plain line from time to time elsewhere.

use super::bottleneck;
use super::decline::{Decline, Watched};
use super::output::warn;
use flow_dataflow::figures::Figures;
use flow_dataflow::journal::Committed;
use flow_log::TimeShares;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

/// Shows iterations as they are committed, and remembers what the summary needs.
pub struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
    first: u64,
    iterations: u64,
    /// The update by rewards whose loss and divergence are shown.
    learner: Option<String>,
    state: Mutex<ProgressState>,
}

#[derive(Default)]
struct ProgressState {
    last: Option<Instant>,
    done: u64,
    before: Option<f64>,
    /// The last success on a frozen panel, and whether an earlier one is known.
    panel: Option<f64>,
    after: Option<f64>,
    /// Success in training, of each iteration that has it.
    played: Vec<f64>,
    /// The same of each node that plays.
    by_node: BTreeMap<String, Vec<f64>>,
    turns: f64,
    failed: f64,
    shares: TimeShares,
    decline: Decline,
    warnings: Vec<String>,
}

/// The figures of the summary.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub struct TrainingSummary {
    pub iterations: u64,
    /// Success on a frozen panel before training, and after it.
    pub success_before: Option<f64>,
    pub success_after: Option<f64>,
    /// Success in training: the mean over the first tenth of the iterations, and over the last.
    pub training_success: Option<(f64, f64)>,
    /// The same by node, where several play, as in several environments.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub success_by_node: BTreeMap<String, (f64, f64)>,
    /// Episodes that failed and were left out.
    pub failed: u64,
    /// What fell away in the course of it.
    pub warnings: Vec<String>,
    pub seconds: f64,
    /// Where it went, for people.
    pub time: Option<String>,
}

impl Progress {
    /// For a run that starts with iteration `first`. `earlier` was committed before; warnings about it were printed
    /// then. `evaluations` are the nodes that measure on a frozen panel, `watched` those whose figures may fall away.
    pub fn new(first: u64, iterations: u64, earlier: &[(u64, Figures)], evaluations: &[String], watched: Watched) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(iterations), ProgressDrawTarget::stderr());
            set_style(&bar, "{bar:24} {wide_msg}");
            bar
        });
        let learner = watched.learners.first().cloned();
        let mut decline = Decline::new(watched, iterations);
        for (iteration, figures) in earlier {
            decline.observe(*iteration, figures);
        }
        let before = earlier.iter().find_map(|(_, figures)| on_panel(figures, evaluations));
        let mut state = ProgressState { done: first, before, decline, ..ProgressState::default() };
        earlier.iter().for_each(|(_, figures)| state.played(figures, evaluations));
        Progress { bar, start: Instant::now(), first, iterations, learner, state: Mutex::new(state) }
    }

    /// Records a committed iteration. `evaluations` are the nodes that measure on a frozen panel.
    pub fn record(&self, committed: &Committed, evaluations: &[String]) {
        let mut state = self.state.lock();
        let measured = on_panel(&committed.figures, evaluations);
        if let Some(success) = measured {
            state.after = state.before.map(|_| success);
            state.before.get_or_insert(success);
            state.panel = Some(success);
        }
        let find = |name: &str| figure(&committed.figures, evaluations, name);
        // Beside an update by demonstrations, whose loss says something else.
        let learner_metric = |name: &str| match &self.learner {
            Some(learner) => committed.figures.get(learner)?.get(name).copied(),
            None => find(name),
        };
        if committed.iteration < self.iterations {
            state.done = committed.iteration + 1;
        }
        state.played(&committed.figures, evaluations);
        state.shares.add(&committed.figures);
        state.failed += committed.figures.values().filter_map(|f| f.get("failed")).sum::<f64>();
        state.turns += committed.figures.values().filter_map(|f| f.get("turns")).sum::<f64>();
        let seconds = self.start.elapsed().as_secs_f64();
        let shown = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value:.3}"));
        let left = seconds / (state.done - self.first).max(1) as f64 * (self.iterations - state.done) as f64;
        // The most telling first: a narrow terminal shows no others.
        let fields = [
            Some(format!("{}/{}", state.done, self.iterations)),
            Some(format!("{left:.0}s left")),
            shown("success", find("success")),
            state.panel.map(|success| format!("panel {:.1}%", 100.0 * success)),
            shown("return", find("return")),
            (state.failed > 0.0).then(|| format!("{} failed", state.failed)),
            shown("loss", learner_metric("loss")),
            shown("KL", learner_metric("kl")),
            (state.turns > 0.0).then(|| format!("{:.0} turns/s", state.turns / seconds.max(1e-9))),
        ];
        let fields: Vec<String> = fields.into_iter().flatten().collect();
        for warning in state.decline.observe(committed.iteration, &committed.figures) {
            self.print_lines(|| warn(&warning));
            state.warnings.push(warning);
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(state.done);
                let (drawn, line) = fitted(&fields, columns());
                set_style(bar, if drawn { "{bar:24} {wide_msg}" } else { "{wide_msg}" });
                bar.set_message(line);
            }
            // Without a terminal: the first, the last, each measurement, and one every two seconds.
            None => {
                let due =
                    state.last.is_none_or(|t| t.elapsed() > Duration::from_secs(2)) || measured.is_some() || state.done == self.iterations;
                if due {
                    state.last = Some(Instant::now());
                    eprintln!("{}", fields.join("  "));
                }
            }
        }
    }

    /// Lets something be printed to standard error on lines of its own.
    pub fn print_lines(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// The summary of a run with this pipeline.
    pub fn finish(&self, pipeline: &Path) -> TrainingSummary {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let mut state = self.state.lock();
        let mut warnings = std::mem::take(&mut state.warnings);
        warnings.extend(state.decline.ended());
        let (failed, seconds) = (state.failed as u64, self.start.elapsed().as_secs_f64());
        let by_node = state.by_node.iter().filter_map(|(node, success)| Some((node.clone(), ends(success)?)));
        let by_node = if state.by_node.len() > 1 { by_node.collect() } else { BTreeMap::new() };
        TrainingSummary {
            success_by_node: by_node,
            iterations: state.done,
            success_before: state.before,
            success_after: state.after,
            training_success: ends(&state.played),
            failed,
            warnings,
            seconds,
            time: bottleneck::line(&state.shares, pipeline),
        }
    }
}

impl ProgressState {
    /// Notes the success of an iteration in training.
    fn played(&mut self, figures: &Figures, evaluations: &[String]) {
        self.played.extend(figure(figures, evaluations, "success"));
        for (node, success) in successes_by_node(figures, evaluations) {
            self.by_node.entry(node.clone()).or_default().push(success);
        }
    }
}

/// Success of each node that plays in training.
pub fn successes_by_node<'a>(figures: &'a Figures, evaluations: &'a [String]) -> impl Iterator<Item = (&'a String, f64)> {
    let own = figures.iter().filter(|(node, _)| !evaluations.contains(node));
    own.filter_map(|(node, figures)| Some((node, *figures.get("success")?)))
}

/// Success before and after all committed iterations: on a frozen panel, or in training at both ends.
pub fn successes(committed: &[Figures], evaluations: &[String]) -> [Option<f64>; 2] {
    let measured: Vec<f64> = committed.iter().filter_map(|figures| on_panel(figures, evaluations)).collect();
    let played: Vec<f64> = committed.iter().filter_map(|figures| figure(figures, evaluations, "success")).collect();
    let (first, last) = ends(&played).unzip();
    [measured.first().copied().or(first), measured.last().copied().or(last)]
}

/// The templates are constants; if indicatif should refuse one, its own default serves.
fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// The width of the terminal; 80 where it doesn't say.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The width of the bar, and of the space behind it.
const BAR: usize = 25;

/// Whether a terminal of so many columns has room for the bar beside all fields, and as many of the first fields as
/// fit: none is cut.
fn fitted(fields: &[String], columns: usize) -> (bool, String) {
    let all = fields.join("  ");
    if BAR + all.chars().count() < columns {
        return (true, all);
    }
    let mut line = String::new();
    for field in fields {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + field.chars().count() >= columns {
            break;
        }
        line += &format!("{gap}{field}");
    }
    (false, line)
}

/// A figure of the nodes that don't measure on a frozen panel: their mean, where several play, as in several
/// environments.
fn figure(figures: &Figures, evaluations: &[String], name: &str) -> Option<f64> {
    let own = figures.iter().filter(|(node, _)| !evaluations.contains(node)).filter_map(|(_, own)| own.get(name));
    let (sum, count) = own.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Success on a frozen panel, in an iteration that measured it.
fn on_panel(figures: &Figures, evaluations: &[String]) -> Option<f64> {
    evaluations.iter().find_map(|node| figures.get(node)?.get("success")).copied()
}

/// The means of the first and of the last tenth; none of fewer than two values.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let tenth = values.len().div_ceil(10);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    (values.len() > 1).then(|| (mean(&values[..tenth]), mean(&values[values.len() - tenth..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Success of 90% in what was committed before a stop, and of 30% after it.
    #[test]
    fn what_falls_away_after_a_resume_is_seen_against_what_was_before() {
        let figures = |success: f64| Figures::from([("rollout".into(), [("success".to_string(), success)].into())]);
        let earlier: Vec<(u64, Figures)> = (0..30).map(|i| (i, figures(0.9))).collect();
        let warnings = |earlier: &[(u64, Figures)]| {
            let watched = Watched { players: vec!["rollout".into()], ..Watched::default() };
            let progress = Progress::new(30, 50, earlier, &[], watched);
            for iteration in 30..50 {
                progress.record(&Committed { iteration, figures: figures(0.3) }, &[]);
            }
            progress.finish(Path::new("none")).warnings
        };
        assert_eq!(warnings(&[]), Vec::<String>::new());
        let warnings = warnings(&earlier);
        assert!(
            warnings.len() == 1 && warnings[0].contains("success fell from 90.0% (iterations 25 to 29) to 30.0% (iterations 30 to 34)"),
            "{warnings:?}"
        );
    }

    #[test]
    fn success_in_several_environments_is_their_mean() {
        let success = |node: &str, value: f64| (node.to_string(), [("success".to_string(), value)].into());
        let figures = Figures::from([success("minesweeper", 0.75), success("panel", 1.0), success("sokoban", 0.25)]);
        assert_eq!(figure(&figures, &["panel".into()], "success"), Some(0.5));
        assert_eq!(figure(&figures, &["panel".into()], "return"), None);
    }

    #[test]
    fn a_narrow_terminal_shows_whole_fields() {
        let fields = ["120/200", "90s left", "success 0.592", "return -0.060", "loss 0.238", "KL 0.013", "1592 turns/s"].map(String::from);
        let (drawn, line) = fitted(&fields, 120);
        assert!(drawn && line.ends_with("1592 turns/s"), "{line}");
        for columns in 1..=110 {
            let (_, line) = fitted(&fields, columns);
            assert!(line.chars().count() < columns, "{columns}: {line}");
            assert!(line.split("  ").all(|field| field.is_empty() || fields.iter().any(|whole| whole == field)), "{columns}: {line}");
        }
        assert_eq!(fitted(&fields, 80), (false, fields[..6].join("  ")));
    }

    #[test]
    fn training_is_told_by_its_two_ends() {
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(ends(&values), Some((0.5, 18.5)));
        assert_eq!((ends(&[0.25, 0.75]), ends(&[1.0])), (Some((0.25, 0.75)), None));
    }
}
