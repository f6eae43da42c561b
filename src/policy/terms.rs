//! The terms of the loss in one pass, by objective: a value a token.

use super::loss;
use super::model::Net;
use super::passes::Pass;
use super::task::Task;
use super::{KlKind, Objective, Old, RatioKind};
use tch::Tensor;

/// One value for each token of a pass, in the order of its rows.
pub struct Terms {
    /// What is summed, with weights, into the loss of the step; the gradient is taken of it.
    pub loss: Tensor,
    pub kl: Tensor,
    pub entropy: Tensor,
    /// Whether the clipped branch decided.
    pub clipped: Tensor,
    pub ratio: Tensor,
    /// What the net found: log-probabilities, or values.
    pub found: Tensor,
}

/// Values of tokens as tensors on the net's device.
pub struct Tokens<'a> {
    pub task: &'a Task<'a>,
    pub pass: &'a Pass,
    pub net: &'a Net,
}

impl Tokens<'_> {
    fn tensor(&self, values: Vec<f32>) -> Tensor {
        Tensor::from_slice(&values).to_device(self.net.device())
    }

    /// One value a row, at each of its tokens.
    pub fn each(&self, value: &dyn Fn(usize) -> f32) -> Tensor {
        self.tensor(self.pass.rows.iter().flat_map(|&(row, _)| std::iter::repeat_n(value(row), self.task.rows[row].len())).collect())
    }

    /// A value a token.
    pub fn own(&self, values: &dyn Fn(usize) -> Vec<f32>) -> Tensor {
        self.tensor(self.pass.rows.iter().flat_map(|&(row, _)| values(row)).collect())
    }

    /// 1 where a token takes part, else 0.
    pub fn part(&self) -> Tensor {
        self.own(&|row| self.task.part[row].iter().map(|&part| part as u8 as f32).collect())
    }

    /// Which row of the pass a token is in.
    fn place(&self) -> Tensor {
        let rows = self.pass.rows.iter().enumerate();
        let place: Vec<i64> = rows.flat_map(|(i, &(row, _))| std::iter::repeat_n(i as i64, self.task.rows[row].len())).collect();
        Tensor::from_slice(&place).to_device(self.net.device())
    }

    /// The terms of the objective. `reference` is what a KL term holds on to.
    pub fn terms(&self, reference: Option<&Net>) -> Terms {
        match self.task.settings.objective {
            Objective::Value => self.value(),
            _ => self.policy(reference),
        }
    }

    fn value(&self) -> Terms {
        let value = self.pass.values(self.net, &self.task.rows);
        let old = self.each(&|row| self.task.examples[row].value);
        let target = self.each(&|row| self.task.examples[row].target);
        let (loss, clipped) = loss::value(&value, &old, &target, self.task.settings.value_clip);
        let zero = value.zeros_like();
        Terms { loss, kl: zero.copy(), entropy: zero, clipped, ratio: value.ones_like(), found: value }
    }

    fn policy(&self, reference: Option<&Net>) -> Terms {
        let (task, settings) = (self.task, self.task.settings);
        let (new, entropy) = self.pass.logprobs(self.net, &task.rows, settings.temperature);
        let imitates = settings.objective == Objective::Sft;
        let acted = if imitates { new.detach() } else { self.own(&|row| task.examples[row].logprobs.clone()) };
        let start = task.start.as_ref().filter(|_| settings.old == Old::Recomputed).map(|start| self.own(&|row| start[row].clone()));
        let old = start.as_ref().unwrap_or(&acted);
        let ratio = match settings.ratio {
            RatioKind::Token => loss::ratio(&new, old),
            RatioKind::Sequence => loss::sequence_ratio(&new, old, &self.place(), &self.part(), self.pass.rows.len() as i64),
        };
        let (mut loss, clipped) = if imitates {
            (-&new, new.zeros_like())
        } else {
            let advantage = self.each(&|row| task.examples[row].advantage);
            loss::policy(&ratio, &advantage, settings.clip, settings.clip_high.unwrap_or(settings.clip), settings.dual_clip)
        };
        if let Some(start) = &start {
            loss = loss.g_mul(&loss::importance(start, &acted, settings.truncate));
        }
        let kl = match reference {
            Some(reference) => {
                let base = tch::no_grad(|| self.pass.logprobs(reference, &task.rows, settings.temperature).0);
                let kl = loss::divergence(&new, &base, settings.kl_kind);
                loss = loss.g_add(&(&kl * settings.kl));
                kl
            }
            None => tch::no_grad(|| loss::divergence(&new, &acted, KlKind::K3)),
        };
        Terms { loss, kl, entropy, clipped, ratio, found: new }
    }
}
