//! The terms of the loss in one pass, by objective: a value a token.

use crate::numbers::{indices, no_grad, Device, Kind, Tensor};
use crate::update::batch::{TokenWeight, UpdateBatch};
#[cfg(feature = "torch")]
use crate::update::distillation;
use crate::update::function;
use crate::update::listed::Listed;
use crate::update::loss::{self, Rows};
use crate::update::outputs::TokenOutputs;
use crate::update::passes::Pass;
use crate::update::surrogate::{self, SurrogateInput};
use flow_model::{Aggregation, MaskFrom, MaskUnit, Objective, RatioKind};
use flow_model::{Example, Result};

/// One value for each token of a pass, in the order of its rows: each `[tokens]`.
pub struct Terms {
    /// What is summed, with weights, into the loss of the step; the gradient is taken of it.
    pub loss: Tensor,
    /// The divergence from the reference, or from the policy that acted.
    pub kl: Tensor,
    /// Whether the clipped branch decided.
    pub clipped: Tensor,
    /// What is clipped.
    pub ratio: Tensor,
    /// Whether the policy's term of the token is masked by the weights of this step, where something masks by them.
    pub masked: Option<Tensor>,
    /// The net's results, from which the loss is computed.
    pub outputs: TokenOutputs,
    /// A number that is 0, with the gradient of a loss that was computed elsewhere.
    pub slope: Option<Tensor>,
}

/// The tokens of a pass: what the rows say of them as tensors `[tokens]`.
pub struct PassTokens<'a> {
    /// The update's rows.
    pub batch: &'a UpdateBatch<'a>,
    /// Which of them, and their order.
    pub pass: &'a Pass,
    /// Their computed figures.
    pub outputs: &'a TokenOutputs,
    /// The weight of each token of a row in the loss of the step.
    pub weight: &'a TokenWeight<'a>,
    /// Where it lies.
    pub device: Device,
}

impl PassTokens<'_> {
    fn tensor(&self, values: Vec<f32>) -> Tensor {
        Tensor::from_slice(&values).to_device(self.device)
    }

    /// A row's value, at each of its tokens.
    pub fn each(&self, value: &dyn Fn(usize) -> f32) -> Tensor {
        self.own(&|row| vec![value(row); self.batch.rows[row].len()])
    }

    /// The tokens' own values.
    pub fn own(&self, values: &dyn Fn(usize) -> Vec<f32>) -> Tensor {
        self.tensor(self.pass.rows.iter().flat_map(|&row| values(row)).collect())
    }

    /// 1 where a token takes part, else 0.
    pub fn part(&self) -> Tensor {
        self.own(&|row| self.batch.part[row].iter().map(|&part| part as u8 as f32).collect())
    }

    /// Which row of the pass a token is in.
    fn place(&self) -> Tensor {
        let rows = self.pass.rows.iter().enumerate();
        let place: Vec<i64> = rows.flat_map(|(i, &row)| std::iter::repeat_n(i as i64, self.batch.rows[row].len())).collect();
        indices(&place, self.device)
    }

    /// The terms of the objective. `base` is what the reference makes of the tokens: what a KL term measures the
    /// divergence from, or the teacher.
    ///
    /// # Errors
    /// Those of a function of the user's own.
    pub fn terms(&self, base: Option<TokenOutputs>) -> Result<Terms> {
        Ok(match self.batch.settings.objective {
            Objective::Value => self.value(),
            Objective::Distill => self.distill(base.and_then(|base| base.listed)),
            Objective::Reinforce => self.reinforce(base.map(|base| base.logprobs)),
            _ => return self.policy(base.map(|base| base.logprobs)),
        })
    }

    /// The weight of each token's loss in the loss of the step.
    pub fn weights(&self) -> Tensor {
        self.each(&|row| (self.weight)(row) as f32)
    }

    /// Without choices there is nothing to compare.
    fn distill(&self, taught: Option<Listed>) -> Terms {
        let outputs = self.outputs.share();
        let none = outputs.logprobs.detach().zeros_like();
        let apart = match (&outputs.listed, &taught) {
            // Without libtorch nothing lists tokens.
            #[cfg(feature = "torch")]
            (Some(own), Some(taught)) => none.index_copy(0, &own.to, &distillation::each(own, taught, self.batch.settings)),
            _ => none.copy(),
        };
        let loss = self.weighed(apart.shallow_clone());
        Terms { loss, kl: apart.detach(), clipped: none.copy(), ratio: none.ones_like(), masked: None, outputs, slope: None }
    }

    /// The losses of tokens that are imitated, times what a column says of each, where one does: the rows have it in
    /// place of an advantage.
    fn weighed(&self, loss: Tensor) -> Tensor {
        match self.batch.settings.weigh_by {
            Some(_) => loss * self.own(&|row| self.batch.examples[row].each_advantage()),
            None => loss,
        }
    }

    fn value(&self) -> Terms {
        let outputs = self.outputs.share();
        let value = outputs.logprobs.shallow_clone();
        let old = self.own(&|row| self.batch.examples[row].values.clone());
        let target = self.own(&|row| self.batch.examples[row].targets.clone());
        let settings = self.batch.settings;
        let (mut loss, clipped) = loss::value(&value, &old, &target, settings.value_clip);
        if settings.expectile != 0.5 {
            let states = self.own(&|row| states(&self.batch.examples[row]));
            loss = loss.g_mul(&loss::expectile(&value.detach(), &target, &states, settings.expectile));
        }
        let zero = value.zeros_like();
        Terms { loss, kl: zero.copy(), clipped, ratio: value.ones_like(), masked: None, outputs, slope: None }
    }

    fn reinforce(&self, base: Option<Tensor>) -> Terms {
        let (batch, settings) = (self.batch, self.batch.settings);
        let outputs = self.outputs.share();
        let new = outputs.logprobs.shallow_clone();
        let mean = settings.aggregation == Aggregation::SeqMeanTokenMean;
        let rows = (&self.place(), self.pass.rows.len() as i64, mean);
        let advantage = self.each(&|row| batch.examples[row].advantage);
        let loss = loss::reinforce(&new, base.as_ref(), &advantage, rows, (settings.beta.unwrap_or(1.0), settings.kl));
        let kl = no_grad(|| base.map_or_else(|| new.zeros_like(), |base| &new - base));
        let clipped = new.zeros_like();
        Terms { loss, kl, clipped, ratio: new.ones_like(), masked: None, outputs, slope: None }
    }

    fn policy(&self, base: Option<Tensor>) -> Result<Terms> {
        let (batch, settings) = (self.batch, self.batch.settings);
        let outputs = self.outputs.share();
        let new = outputs.logprobs.shallow_clone();
        let imitates = settings.objective == Objective::Sft;
        let acted = if imitates { new.detach() } else { self.own(&|row| batch.examples[row].logprobs.clone()) };
        let start = batch.start.as_ref().filter(|_| settings.recomputes()).map(|start| self.own(&|row| start[row].clone()));
        let old = start.as_ref().unwrap_or(&acted);
        let rows = &Rows { place: self.place(), part: self.part(), count: self.pass.rows.len() as i64 };
        let ratio = match settings.ratio {
            RatioKind::Token => loss::ratio(&new, old),
            RatioKind::Sequence => loss::sequence_ratio(&new, old, rows),
        };
        let masked = self.masked(&new);
        let importance = start.as_ref().map(|start| loss::importance(start, &acted, settings.truncate));
        let mut slope = None;
        let (mut loss, clipped) = if imitates {
            (self.weighed(-&new), new.zeros_like())
        } else {
            let advantage = self.own(&|row| batch.examples[row].each_advantage());
            let covary = self.own(&|row| match batch.covary.get(row) {
                Some(covary) => covary.iter().map(|covary| f32::from(u8::from(*covary))).collect(),
                None => vec![0.0; batch.rows[row].len()],
            });
            let tokens = SurrogateInput { new: &new, old, acted: &acted, ratio: &ratio, advantage: &advantage, rows, covary: &covary };
            match &settings.function {
                None => surrogate::loss(&tokens, settings),
                Some(of) => {
                    let mut weight = self.weights() * self.part();
                    for factor in [importance.as_ref(), masked.as_ref().map(|masked| masked.logical_not()).as_ref()].into_iter().flatten() {
                        weight *= factor;
                    }
                    let computed = function::loss(&*of.0, &tokens, &outputs.entropy, &weight)?;
                    slope = Some(computed.slope);
                    (computed.loss, computed.clipped)
                }
            }
        };
        if let Some(masked) = &masked {
            loss = loss.masked_fill(masked, 0.0);
        }
        if let Some(importance) = &importance {
            loss = loss.g_mul(importance);
        }
        let kl = match base {
            Some(base) => {
                let kl = loss::reference_kl(&new, &base, settings.kl_kind);
                loss = loss.g_add(&(&kl * settings.kl));
                kl
            }
            None => no_grad(|| loss::moved(&new, &acted)),
        };
        if settings.entropy != 0.0 {
            loss = loss.g_sub(&(&outputs.entropy * settings.entropy));
        }
        Ok(Terms { loss, kl, clipped, ratio, masked, outputs, slope })
    }

    /// Where the policy's term is masked by the weights of this step: 1_{pi >= delta} of EMPO2, Eq. 2. `new` are the
    /// tokens' log-probabilities.
    fn masked(&self, new: &Tensor) -> Option<Tensor> {
        let settings = self.batch.settings;
        let acted = settings.objective == Objective::PolicyGradient && settings.mask_from == MaskFrom::Current;
        let below = settings.mask_below.filter(|_| acted)?;
        let low = new.detach().lt(below.ln());
        Some(match settings.mask_unit {
            MaskUnit::Token => low,
            MaskUnit::Row => {
                let (place, rows) = (self.place(), self.pass.rows.len() as i64);
                let count = Tensor::zeros([rows], (Kind::Float, new.device())).index_add(0, &place, &low.to_kind(Kind::Float));
                count.gt(0.0).index_select(0, &place)
            }
        })
    }
}

/// Of each value of a row 1 where it is a state's, 0 where it is that of an action that was said: before the last token
/// of a response.
fn states(example: &Example) -> Vec<f32> {
    let mut states = vec![1.0; example.response.len().max(1)];
    if let Some(last) = states.last_mut().filter(|_| !example.response.is_empty()) {
        *last = 0.0;
    }
    states
}
