//! Passes and steps of a model in a trainer.

use crate::limits::RowLimits;
use crate::numbers::{values, Device, Tensor};
use crate::pause::pause;
use crate::trainer::TrainedModel;
use crate::update::batch::{TokenWeight, UpdateBatch};
use crate::update::gradient::{pass, PassResult};
use crate::update::learner::Learner;
use crate::update::outputs::TokenOutputs;
use crate::update::outputs::Wanted;
use crate::update::passes::{read_rows, Pass, PassLimits, Target, TrainingRow};
use crate::update::tracer::{Gradients, Trace, Tracer};
use crate::update::update;
use flow_core::seed::mix;
use flow_model::{Example, ModelFault, PolicyError, Result, UpdateReport, UpdateSettings};
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;

/// The most rows of one question, and the most different tokens of one pass: what a message has room for.
const MOST_ROWS: usize = 4096;
const MOST_TOKENS: usize = 1 << 20;

/// The weights of a trainer: those it has now, or those it was opened with.
pub struct TrainerWeights<'a> {
    model: &'a TrainedModel,
    reference: bool,
    /// Tokens that were computed for a gradient, padding among them.
    read: Cell<usize>,
}

impl TrainedModel {
    /// Its newest weights.
    ///
    /// # Errors
    /// If there are none, in the middle of an update.
    pub fn weights(&self) -> Result<TrainerWeights<'_>> {
        self.settled()?;
        Ok(TrainerWeights { model: self, reference: false, read: Cell::new(0) })
    }

    /// The weights of `version`, if they are the newest.
    ///
    /// # Errors
    /// If they aren't: a trainer has one version.
    pub fn weights_at(&self, version: u64) -> Result<TrainerWeights<'_>> {
        if version == self.newest() {
            self.weights()
        } else {
            Err(self.no_version(version))
        }
    }

    /// The weights that it began with.
    pub fn reference(&self) -> TrainerWeights<'_> {
        TrainerWeights { model: self, reference: true, read: Cell::new(0) }
    }

    /// Learns from `rows`, and gives whether a step was made; the report has the version before. A KL term measures the
    /// divergence from `reference`.
    ///
    /// # Errors
    /// As an update that is computed here, and if the trainer fails. After the first step its weights are those of no
    /// version until [`TrainedModel::adopt`].
    pub fn learn(&self, rows: &[Example], settings: &UpdateSettings, reference: Option<&dyn Tracer>) -> Result<(bool, UpdateReport)> {
        let version = self.newest();
        let once = || {
            let mut learner = TrainerLearner { weights: self.weights()?, reference, finite: true, measured: BTreeMap::new() };
            update(&self.name, &mut learner, rows, settings, mix(self.seed, version + 1))
        };
        let (learnt, report) = once().or_else(|why| {
            // Before its first step a trainer that ends has changed nothing: it is started again, as between two updates.
            let again = !self.learning.get() && self.link.borrow().ended() && self.watch().is_ok();
            if again {
                once()
            } else {
                Err(why)
            }
        })?;
        Ok((learnt, UpdateReport { version, ..report }))
    }
}

impl TrainerWeights<'_> {
    /// As [`TrainerWeights::logprobs`], of rows that aren't checked yet.
    ///
    /// # Errors
    /// [`PolicyError::Row`] with the first row that can't be read.
    pub fn examples(&self, rows: &[Example], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        let rows = rows.iter().enumerate().map(|(i, row)| TrainingRow::new(i, row, &self.model.limits)).collect::<Result<Vec<_>, _>>()?;
        self.logprobs(&rows, temperature)
    }

    /// A critic's value before each response token of rows that aren't checked yet; without a response, at the end of
    /// the prompt.
    ///
    /// # Errors
    /// [`PolicyError::Row`] with the first row that can't be read.
    pub fn values(&self, rows: &[Example]) -> Result<Vec<Vec<f32>>> {
        let rows = rows.iter().enumerate().map(|(i, row)| TrainingRow::value(i, row, &self.model.limits)).collect::<Result<Vec<_>, _>>()?;
        self.logprobs(&rows, None)
    }

    /// The log-probability of each response token of `rows`, or a critic's values.
    ///
    /// # Errors
    /// If a row can't be read, or the trainer fails.
    pub fn logprobs(&self, rows: &[TrainingRow], temperature: Option<f32>) -> Result<Vec<Vec<f32>>> {
        read_rows(rows, MOST_ROWS, |passes| {
            passes.iter().map(|pass| Ok(values(&self.trace(pass, rows, temperature, Wanted::Figures)?.outputs().logprobs))).collect()
        })
    }
}

/// A pass as it is sent to a trainer: the sequences, and the tokens that are chosen in them. A row that begins another
/// one is a part of its sequence: a turn of a conversation is sent with the last turn.
fn request(pass: &Pass, rows: &[TrainingRow], targets: &[Target]) -> (serde_json::Value, Vec<u8>) {
    let mut sorted: Vec<(Vec<u32>, usize)> = pass.rows.iter().map(|&row| (rows[row].sequence(), row)).collect();
    sorted.sort();
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    let mut of_row: BTreeMap<usize, u32> = BTreeMap::new();
    // From the last one on, a row that begins others comes directly after one of them.
    for (sequence, row) in sorted.into_iter().rev() {
        if !sequences.last().is_some_and(|last| last.starts_with(&sequence)) {
            sequences.push(sequence);
        }
        of_row.insert(row, sequences.len() as u32 - 1);
    }
    let mut payload: Vec<u8> = sequences.iter().flatten().flat_map(|token| token.to_le_bytes()).collect();
    payload.extend(targets.iter().flat_map(|target| of_row[&target.row].to_le_bytes()));
    payload.extend(targets.iter().flat_map(|target| (target.place as u32).to_le_bytes()));
    payload.extend(targets.iter().flat_map(|target| target.token.to_le_bytes()));
    payload.extend(targets.iter().flat_map(|target| target.temperature.to_le_bytes()));
    let mut head = json!({ "sequences": sequences.iter().map(Vec::len).collect::<Vec<_>>(), "choices": targets.len() });
    if targets.iter().any(|target| target.allowed.is_some()) {
        head["allowed"] = targets.iter().map(|target| target.allowed.map_or(0, <[u32]>::len)).collect::<Vec<_>>().into();
        payload.extend(targets.iter().flat_map(|target| target.allowed.unwrap_or_default()).flat_map(|token| token.to_le_bytes()));
    }
    (head, payload)
}

impl Tracer for TrainerWeights<'_> {
    fn trace(&self, pass: &Pass, rows: &[TrainingRow], temperature: Option<f32>, wanted: Wanted) -> Result<Box<dyn Trace + '_>> {
        if let Wanted::Likeliest(_) | Wanted::Listed(_) = wanted {
            let why = "a trainer gives a token's log-probability, and not what else could have been written: to distil leave `train` out";
            return Err(PolicyError::model(&self.model.name, ModelFault::Train { why: why.into() }));
        }
        let (learns, bends) = (wanted.learns(), wanted.bends());
        let tokens = pass.tokens(rows);
        let targets = pass.targets(rows, temperature);
        let to: Vec<usize> = targets.iter().map(|target| target.to).collect();
        // One that has no entropies doesn't answer 0 for them.
        let bare = self.model.bare && !bends;
        let count = if bends { 5 } else { 3 };
        let count = if bare { 1 } else { count };
        let mut figures: [Vec<f32>; 5] = std::array::from_fn(|i| vec![if bare && i > 0 { f32::NAN } else { 0.0 }; tokens]);
        if !targets.is_empty() {
            let (mut head, payload) = request(pass, rows, &targets);
            let sequences = head["sequences"].as_array().cloned().unwrap_or_default();
            head["request"] = "trace".into();
            head["gradient"] = learns.into();
            head["entropy"] = bends.into();
            head["reference"] = self.reference.into();
            let (head, answer) = self.model.ask(head, &payload, 4 * count * to.len())?;
            if learns {
                // Another trainer may not say it.
                let sent = || sequences.iter().filter_map(serde_json::Value::as_u64).sum();
                self.read.set(self.read.get() + head["computed"].as_u64().unwrap_or_else(sent) as usize);
            }
            let numbers = answer.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
            numbers.enumerate().for_each(|(i, number)| figures[i / to.len()][to[i % to.len()]] = number);
        }
        let [logprobs, entropy, slope, cross, square] = figures;
        let outputs = TokenOutputs::from_figures(&logprobs, &entropy, &slope, bends.then_some((cross, square)), learns);
        Ok(Box::new(TrainerPass { model: self.model, outputs, to }))
    }

    fn device(&self) -> Device {
        Device::Cpu
    }
}

/// A pass that a trainer computed, and holds until the gradient comes.
struct TrainerPass<'a> {
    model: &'a TrainedModel,
    outputs: TokenOutputs,
    /// Which token each choice is.
    to: Vec<usize>,
}

impl Trace for TrainerPass<'_> {
    fn outputs(&self) -> &TokenOutputs {
        &self.outputs
    }

    fn back(&self, loss: &Tensor) -> Result<Gradients> {
        let outputs = self.outputs.gradients(loss);
        let by: Vec<Vec<f32>> = outputs.iter().map(values).collect();
        let payload: Vec<u8> = by.iter().flat_map(|by| self.to.iter().flat_map(|&to| by[to].to_le_bytes())).collect();
        self.model.tell(json!({ "request": "back", "entropy": outputs.len() > 1 }), &payload)?;
        Ok(Gradients { weights: None, outputs })
    }
}

/// A model in a trainer during an update.
struct TrainerLearner<'a> {
    weights: TrainerWeights<'a>,
    reference: Option<&'a dyn Tracer>,
    finite: bool,
    /// Of the last step, by metric.
    measured: BTreeMap<String, f64>,
}

impl Learner for TrainerLearner<'_> {
    fn limits(&self) -> RowLimits {
        self.weights.model.limits.clone()
    }

    fn steps(&self) -> u64 {
        self.weights.model.steps.get()
    }

    fn logprobs(&self, rows: &[TrainingRow], temperature: Option<f32>, _: usize) -> Result<Vec<Vec<f32>>> {
        self.weights.logprobs(rows, temperature)
    }

    fn gradient(&mut self, _number: u64, batch: &UpdateBatch, passes: &[Pass], weight: &TokenWeight) -> Result<Vec<PassResult>> {
        let model = self.weights.model;
        model.tell(json!({ "request": "zero" }), &[])?;
        self.weights.read.set(0);
        let one = |of: &Pass| {
            pause();
            Ok(pass(&model.name, &self.weights, self.reference, batch, of, weight)?.1)
        };
        passes.iter().map(one).collect()
    }

    fn tokens_read(&self, _passes: &[Pass]) -> usize {
        self.weights.read.get()
    }

    fn step(&mut self, settings: &UpdateSettings, lr: f64) -> Result<f64> {
        let model = self.weights.model;
        model.learning.set(true);
        let ask = json!({
            "request": "step",
            "lr": lr,
            "betas": settings.betas,
            "eps": settings.eps,
            "weight_decay": settings.weight_decay,
            "weight_decay_of": settings.weight_decay_of,
            "max_grad_norm": settings.max_grad_norm,
        });
        let (answer, _) = model.ask(ask, &[], 0)?;
        let Some(finite) = answer["finite"].as_bool() else {
            let what = "its answer to `step` doesn't say whether the weights are `finite`".into();
            return Err(PolicyError::model(&model.name, ModelFault::Trainer { what }));
        };
        // A norm that is no number can't be written in JSON.
        let Some(norm) = answer["grad_norm"].as_f64() else { return Ok(f64::NAN) };
        model.steps.set(model.steps.get() + 1);
        let of = |key: &str| answer[key].as_object().cloned().into_iter().flatten();
        self.measured.extend(of("seconds").filter_map(|(part, seconds)| Some((format!("{part}_seconds"), seconds.as_f64()?))));
        self.measured.extend(of("tokens").filter_map(|(what, tokens)| Some((format!("tokens_{what}"), tokens.as_f64()?))));
        self.finite &= finite;
        Ok(norm)
    }

    fn finite(&self) -> bool {
        self.finite
    }

    /// A whole minibatch: the trainer cuts it itself, by its memory, and is asked once.
    fn pass_limits(&self, _: &UpdateSettings) -> PassLimits {
        PassLimits { sequences: usize::MAX, tokens: Some(MOST_TOKENS) }
    }

    fn measured(&mut self) -> BTreeMap<String, f64> {
        std::mem::take(&mut self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::AttentionLayout;
    use crate::update::passes::{passes, Passes};
    use flow_model::Sizes;

    /// Two episodes of a task: three turns of the first, one of the second, and the first turn once more.
    #[test]
    fn a_row_that_begins_another_is_a_part_of_its_sequence() {
        let row = |prompt: &[u32], response: &[u32]| Example { prompt: prompt.into(), response: response.into(), ..Example::default() };
        let examples = [
            row(&[1, 2, 3], &[4, 5]),
            row(&[1, 2, 3, 4, 5, 6], &[7, 8]),
            row(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[10, 11]),
            row(&[1, 2, 3], &[12, 13, 14]),
            row(&[1, 2, 3], &[4, 5]),
        ];
        let sizes = Sizes { vocab: 20, rows: 20, context: 64, width: 8, value: false, cached: 0 };
        let limits = RowLimits { sizes, ends: [0].into() };
        let rows: Vec<TrainingRow> =
            examples.iter().enumerate().map(|(i, example)| TrainingRow::new(i, example, &limits).unwrap()).collect();
        let all = PassLimits { sequences: usize::MAX, tokens: None };
        let Passes { passes, distinct } = passes(&rows, &[0, 1, 2, 3, 4], all, AttentionLayout::PerSequence);
        let targets = passes[0].targets(&rows, None);
        let (head, payload) = request(&passes[0], &rows, &targets);
        assert_eq!((passes.len(), &head["sequences"], distinct), (1, &json!([5, 10]), 12));
        let numbers: Vec<u32> = payload.chunks_exact(4).map(|x| u32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect();
        let (tokens, rest) = numbers.split_at(15);
        let (sequences, rest) = rest.split_at(targets.len());
        let begins = [0, 5];
        for ((target, sequence), place) in targets.iter().zip(sequences).zip(rest) {
            let begin = begins[*sequence as usize];
            let own = rows[target.row].sequence();
            assert_eq!(tokens[begin..=begin + *place as usize], own[..=target.place], "what row {} reads before a choice", target.row);
        }
    }
}
