//! What a pipeline can say about updates. A setting is a field here, with its default and its reader: nothing else
//! lists them.

pub use super::variants::*;
use crate::{FunctionSettings, LossFunction, UpdateFault};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// Schema rules that refuse a setting which nothing would read.
fn only_where_read() -> Value {
    let equals = |key: &str, value: &str| json!({ "properties": { key: { "const": value } }, "required": [key] });
    let distills = equals("objective", "distill");
    let unread = |keys: &[&str]| json!({ "properties": keys.iter().map(|key| (key.to_string(), json!(false))).collect::<Map<_, _>>() });
    let acted = [
        "surrogate",
        "ratio",
        "old",
        "truncate",
        "dual_clip",
        "region",
        "covary",
        "covary_kl",
        "covary_above",
        "covary_below",
        "power",
        "damping",
        "mask_drift",
        "mask_below",
        "mask_unit",
        "mask_from",
    ];
    json!([
        { "if": equals("objective", "sft"), "then": unread(&acted) },
        { "if": equals("objective", "value"), "then": unread(&[&acted[..], &["tokens", "entropy"]].concat()) },
        { "if": equals("objective", "reinforce"),
          "then": { "allOf": [
              unread(&[&acted[..], &["clip", "clip_high", "kl_kind", "entropy"]].concat()),
              { "properties": { "aggregation": { "enum": ["seq_mean_token_sum", "seq_mean_token_mean"] } }, "required": ["aggregation"] },
          ] } },
        { "if": distills,
          "then": unread(&[&acted[..], &["clip", "clip_high", "kl", "kl_kind", "entropy"]].concat()), "else": unread(&["divergence", "top_k"]) },
        { "if": equals("divergence", "jsd"),
          "then": { "allOf": [{ "properties": { "beta": { "exclusiveMinimum": 0.0, "exclusiveMaximum": 1.0 } } }] } },
        { "if": { "not": { "anyOf": [equals("objective", "reinforce"), equals("divergence", "jsd")] } }, "then": unread(&["beta"]) },
        { "if": { "not": { "anyOf": [distills, equals("objective", "sft")] } }, "then": unread(&["weigh_by"]) },
        { "if": { "not": { "anyOf": [distills, { "required": ["kl"] }] } }, "then": unread(&["reference_ema"]) },
        { "if": { "required": ["reference_ema"] }, "then": unread(&["reference"]) },
        { "if": { "not": equals("objective", "value") }, "then": unread(&["value_clip", "expectile"]) },
        { "if": { "not": equals("old", "recomputed") }, "then": unread(&["truncate"]) },
        { "if": equals("surrogate", "cispo"), "then": unread(&["dual_clip"]) },
        { "if": equals("surrogate", "sapo"), "then": unread(&["clip", "clip_high", "dual_clip"]), "else": unread(&["gate", "gate_below"]) },
        { "if": equals("surrogate", "gmpo"), "then": { "allOf": [
            unread(&["ratio", "dual_clip"]),
            { "properties": { "aggregation": { "const": "seq_mean_token_mean" } }, "required": ["aggregation"] },
        ] } },
        { "if": equals("surrogate", "dppo"), "then": unread(&["ratio", "dual_clip"]), "else": unread(&["region"]) },
        { "if": equals("surrogate", "kl_cov"), "then": unread(&["clip", "clip_high", "ratio", "dual_clip"]), "else": unread(&["covary_kl"]) },
        { "if": { "not": { "anyOf": [equals("surrogate", "kl_cov"), equals("surrogate", "clip_cov")] } }, "then": unread(&["covary"]) },
        { "if": { "not": equals("surrogate", "clip_cov") }, "then": unread(&["covary_above", "covary_below"]) },
        { "if": equals("surrogate", "vespo"), "then": unread(&["clip", "clip_high", "ratio", "dual_clip"]), "else": unread(&["power", "damping"]) },
        { "if": { "properties": { "surrogate": { "type": "object" } }, "required": ["surrogate"] },
          "then": unread(&["clip", "clip_high", "ratio", "dual_clip", "mask_drift"]) },
        { "if": { "not": { "required": ["mask_below"] } }, "then": unread(&["mask_unit", "mask_from"]) },
        { "if": { "anyOf": [equals("schedule", "linear"), equals("schedule", "cosine")] },
          "then": { "required": ["decay_steps"] }, "else": unread(&["decay_steps", "lr_end"]) },
    ])
}

/// How the weights are updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("allOf" = only_where_read()))]
pub struct UpdateSettings {
    /// The objective.
    pub objective: Objective,
    /// Learning rate of AdamW.
    #[schemars(range(min = 0.0))]
    pub lr: f64,
    /// Linear warm-up: over this many optimiser steps, from the start of the run, the learning rate rises linearly to
    /// `lr`.
    pub warmup: u64,
    /// The schedule of the learning rate after the warm-up, until `decay_steps`.
    pub schedule: Schedule,
    /// The optimiser step of the run at which the decay of the learning rate ends; from there on it stays constant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub decay_steps: Option<u64>,
    /// The learning rate after the decay, as a fraction of `lr`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub lr_end: f64,
    /// The ratio is clipped to 1 - clip from below, and to 1 + clip from above unless `clip_high` is given.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub clip: f64,
    /// The ratio is clipped to 1 + clip_high from above.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub clip_high: Option<f64>,
    /// How a token's ratio and advantage become its loss: by one of these names, or by a function in Python, as in
    /// `surrogate: { call: my_loss.py:loss }`. The function gives a loss a token; what else is in the loss, masks and
    /// weights stay as the other settings say.
    #[serde(deserialize_with = "surrogate")]
    #[schemars(with = "SurrogateSetting")]
    pub surrogate: Surrogate,
    /// The function, where one computes the surrogate. Set by the operator.
    #[serde(skip)]
    pub function: Option<LossFunction>,
    /// tau of `surrogate: sapo` where the advantage is above 0.
    #[schemars(range(min = 0.01))]
    pub gate: f64,
    /// tau where it isn't: 1.05 in the paper, so that such tokens are let go of sooner.
    #[schemars(range(min = 0.01))]
    pub gate_below: f64,
    /// How `surrogate: dppo` measures how far a token's probability has gone.
    pub region: TrustRegion,
    /// The share of the tokens that `surrogate: kl_cov` holds back and `clip_cov` leaves out, at least one token; 2e-3
    /// in verl's recipe of the first for 7 billion weights, 2e-4 for 32 and for the second.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub covary: f64,
    /// The weight of |log ratio| of those tokens; 1 in the paper.
    #[schemars(range(min = 0.0))]
    pub covary_kl: f64,
    /// The least covariance of the tokens that `surrogate: clip_cov` draws from; 1 in verl.
    pub covary_above: f64,
    /// The largest; 5 in verl.
    pub covary_below: f64,
    /// k of `surrogate: vespo`: where the advantage is not negative, and where it is. 2 and 3 in TRL.
    pub power: [f64; 2],
    /// lambda of it likewise; 3 and 2 in TRL.
    pub damping: [f64; 2],
    /// The ratio that is clipped: each token's, or one a row.
    pub ratio: RatioKind,
    /// The denominator of a ratio: the recorded log-probabilities, or recomputed ones with an importance weight a
    /// token. When left out: recorded ones, and recomputed ones where the acting weights are rounded and the learning
    /// ones aren't (`act: int8` of a model).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<RatioDenominator>,
    /// The most that such an importance weight may be; 2 as in released code (SkyRL's scripts, verl's documentation).
    #[schemars(range(min = 1.0))]
    pub truncate: f64,
    /// Where the advantage is negative, the loss of a token is at most this many times its size (Ye et al. 2020: 3, as
    /// in verl; EMPO2's scripts: 10). No bound when left out, as in PPO, GRPO, DAPO and RLOO.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub dual_clip: Option<f64>,
    /// A critic's values count as at most this far from the recorded ones, in units of the return; 0 leaves them alone.
    /// OpenAI Baselines: the clip of the ratio, 0.2; verl: 0.5.
    #[schemars(range(min = 0.0))]
    pub value_clip: f64,
    /// A critic learns this expectile of its targets in a state, in place of the mean: above 0.5 it goes towards the
    /// best return seen there (implicit Q-learning, Kostrikov et al. 2022, Eq. 5; 0.7 in Retrospex's code). It has no
    /// effect on the value of a written action, which is before the last token of a response: that learns the mean.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub expectile: f64,
    /// The weight of the advantage by `objective: reinforce`, 1 when left out; the teacher's share of the mixture by
    /// `divergence: jsd`, 0.5. EAPO's paper names the first without a number; its released code has 1 for it and for
    /// `kl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub beta: Option<f64>,
    /// The divergence of `objective: distill`.
    pub divergence: Divergence,
    /// How many tokens are compared at each token: the teacher's likeliest, and all others together as one more. It is
    /// at most the divergence over the whole vocabulary, which counts when this is left out: what the policy makes of
    /// the others is seen in their sum alone. A sum below 1e-7 counts as that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub top_k: Option<usize>,
    /// A column that weighs each token's loss by `objective: distill` and `sft`: one number for the row, or a list with
    /// one for each token. 0 learns nothing there (the gate of SDAR, arXiv 2605.15155); means still count the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weigh_by: Option<String>,
    /// Weight of the divergence from the reference model.
    #[schemars(range(min = 0.0))]
    pub kl: f64,
    /// Weight of an entropy bonus: the entropy, in nats, of the distribution that a token was drawn from is multiplied
    /// by it and subtracted from the token's loss.
    #[schemars(range(min = 0.0))]
    pub entropy: f64,
    /// How that divergence is estimated.
    pub kl_kind: KlKind,
    /// The reference model; the same model as it was when the run began when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-names" = "model"))]
    pub reference: Option<String>,
    /// The reference is a mean of the model's versions, which keeps this share of itself at each update (an exponential
    /// moving average). Then comes the rest of the version that the update made; 0.95 in SDPO. The mean begins as the
    /// model was when the run began, is saved with each version, and takes the memory of one more copy of the weights
    /// that are trained. By 0 it is the version that the update made last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub reference_ema: Option<f64>,
    /// How the losses of tokens become one number.
    pub aggregation: Aggregation,
    /// The constant of `seq_mean_token_sum_norm`; the longest response of the update when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0))]
    pub norm: Option<f64>,
    /// Passes over the rows.
    #[schemars(range(min = 1))]
    pub epochs: usize,
    /// Rows of one optimiser step, drawn without replacement; 0 takes all rows in one step.
    pub minibatch: usize,
    /// How rows are treated that don't fill a minibatch: kept as a smaller one, or dropped with the reason `remainder`.
    pub remainder: Remainder,
    /// A response token whose probability is below this is masked: EMPO2, section 4.2. `mask_from` sets the weights and
    /// the sums. A row that is left without a token to learn has the reason `masked_low_probability`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub mask_below: Option<f64>,
    /// The part that such a token masks: itself, or its row.
    pub mask_unit: MaskUnit,
    /// By which weights a token is improbable, and what it is left out of.
    pub mask_from: MaskFrom,
    /// Tokens with a negative advantage are masked, out of the policy's term alone, in a row that became less likely
    /// than when it was sampled by more than this: by the mean over its tokens of log acted - log new (DeepSeek-V3.2,
    /// off-policy sequence masking). Their share counts as clipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub mask_drift: Option<f64>,
    /// Which response tokens take part (in the loss, the KL term, any mean): all, or tokens that were chosen among
    /// several. By `chosen` a row without a choice has the reason `forced`.
    pub tokens: CountedTokens,
    /// Rows of one forward pass: bounds memory and moves the result by rounding only.
    #[schemars(range(min = 1))]
    pub micro_batch: usize,
    /// Tokens of one forward pass, common beginnings of its rows counted once: a step's gradient is added up over as
    /// many passes as that makes. A row that is longer is a pass of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub micro_tokens: Option<usize>,
    /// A gradient whose norm is larger is scaled down to it; 0 leaves it alone.
    #[schemars(range(min = 0.0))]
    pub max_grad_norm: f64,
    /// Decay rates of AdamW's two moments.
    pub betas: [f64; 2],
    /// AdamW's epsilon: without it a weight that never had a gradient would step by 0 / 0.
    #[schemars(range(min = 1e-30))]
    pub eps: f64,
    /// AdamW's weight decay: of matrices and embeddings, not of the gains of the norms.
    #[schemars(range(min = 0.0))]
    pub weight_decay: f64,
    /// Other weight decays, by a part of parameters' names: `{ embed_tokens: 0, lora_B: 0.1 }`; the longest part that
    /// fits counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weight_decay_of: BTreeMap<String, f64>,
    /// The temperature of the logits, in place of the temperature that each row was drawn at (column `temperature`).
    /// When left out: that one; 1 for rows without it, as in old logs, and where `sft` imitates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10.0), extend("exclusiveMinimum" = 0.0))]
    pub temperature: Option<f32>,
    /// How many versions before the newest stay available to `generate`: the staleness of the weights. Set by the
    /// pipeline's edges.
    #[serde(skip)]
    pub keep: usize,
}

/// What `surrogate` may be: the name of one, or a function.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)] // the function is read where it is called
enum SurrogateSetting {
    Named(Surrogate),
    Function(Box<FunctionSettings>),
}

fn surrogate<'de, D: Deserializer<'de>>(from: D) -> Result<Surrogate, D::Error> {
    Ok(match SurrogateSetting::deserialize(from)? {
        SurrogateSetting::Named(surrogate) => surrogate,
        SurrogateSetting::Function(_) => Surrogate::Function,
    })
}

impl UpdateSettings {
    /// The one temperature of all rows; `None` where each is read at its own.
    pub fn at(&self) -> Option<f32> {
        if self.objective == Objective::Sft {
            Some(self.temperature.unwrap_or(1.0))
        } else {
            self.temperature
        }
    }

    /// Whether the policy is compared with a reference or a teacher.
    pub fn compares(&self) -> bool {
        self.objective == Objective::Distill || self.kl != 0.0 && self.objective != Objective::Value
    }

    /// How many tokens of each choice are compared; none but the one that was chosen where nothing is distilled.
    pub fn listed(&self) -> usize {
        if self.objective == Objective::Distill {
            self.top_k.unwrap_or(usize::MAX)
        } else {
            0
        }
    }

    /// Whether ratios divide by log-probabilities under the weights that the update starts from.
    pub fn recomputes(&self) -> bool {
        self.old == Some(RatioDenominator::Recomputed)
    }

    /// Refuses settings that no update can be made with; the schema says the rest.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check(&self) -> Result<(), UpdateFault> {
        if (self.surrogate == Surrogate::Function) != self.function.is_some() {
            return Err(UpdateFault::NoFunction);
        }
        let cold = self.temperature.is_some_and(|temperature| temperature <= 0.0);
        let zero = [
            ("epochs", self.epochs == 0),
            ("micro_batch", self.micro_batch == 0),
            ("temperature", cold),
            ("eps", (self.eps as f32) <= 0.0),
        ];
        match zero.iter().find(|(_, zero)| *zero) {
            Some((setting, _)) => Err(UpdateFault::NotPositive { setting: (*setting).into() }),
            None => Ok(()),
        }
    }
}

impl Default for UpdateSettings {
    fn default() -> Self {
        UpdateSettings {
            objective: Objective::PolicyGradient,
            lr: 1e-6,
            warmup: 0,
            schedule: Schedule::Constant,
            decay_steps: None,
            lr_end: 0.0,
            clip: 0.2,
            clip_high: None,
            surrogate: Surrogate::Clip,
            function: None,
            gate: 1.0,
            gate_below: 1.05,
            region: TrustRegion::Tv,
            covary: 2e-4,
            covary_kl: 1.0,
            covary_above: 1.0,
            covary_below: 5.0,
            power: [2.0, 3.0],
            damping: [3.0, 2.0],
            ratio: RatioKind::Token,
            old: None,
            truncate: 2.0,
            dual_clip: None,
            value_clip: 0.2,
            expectile: 0.5,
            beta: None,
            divergence: Divergence::ReverseKl,
            top_k: None,
            weigh_by: None,
            kl: 0.0,
            entropy: 0.0,
            kl_kind: KlKind::K3,
            reference: None,
            reference_ema: None,
            aggregation: Aggregation::TokenMean,
            norm: None,
            epochs: 1,
            minibatch: 0,
            remainder: Remainder::Keep,
            mask_below: None,
            mask_unit: MaskUnit::Token,
            mask_from: MaskFrom::Current,
            mask_drift: None,
            tokens: CountedTokens::All,
            micro_batch: 64,
            micro_tokens: None,
            max_grad_norm: 1.0,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.01,
            weight_decay_of: BTreeMap::new(),
            temperature: None,
            keep: 1,
        }
    }
}
