//! Training rows, cut into forward passes.
//!
//! Only tokens that were chosen cost anything: a sequence ends before the last of them. What the sequences of a pass begin with in common
//! is computed once, forward and backward. The loss knows nothing of it: it is made of rows. How rows are cut into passes follows from the
//! rows alone.

use super::outputs::{chosen, TokenOutputs};
use super::parallel::Parallel;
use super::settings::UpdateSettings;
use crate::policy::choices::ChoiceConstraint;
use crate::policy::engine::tape::Tape;
use crate::policy::engine::{self, AdaptedEngine};
use crate::policy::model::config::DecoderConfig;
use crate::policy::model::reading::{Cut, TrieTensors};
use crate::policy::model::{Net, NEVER};
use crate::policy::sequence::{check, known};
use crate::policy::tensors::{indices, values};
use crate::policy::trie::{runs, shared, Trie};
use crate::policy::{Example, PolicyError, RowFault, PAD_TO};
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// One token that was chosen among several.
struct TokenChoice {
    /// Its place in the response.
    index: usize,
    /// What it was chosen from; `None`: the whole vocabulary.
    allowed: Option<Vec<u32>>,
}

/// A row, checked.
pub struct TrainingRow<'a> {
    example: &'a Example,
    choices: Vec<TokenChoice>,
    length: usize,
}

impl<'a> TrainingRow<'a> {
    /// Checks one row; the error names it.
    pub fn new(row: usize, example: &'a Example, net: &Net) -> Result<TrainingRow<'a>, PolicyError> {
        TrainingRow::read(example, net).map_err(|fault| PolicyError::Row { row, fault })
    }

    fn read(example: &'a Example, net: &Net) -> Result<TrainingRow<'a>, RowFault> {
        let response = &example.response;
        check(&example.prompt, &example.choices, response.len(), &net.sizes)?;
        if response.is_empty() {
            return Err(RowFault::EmptyResponse);
        }
        known(response.iter(), net.sizes.vocab)?;
        std::iter::once(&example.advantage).chain(&example.advantages).try_for_each(|&advantage| number("advantage", advantage))?;
        many("advantages", &example.advantages, response.len(), true)?;
        if let Some(value) = example.temperature.filter(|t| !(t.is_finite() && *t > 0.0)) {
            return Err(RowFault::Temperature { value });
        }
        let mut choices = Vec::new();
        if example.choices.is_empty() {
            choices.extend((0..response.len()).map(|index| TokenChoice { index, allowed: None }));
            return Ok(TrainingRow { example, choices, length: response.len() });
        }
        let mut walk = ChoiceConstraint::new(&example.choices, &net.ends)?;
        for (index, &token) in response.iter().enumerate() {
            if walk.forced().is_none() {
                choices.push(TokenChoice { index, allowed: Some(walk.allowed()) });
            }
            if !walk.push(token) {
                return Err(RowFault::NotAChoice { response: response.clone() });
            }
        }
        Ok(TrainingRow { example, choices, length: response.len() })
    }

    /// Checks one row for a value head, whose values are before each response token; without a response, at the end of the prompt.
    pub fn value(row: usize, example: &'a Example, net: &Net) -> Result<TrainingRow<'a>, PolicyError> {
        let length = example.response.len().max(1);
        let all = |what, numbers: &[f32]| numbers.iter().try_for_each(|&value| number(what, value));
        check(&example.prompt, &[], length - 1, &net.sizes)
            .and_then(|()| known(example.response.iter(), net.sizes.vocab))
            .and_then(|()| all("recorded value", &example.values))
            .and_then(|()| all("value target", &example.targets))
            .map_err(|fault| PolicyError::Row { row, fault })?;
        let choices = (0..length).map(|index| TokenChoice { index, allowed: None }).collect();
        Ok(TrainingRow { example, choices, length })
    }

    /// How many tokens a pass has of it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether something is learnt from the row when only these of its tokens take part: forced ones, which have probability 1, teach nothing.
    pub fn teaches(&self, part: &[bool]) -> bool {
        !part.contains(&false) || self.choices.iter().any(|choice| part[choice.index])
    }

    /// For each token whether it was chosen; the others were forced.
    pub fn chosen(&self) -> Vec<bool> {
        let mut chosen = vec![false; self.length];
        self.choices.iter().for_each(|choice| chosen[choice.index] = true);
        chosen
    }

    /// What has to be read: up to the place before the last choice.
    fn sequence(&self) -> Vec<u32> {
        let until = self.choices.last().map_or(0, |choice| choice.index);
        self.example.prompt.iter().chain(&self.example.response[..until]).copied().collect()
    }

    /// The places whose final states make the choices.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.choices.iter().map(|choice| self.example.prompt.len() + choice.index - 1)
    }
}

/// Refuses numbers that aren't one for each of `tokens` tokens, or where that is `fine` none.
pub fn many(what: &'static str, numbers: &[f32], tokens: usize, allow_empty: bool) -> Result<(), RowFault> {
    if numbers.len() == tokens || allow_empty && numbers.is_empty() {
        return Ok(());
    }
    Err(RowFault::Numbers { what: what.into(), tokens, numbers: numbers.len() })
}

/// Refuses what isn't a number.
fn number(what: &'static str, value: f32) -> Result<(), RowFault> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(RowFault::NotANumber { what: what.into(), value })
    }
}

/// One forward pass: some sequences as a trie, and the rows that it stands for.
pub struct Pass {
    trie: Trie,
    /// Its nodes whose final states make choices, ascending.
    output_nodes: Vec<usize>,
    /// In their order the rows' choices follow one another, and their tokens.
    pub rows: Vec<usize>,
    /// For each choice which of `output_nodes` it is made from.
    from: Vec<i64>,
    cut: Cut,
}

/// The passes over some rows.
pub struct Passes {
    /// In the order in which their gradients are summed.
    pub passes: Vec<Pass>,
    /// How many different tokens they read together: tokens that follow the same ones are one.
    pub distinct: usize,
}

/// The most that a pass may hold.
#[derive(Clone, Copy)]
pub struct PassLimits {
    /// Sequences.
    pub sequences: usize,
    /// Different tokens; a sequence that has more of them is a pass of its own.
    pub tokens: Option<usize>,
}

impl PassLimits {
    /// The limits that the settings of an update ask for.
    pub fn from_settings(settings: &UpdateSettings) -> PassLimits {
        PassLimits { sequences: settings.micro_batch, tokens: settings.micro_tokens }
    }
}

/// The passes over the rows called `which`, each of which holds at most `most`. Sequences lie in order, so that those that begin alike
/// share a pass.
pub fn passes(rows: &[TrainingRow], which: &[usize], most: PassLimits, cut: Cut) -> Passes {
    let mut unique: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
    let mut certain = Vec::new();
    for &i in which {
        if rows[i].choices.is_empty() {
            certain.push(i);
        } else {
            unique.entry(rows[i].sequence()).or_default().push(i);
        }
    }
    let sequences: Vec<(Vec<u32>, Vec<usize>)> = unique.into_iter().collect();
    let begins = |i: usize| if i == 0 { 0 } else { shared(&sequences[i - 1].0, &sequences[i].0) };
    let distinct = (0..sequences.len()).map(|i| sequences[i].0.len() - begins(i)).sum();
    let room = |start: usize| room(&sequences[start..], most);
    let runs = runs(sequences.len(), room, begins);
    let mut passes: Vec<Pass> = runs.into_iter().map(|run| Pass::new(rows, &sequences[run], cut)).collect();
    if !certain.is_empty() {
        passes.push(Pass { rows: certain, ..Pass::new(rows, &[], cut) });
    }
    Passes { passes, distinct }
}

/// How many of `sequences`, in order, a pass has room for: one at least.
fn room(sequences: &[(Vec<u32>, Vec<usize>)], most: PassLimits) -> usize {
    let tokens = most.tokens.unwrap_or(usize::MAX);
    let mut taken = 0;
    let fits = |i: &usize| {
        taken += sequences[*i].0.len() - if *i == 0 { 0 } else { shared(&sequences[i - 1].0, &sequences[*i].0) };
        taken <= tokens
    };
    (0..sequences.len().min(most.sequences)).take_while(fits).count().max(1)
}

impl Pass {
    /// The pass over `sequences`, ascending, each with the rows that read it.
    fn new(rows: &[TrainingRow], sequences: &[(Vec<u32>, Vec<usize>)], cut: Cut) -> Pass {
        let mut trie = Trie::default();
        let (mut members, mut nodes) = (Vec::new(), Vec::new());
        for (sequence, readers) in sequences {
            let path = trie.add(sequence);
            for &row in readers {
                members.push(row);
                nodes.extend(rows[row].places().map(|place| path[place]));
            }
        }
        let mut output_nodes = nodes.clone();
        output_nodes.sort_unstable();
        output_nodes.dedup();
        let from = nodes.iter().map(|node| output_nodes.partition_point(|output_node| output_node < node) as i64).collect();
        Pass { trie, output_nodes, rows: members, from, cut }
    }

    /// Places that it goes over.
    pub fn computed(&self) -> usize {
        self.trie.len().next_multiple_of(PAD_TO)
    }

    /// Tokens of its longest sequence.
    pub fn longest(&self) -> usize {
        (0..self.trie.len()).map(|node| self.trie.place(node) + 1).max().unwrap_or(0)
    }

    /// Bytes that its way back needs at least: of each token what its blocks made of it.
    pub fn needs(&self, net: &Net) -> u64 {
        let DecoderConfig { layers, width, heads, kv_heads, head, hidden, .. } = net.architecture().sized();
        let within = 6 * width + 2 * (heads + 2 * kv_heads) * head + 4 * hidden;
        // Row by row two states a block are kept, and one block at a time is gone through.
        let numbers = if net.running().is_some() { 2 * layers * width + 2 * within } else { layers * within };
        // Logits of all that was chosen, what their softmax makes of them, and its way back; row by row they are there a few at a time.
        let logits = if net.running().is_some() { 0 } else { 3 * self.output_nodes.len() * net.sizes.vocab };
        net.bytes_of_number() as u64 * self.computed() as u64 * numbers as u64 + 4 * logits as u64
    }

    /// Whether anything was chosen in it.
    pub fn learns(&self) -> bool {
        !self.output_nodes.is_empty()
    }

    /// What the model's head makes of the states that the choices are made from: `[choices, vocabulary]`, or with a value head `[choices, 1]`.
    fn outputs(&self, net: &Net) -> Tensor {
        let known = vec![false; self.trie.len()];
        let (states, _) = net.read(&TrieTensors::new(&self.trie, &known, &self.output_nodes, self.cut, net.device()), &[]);
        net.outputs(&states).index_select(0, &indices(&self.from, net.device()))
    }

    /// The values of the rows, in order, by a net with a value head.
    pub fn values(&self, net: &Net) -> Tensor {
        match net.running() {
            Some(running) => self.traced_values(running, false).outputs.logprobs,
            None => self.outputs(net).squeeze_dim(1),
        }
    }

    /// What the net makes of each response token of the rows: at `temperature`, or each row at its own.
    pub fn logprobs(&self, net: &Net, rows: &[TrainingRow], temperature: Option<f32>) -> TokenOutputs {
        self.outputs_of(net, rows, temperature, false)
    }

    /// As [`Pass::logprobs`]; with `bends` gradients can be taken of the entropies as well.
    pub fn outputs_of(&self, net: &Net, rows: &[TrainingRow], temperature: Option<f32>, bends: bool) -> TokenOutputs {
        if let Some(running) = net.running() {
            return self.traced(running, rows, temperature, Traced::Only).outputs;
        }
        let device = net.device();
        let tokens: usize = self.rows.iter().map(|&row| rows[row].len()).sum();
        let none = Tensor::zeros([tokens as i64], (Kind::Float, device));
        if !self.learns() {
            let bend = bends.then(|| (none.copy(), none.copy()));
            return TokenOutputs { logprobs: none.copy(), entropy: none.copy(), slope: none, bend };
        }
        let tensor = |values: &[i64]| indices(values, device);
        let (mut to, mut target, mut token) = (Vec::new(), Vec::new(), 0);
        let mut temperatures: Vec<f32> = Vec::new();
        let vocab = net.sizes.vocab;
        let mut mask: Vec<f32> = Vec::new();
        let restricted = self.rows.iter().any(|&row| rows[row].choices.iter().any(|choice| choice.allowed.is_some()));
        for &row in &self.rows {
            for choice in &rows[row].choices {
                to.push((token + choice.index) as i64);
                target.push(rows[row].example.response[choice.index] as i64);
                temperatures.push(temperature.or(rows[row].example.temperature).unwrap_or(1.0));
                if restricted {
                    let start = mask.len();
                    mask.resize(start + vocab, if choice.allowed.is_some() { NEVER as f32 } else { 0.0 });
                    choice.allowed.iter().flatten().for_each(|&token| mask[start + token as usize] = 0.0);
                }
            }
            token += rows[row].len();
        }
        let mask = restricted.then(|| Tensor::from_slice(&mask).view([-1, vocab as i64]).to_device(device));
        let TokenOutputs { logprobs, entropy, slope, bend } = chosen(self.outputs(net), &tensor(&target), &temperatures, mask, bends);
        let to = tensor(&to);
        let spread = |values: &Tensor| none.index_copy(0, &to, values);
        let bend = bend.map(|(cross, square)| (spread(&cross), spread(&square)));
        TokenOutputs { logprobs: spread(&logprobs), entropy: spread(&entropy), slope: spread(&slope), bend }
    }
}

/// What is to be had of a pass that is computed row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    /// Figures alone.
    Only,
    /// Gradients by the log-probabilities.
    Learning,
    /// And by the entropies.
    WithEntropy,
}

/// What a pass computed row by row: one value a response token, and the way back.
pub struct TracedPass {
    /// Of which gradients can be taken.
    pub outputs: TokenOutputs,
    tape: Option<Tape>,
    tokens: TracedTokens,
}

/// What the tokens' values were made of.
enum TracedTokens {
    /// Choices, and which token each of them is.
    Choices(Vec<engine::tape::StateChoice>, Vec<usize>),
    /// Of each token which of the states that were asked for.
    States(Vec<usize>),
}

impl Pass {
    /// As [`Pass::logprobs`], for a model that computes row by row.
    pub fn traced(&self, running: &AdaptedEngine, rows: &[TrainingRow], temperature: Option<f32>, what: Traced) -> TracedPass {
        let (learns, bends) = (what != Traced::Only, what == Traced::WithEntropy);
        let tokens: usize = self.rows.iter().map(|&row| rows[row].len()).sum();
        let (mut choices, mut to, mut before) = (Vec::new(), Vec::new(), 0);
        for &row in &self.rows {
            for choice in &rows[row].choices {
                let example = rows[row].example;
                to.push(before + choice.index);
                choices.push(engine::tape::StateChoice {
                    state: self.from[choices.len()] as usize,
                    token: example.response[choice.index],
                    temperature: temperature.or(example.temperature).unwrap_or(1.0),
                    allowed: choice.allowed.clone(),
                });
            }
            before += rows[row].len();
        }
        let (mut logprobs, mut entropy, mut slope) = (vec![0f32; tokens], vec![0f32; tokens], vec![0f32; tokens]);
        let (mut cross, mut square) = (vec![0f32; tokens], vec![0f32; tokens]);
        let tape = self.learns().then(|| Tape::new(running, &self.trie, &self.output_nodes, learns));
        if let Some(tape) = &tape {
            let figures = tape.figures(&choices, bends);
            for (i, &to) in to.iter().enumerate() {
                (logprobs[to], entropy[to], slope[to]) = (figures.logprobs[i], figures.entropies[i], figures.slopes[i]);
                (cross[to], square[to]) = figures.bends[i];
            }
        }
        let outputs = TokenOutputs {
            logprobs: Tensor::from_slice(&logprobs).set_requires_grad(learns),
            entropy: Tensor::from_slice(&entropy).set_requires_grad(bends),
            slope: Tensor::from_slice(&slope),
            bend: bends.then(|| (Tensor::from_slice(&cross), Tensor::from_slice(&square))),
        };
        TracedPass { outputs, tape, tokens: TracedTokens::Choices(choices, to) }
    }

    /// As [`Pass::values`], for a critic that computes row by row; with `learns` the gradient can be asked for.
    pub fn traced_values(&self, running: &AdaptedEngine, learns: bool) -> TracedPass {
        let tape = Tape::new(running, &self.trie, &self.output_nodes, learns);
        let (values, states): (_, Vec<usize>) = (tape.values(), self.from.iter().map(|&state| state as usize).collect());
        let outputs: Vec<f32> = states.iter().map(|&state| values[state]).collect();
        let outputs = TokenOutputs::of_values(Tensor::from_slice(&outputs).set_requires_grad(learns));
        TracedPass { outputs, tape: Some(tape), tokens: TracedTokens::States(states) }
    }
}

impl TracedPass {
    /// The gradient of `loss`, made of the outputs, by the adapters' weights, `[weights]`, and by each output: log-probabilities or values, and entropies where the
    /// loss has them in it.
    pub fn gradient(&self, loss: &Tensor) -> Option<(Tensor, Vec<Tensor>)> {
        let tape = self.tape.as_ref()?;
        let by_outputs = Tensor::run_backward(&[loss], &self.outputs.differentiable(), false, false);
        let by = values(&by_outputs[0]);
        let by_entropy = by_outputs.get(1).map_or_else(|| vec![0.0; by.len()], values);
        let gradient = match &self.tokens {
            TracedTokens::Choices(choices, to) => tape.back(choices, &to.iter().map(|&to| (by[to], by_entropy[to])).collect::<Vec<_>>()),
            TracedTokens::States(states) => {
                // Tokens of several rows may have one state.
                let mut sums = vec![0.0; states.iter().max().map_or(0, |most| most + 1)];
                states.iter().zip(&by).for_each(|(&state, by)| sums[state] += by);
                tape.values_back(&sums)
            }
        };
        Some((Tensor::from_slice(&gradient), by_outputs))
    }
}

/// What `read` finds in each pass over `rows` (`size` sequences a pass, one value a token): one list a row, one value a token.
pub fn read_rows(
    net: &Net,
    rows: &[TrainingRow],
    size: usize,
    parallel: &Parallel,
    read: impl Fn(&Pass, &Net) -> Tensor + Sync,
) -> Result<Vec<Vec<f32>>, PolicyError> {
    let Passes { passes, .. } =
        passes(rows, &(0..rows.len()).collect::<Vec<_>>(), PassLimits { sequences: size, tokens: None }, Cut::Alone);
    let outputs = parallel.spread(|| net.share(false), passes.len(), |net, pass| Ok(values(&tch::no_grad(|| read(&passes[pass], net)))))?;
    let mut out = vec![Vec::new(); rows.len()];
    for (pass, values) in passes.iter().zip(&outputs) {
        let mut rest = values.as_slice();
        for &row in &pass.rows {
            let (own, others) = rest.split_at(rows[row].len());
            out[row] = own.to_vec();
            rest = others;
        }
    }
    Ok(out)
}

/// The log-probability of each response token of `rows`, at `temperature` or each row at its own: at equal weights and temperatures the same
/// as recorded by generation up to rounding.
pub fn logprobs(
    net: &Net,
    rows: &[TrainingRow],
    temperature: Option<f32>,
    size: usize,
    parallel: &Parallel,
) -> Result<Vec<Vec<f32>>, PolicyError> {
    read_rows(net, rows, size, parallel, |pass, net| pass.logprobs(net, rows, temperature).logprobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_holds_so_many_sequences_and_different_tokens() {
        // 3 tokens, 1 more, 2 more, 4 more.
        let sequences = [vec![1, 2, 3], vec![1, 2, 4], vec![1, 5, 6], vec![7, 8, 9, 9]].map(|tokens| (tokens, vec![]));
        let fitting = |most, tokens| room(&sequences, PassLimits { sequences: most, tokens });
        assert_eq!(
            [fitting(9, None), fitting(2, None), fitting(9, Some(4)), fitting(9, Some(5)), fitting(9, Some(6)), fitting(9, Some(10))],
            [4, 2, 2, 2, 3, 4]
        );
        assert_eq!((fitting(9, Some(1)), fitting(1, Some(100))), (1, 1), "one at least");
    }
}
