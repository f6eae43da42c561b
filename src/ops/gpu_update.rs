//! `gpu-update`: one step of learning from the iteration's rows, wherever the model lives: on a GPU when libtorch
//! sees one, else on the CPU. Emits for each row whether it was used, what the update saw of it, and the version of the
//! weights it helped to make.

use super::checks::{acting, branches, critics, distil, idle_clip, programs, served};
use super::episodes::tokens;
use super::examples::select::{bare, examples, weigh, OldLogprobs, Select};
use super::operator::{must, port, settings, Hooks, Operator, RequiredHead, Settings, Unfit};
use super::python::{loss, prints};
use arrow::array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt64Array};
use flow_core::row::{self, f32_lists, RowError, View};
use flow_core::seed::{mix, text};
use flow_credit::explained_variance;
use flow_dataflow::stage::{stage, Stage};
use flow_dataflow::{Context, Edge, Failed, Place, Ports, Route};
use flow_model::{Example, KlKind, Objective, PolicyError, UpdateSettings};
use flow_model::{RowReport, TokenFigures, UpdateReport};
use flow_pipeline::{Delay, Mistake, Need, Node, Pipeline, Port, Role, With};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use timely::dataflow::Scope;

const PORTS: &[Port] = &[
    Port::rows(
        "the rows to learn from",
        &["iteration", "task", "sample", "attempt", "turn", "phase", "prompt_tokens", "response_tokens", "choices", "logprobs"],
    ),
    Port::weights("another update of the same model that goes first; two updates of one model need an order")
        .optional()
        .delayed(Delay::Either),
];

/// The operator's entry in the table.
pub const OPERATOR: Operator = Operator {
    name: "gpu-update",
    about: "learns from the iteration's rows and makes the next version of the weights",
    role: Role::Learns,
    ports: PORTS,
    keeps: false,
    adds: &[
        "iteration",
        "task",
        "sample",
        "attempt",
        "turn",
        "phase",
        "used",
        "tips",
        "version",
        "ratio",
        "clip_share",
        "loss_share",
        "logit_grad",
        "row_kl",
        "token_ratios",
        "token_entropies",
        "token_grads",
    ],
    settings: Settings::of::<GpuUpdate>(),
    outside: render,
    inside: None,
    hooks: Hooks { needs, head, notes, mistakes, lacks, kept: loss::kept_by_update, ..Hooks::NONE },
};

/// Settings of `gpu-update`: the update's own and, beside them, which rows it learns from and the model that is
/// updated.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
// The schema of the update's own settings has conditions, and beside such schemars would say `unevaluatedProperties`.
#[schemars(extend("additionalProperties" = false))]
struct GpuUpdate {
    #[serde(flatten)]
    update: UpdateSettings,
    #[serde(flatten)]
    select: Select,
    /// The model that learns.
    #[schemars(extend("x-names" = "model"))]
    model: String,
    /// Each row also has the ratio, the entropy and the gradient of each of its tokens: twelve bytes a token before
    /// they are packed.
    #[serde(default)]
    token_figures: bool,
}

/// The columns of tokens, where they aren't asked for.
fn lacks(with: &With) -> Vec<&'static str> {
    if with.typed::<GpuUpdate>().is_some_and(|with| with.token_figures) {
        vec![]
    } else {
        vec!["token_ratios", "token_entropies", "token_grads"]
    }
}

/// A critic where values are learnt.
fn head(with: &With) -> Option<RequiredHead> {
    let with = with.typed::<GpuUpdate>()?;
    Some(if with.update.objective == Objective::Value { RequiredHead::Value } else { RequiredHead::Language })
}

/// Notes on a KL term or a clip range without effect, and on models that act with other matrices than they learn.
fn notes(node: &Node, pipeline: &Pipeline) -> Vec<String> {
    let Ok(with) = settings::<GpuUpdate>(node) else { return vec![] };
    let idle = with.update.kl_kind == KlKind::K1 && with.update.kl > 0.0;
    let note = "the gradient of `kl_kind: k1` in a loss is 0 on average, so `kl` holds nothing back: take k2 or k3, or `kl` of `reward`";
    let others = [
        idle_clip::note(node, &with.update, pipeline),
        acting::note(node, &with.update, pipeline),
        programs::note(&with.update, pipeline),
        served::note(&with.model, pipeline),
    ];
    idle.then(|| note.to_owned()).into_iter().chain(others.into_iter().flatten()).collect()
}

/// A policy gradient of rows whose actions a critic ranked, or that were chosen among several; distributions where
/// there are none, and weights that are no numbers.
fn mistakes(node: &Node, pipeline: &Pipeline) -> Vec<Mistake> {
    let Ok(with) = settings::<GpuUpdate>(node) else { return Vec::new() };
    let mut mistakes = distil::mistakes(node, &with.update, pipeline);
    mistakes.extend(loss::mistakes(node));
    if with.update.objective == Objective::PolicyGradient {
        mistakes.extend(critics::update_mistake(node, pipeline).into_iter().chain(branches::update_mistake(node, pipeline)));
    }
    mistakes
}

fn needs(with: &With) -> Vec<Need> {
    let Some(with) = with.typed::<GpuUpdate>() else { return Vec::new() };
    let mut needs = with.select.needs();
    let columns: &[&str] = match with.update.objective {
        Objective::Sft | Objective::Distill => &[],
        Objective::Value => &["value", "value_target"],
        Objective::PolicyGradient | Objective::Reinforce => &["advantage"],
    };
    needs.extend(columns.iter().map(|column| Need { port: "rows".into(), column: column.to_string(), at: vec![] }));
    needs.extend(with.update.weigh_by.iter().map(|column| Need {
        port: "rows".into(),
        column: column.clone(),
        at: vec!["weigh_by".into()],
    }));
    needs
}

/// Whether what it optimises is the policy gradient.
pub fn learns_from_rewards(node: &Node) -> bool {
    node.with.typed::<GpuUpdate>().is_some_and(|with| with.update.objective == Objective::PolicyGradient)
}

pub fn render<'s>(node: &Node, ports: Ports<'s>, _: Scope<'s, u64>, ctx: &Context) -> Result<Edge<'s>, Failed> {
    let policy = ctx.policy.clone().ok_or(Unfit::Model)?;
    let GpuUpdate { update: settings, select, model, token_figures } = GpuUpdate::clone(&*settings(node)?);
    let function = loss::prepared(&node.with, &ctx.shared.programs, prints(&node.id, ctx))?;
    let settings = UpdateSettings { keep: ctx.keep, function, ..settings };
    let (shared, id, run) = (ctx.shared.clone(), node.id.clone(), ctx.run.clone().filter(|_| ctx.lasting.contains(&node.id)));
    let (first, seed) = (ctx.team.process == 0, ctx.seed);
    let mut inputs = vec![(must(&ports, "rows")?, Route::All)];
    // Its frontier is all that is asked of it: the weights themselves are on the policy thread.
    inputs.extend(port(&ports, "weights").map(|edge| (edge, Route::All)));
    let shape = Stage { name: node.id.clone(), inputs, begins: false, place: Place::Thread };
    Ok(stage(shape, ctx, move |iteration, rows| {
        let Some(rows) = View::sorted(&rows[0])? else { return Ok(vec![]) };
        let start = Instant::now();
        let newest = policy.versions(&model)?.last().copied().unwrap_or(0);
        let used = select.used(&rows, settings.objective, &model, newest)?;
        let which: Vec<usize> = (0..used.len()).filter(|&i| used[i] == "yes").collect();
        let mut outcome = UpdateOutcome::new(used, newest);
        if !which.is_empty() {
            let names = rows.read(&row::NAME)?;
            let named = |error: PolicyError| error.describe(|example| row::described(&names, which[example]));
            let tokenizer = policy.tokenizer(&model)?;
            let mut examples = examples(&rows, &which, settings.objective, tokenizer.ends())?;
            if let Some(column) = &settings.weigh_by {
                weigh(&mut examples, &rows, &which, column)?;
            }
            let removed = select.tips.as_ref().filter(|tips| tips.removed(mix(mix(seed, iteration), text(&id))));
            if let Some(tips) = removed {
                let bare = bare(&rows, &which)?;
                let without = without_tips(&mut examples, bare);
                outcome.lost_tips(&which, &without);
                if tips.old_logprobs == OldLogprobs::WithoutTips && settings.objective == Objective::PolicyGradient && !without.is_empty() {
                    let those: Vec<Example> = without.iter().map(|&i| examples[i].clone()).collect();
                    for (i, logprobs) in without.into_iter().zip(policy.logprobs(&model, &those, settings.temperature).map_err(named)?) {
                        examples[i].logprobs = logprobs;
                    }
                }
            }
            let explained = explained(&examples, settings.objective);
            outcome.record(&which, &policy.update(&model, examples, &settings).map_err(named)?);
            outcome.figures.extend(explained.map(|share| ("explained_variance".into(), share)));
            // A critic has neither.
            outcome.figures.retain(|(name, _)| settings.objective != Objective::Value || !["kl", "entropy"].contains(&&**name));
            // Nor is one known where a trainer has log-probabilities alone.
            outcome.figures.retain(|(name, value)| name != "entropy" || !value.is_nan());
        }
        // Every process has now made the same weights and seen the same of the rows: one tells.
        if !first {
            return Ok(vec![]);
        }
        if let Some(run) = &run {
            let version = outcome.version;
            let folder = run.to_save(version, &model)?;
            // An update without rows passes on the version before it, which may not be saved yet.
            if version > newest || !folder.exists() {
                run.in_place()?;
                let start = Instant::now();
                policy.save(&model, &folder)?;
                outcome.figures.push(("save_seconds".into(), start.elapsed().as_secs_f64()));
                shared.saved(iteration, run.weights_at(&id, &model, version)?);
            }
        }
        for (name, value) in outcome.figures.iter().chain(&[("seconds".into(), start.elapsed().as_secs_f64())]) {
            shared.measure(iteration, &id, name, *value);
        }
        Ok(vec![outcome.rows(&rows, token_figures)?])
    }))
}

/// Replaces prompts with retrieved entries by those without, and returns the indices of the changed examples.
fn without_tips(examples: &mut [Example], bare: Vec<Option<Vec<u32>>>) -> Vec<usize> {
    let mut without = Vec::new();
    for (i, (example, bare)) in examples.iter_mut().zip(bare).enumerate() {
        if let Some(bare) = bare {
            example.prompt = bare;
            without.push(i);
        }
    }
    without
}

/// The explained variance of the critic's values.
fn explained(examples: &[Example], objective: Objective) -> Option<f64> {
    let all = |field: fn(&Example) -> &Vec<f32>| examples.iter().flat_map(field).copied().collect::<Vec<f32>>();
    if objective == Objective::Value {
        explained_variance(&all(|e| &e.values), &all(|e| &e.targets))
    } else {
        None
    }
}

/// The outcome of the update for each row.
struct UpdateOutcome {
    used: Vec<String>,
    tips: Vec<&'static str>,
    reports: Vec<RowReport>,
    tokens: Vec<TokenFigures>,
    version: u64,
    figures: Vec<(Cow<'static, str>, f64)>,
}

impl UpdateOutcome {
    /// The outcome before any training; `version` is the current one of the weights.
    fn new(used: Vec<String>, version: u64) -> UpdateOutcome {
        UpdateOutcome {
            reports: vec![RowReport::default(); used.len()],
            tokens: vec![TokenFigures::default(); used.len()],
            tips: vec!["none"; used.len()],
            used,
            version,
            figures: vec![("rows".into(), 0.0)],
        }
    }

    /// Records that, among the rows at `which`, those at `without` were trained on without retrieved entries in their
    /// prompts.
    fn lost_tips(&mut self, which: &[usize], without: &[usize]) {
        without.iter().for_each(|&i| self.tips[which[i]] = "removed");
    }

    /// Records the report on the rows at `which`.
    fn record(&mut self, which: &[usize], report: &UpdateReport) {
        let mut count = 0;
        for ((&row, row_report), tokens) in which.iter().zip(&report.rows).zip(&report.tokens_of) {
            self.reports[row] = *row_report;
            self.tokens[row] = tokens.clone();
            self.used[row] = row_report.used.as_str().into();
            count += (self.used[row] == "yes") as usize;
        }
        if self.version == report.version {
            return;
        }
        self.version = report.version;
        self.figures = [
            ("loss", report.loss),
            ("kl", report.kl),
            ("entropy", report.entropy),
            ("clip_fraction", report.clip_fraction),
            ("grad_norm", report.grad_norm),
            ("lr", report.lr),
            ("tokens", report.tokens as f64),
            (tokens::COMPUTED, report.computed as f64),
            (tokens::DISTINCT, report.distinct as f64),
            ("rows", count as f64),
        ]
        .map(|(name, value)| (name.into(), value))
        .into();
        self.figures.extend(report.gap.map(|gap| ("logprob_gap".into(), gap)));
        self.figures.extend(report.measured.iter().map(|(name, figure)| (name.clone().into(), *figure)));
    }

    /// The outcome as rows with the names of `rows`.
    fn rows(self, rows: &View, token_figures: bool) -> Result<RecordBatch, RowError> {
        let mut columns = Vec::new();
        for name in row::NAME {
            columns.push((name, rows.column(name)?));
        }
        let figure = |field: fn(&RowReport) -> f32| Arc::new(Float32Array::from_iter_values(self.reports.iter().map(field))) as ArrayRef;
        // Without a memory no prompt has retrieved entries.
        if rows.has("retrieved") {
            let retrieved = rows.lists("retrieved")?;
            let tips =
                self.tips.iter().enumerate().map(|(i, tips)| if *tips == "none" && retrieved.length(i) > 0 { "kept" } else { *tips });
            columns.push(("tips", Arc::new(StringArray::from_iter_values(tips)) as ArrayRef));
        } else {
            columns.push(("tips", Arc::new(StringArray::from(self.tips.clone())) as ArrayRef));
        }
        columns.push(("version", Arc::new(UInt64Array::from(vec![self.version; self.used.len()]))));
        columns.push(("ratio", figure(|row| row.ratio)));
        columns.push(("clip_share", figure(|row| row.clip_share)));
        columns.push(("loss_share", figure(|row| row.loss_share)));
        let known = self.reports.iter().map(|row| Some(row.logit_grad).filter(|grad| !grad.is_nan()));
        columns.push(("logit_grad", Arc::new(Float32Array::from_iter(known)) as ArrayRef));
        columns.push(("row_kl", figure(|row| row.kl)));
        if token_figures {
            let lists = |of: fn(&TokenFigures) -> &Vec<f32>| {
                let known = |tokens: &&[f32]| !tokens.iter().any(|number| number.is_nan());
                f32_lists(self.tokens.iter().map(|tokens| Some(of(tokens).as_slice()).filter(known)))
            };
            columns.push(("token_ratios", lists(|tokens| &tokens.ratios)));
            columns.push(("token_entropies", lists(|tokens| &tokens.entropies)));
            columns.push(("token_grads", lists(|tokens| &tokens.grads)));
        }
        columns.push(("used", Arc::new(StringArray::from(self.used))));
        row::batch(columns)
    }
}
