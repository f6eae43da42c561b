//! Passes computed here: by libtorch, or row by row by the engine.

use crate::model::reading::TrieTensors;
use crate::model::Net;
use crate::tensors::{indices, values};
use crate::update::chosen::chosen;
use crate::update::listed::Listed;
use crate::update::outputs::TokenOutputs;
use crate::update::outputs::Wanted;
use crate::update::passes::{Pass, Target, TrainingRow};
use crate::update::tracer::{Gradients, Trace, Tracer};
use flow_int8::engine::listed::{Listing, StateChoice};
use flow_int8::engine::tape::{FigureGradients, Tape};
use flow_int8::engine::AdaptedEngine;
use flow_model::Result;
use flow_model::NEVER;
use tch::{Device, Kind, Tensor};

impl Tracer for Net {
    fn trace(&self, pass: &Pass, rows: &[TrainingRow], temperature: Option<f32>, wanted: Wanted) -> Result<Box<dyn Trace + '_>> {
        Ok(match self.engine() {
            Some(running) if running.values() => Box::new(EnginePass::values(pass, running, wanted)),
            Some(running) => Box::new(EnginePass::choices(pass, running, rows, temperature, wanted)),
            None => {
                let read = || match self.sizes.value {
                    true => TokenOutputs::of_values(outputs(self, pass).squeeze_dim(1)),
                    false => choices(self, pass, rows, temperature, wanted),
                };
                let outputs = if wanted.learns() { read() } else { tch::no_grad(read) };
                Box::new(TorchPass { net: self, outputs })
            }
        })
    }

    fn device(&self) -> Device {
        (**self).device()
    }
}

/// What the model's head makes of the states that the choices are made from: `[choices, vocabulary]`, or with a value
/// head `[choices, 1]`.
fn outputs(net: &Net, pass: &Pass) -> Tensor {
    let known = vec![false; pass.trie.len()];
    let (states, _) = net.read(&TrieTensors::new(&pass.trie, &known, &pass.output_nodes, pass.cut, net.device()), &[]);
    net.outputs(&states).index_select(0, &indices(&pass.from, net.device()))
}

/// What a policy makes of the tokens.
fn choices(net: &Net, pass: &Pass, rows: &[TrainingRow], temperature: Option<f32>, wanted: Wanted) -> TokenOutputs {
    let device = net.device();
    let none = Tensor::zeros([pass.tokens(rows) as i64], (Kind::Float, device));
    if !pass.learns() {
        let bend = wanted.bends().then(|| (none.copy(), none.copy()));
        return TokenOutputs { logprobs: none.copy(), entropy: none.copy(), slope: none, bend, listed: None };
    }
    let targets = pass.targets(rows, temperature);
    let tensor = |value: fn(&Target) -> i64| indices(&targets.iter().map(value).collect::<Vec<i64>>(), device);
    let vocab = net.sizes.vocab;
    let mask = targets.iter().any(|target| target.allowed.is_some()).then(|| {
        let mut mask: Vec<f32> = Vec::new();
        for target in &targets {
            let start = mask.len();
            mask.resize(start + vocab, if target.allowed.is_some() { NEVER as f32 } else { 0.0 });
            target.allowed.iter().copied().flatten().for_each(|&token| mask[start + token as usize] = 0.0);
        }
        Tensor::from_slice(&mask).view([-1, vocab as i64]).to_device(device)
    });
    let temperatures: Vec<f32> = targets.iter().map(|target| target.temperature).collect();
    let token = tensor(|target| target.token.into());
    let TokenOutputs { logprobs, entropy, slope, bend, listed } = chosen(outputs(net, pass), &token, &temperatures, mask, wanted);
    let to = tensor(|target| target.to as i64);
    let spread = |values: &Tensor| none.index_copy(0, &to, values);
    let bend = bend.map(|(cross, square)| (spread(&cross), spread(&square)));
    let listed = listed.map(|listed| Listed { to: to.shallow_clone(), ..listed });
    TokenOutputs { logprobs: spread(&logprobs), entropy: spread(&entropy), slope: spread(&slope), bend, listed }
}

/// A pass that libtorch computed: its graph is that of the outputs.
struct TorchPass<'a> {
    net: &'a Net,
    outputs: TokenOutputs,
}

impl Trace for TorchPass<'_> {
    fn outputs(&self) -> &TokenOutputs {
        &self.outputs
    }

    fn back(&self, loss: &Tensor) -> Result<Gradients> {
        let leaves = self.net.leaves();
        let by: Vec<&Tensor> = leaves.iter().chain(self.outputs.differentiable()).collect();
        let mut gradients = Tensor::run_backward(&[loss], &by, false, false);
        let outputs = gradients.split_off(leaves.len());
        let weights = Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0);
        Ok(Gradients { weights: Some(weights), outputs })
    }
}

/// A pass that was computed row by row, and the way back.
struct EnginePass {
    outputs: TokenOutputs,
    /// None where nothing was chosen.
    tape: Option<Tape>,
    tokens: EngineTokens,
}

/// What the tokens' values were made of.
enum EngineTokens {
    /// Choices, and which token each of them is.
    Choices(Vec<StateChoice>, Vec<usize>),
    /// Of each token which of the states that were asked for.
    States(Vec<usize>),
}

impl EnginePass {
    /// Of a policy.
    fn choices(pass: &Pass, running: &AdaptedEngine, rows: &[TrainingRow], temperature: Option<f32>, wanted: Wanted) -> EnginePass {
        let (learns, bends) = (wanted.learns(), wanted.bends());
        let tokens = pass.tokens(rows);
        let targets = pass.targets(rows, temperature);
        let to: Vec<usize> = targets.iter().map(|target| target.to).collect();
        let choice = |(target, &state): (&Target, &i64)| StateChoice {
            state: state as usize,
            token: target.token,
            temperature: target.temperature,
            allowed: target.allowed.map(<[u32]>::to_vec),
        };
        let choices: Vec<StateChoice> = targets.iter().zip(&pass.from).map(choice).collect();
        let (mut logprobs, mut entropy, mut slope) = (vec![0f32; tokens], vec![0f32; tokens], vec![0f32; tokens]);
        let (mut cross, mut square) = (vec![0f32; tokens], vec![0f32; tokens]);
        let tape = pass.learns().then(|| Tape::new(running, &pass.trie, &pass.output_nodes, learns));
        let asked = if let Wanted::Listed(Some(tokens)) = wanted { Some(numbers(tokens)) } else { None };
        let listing = match wanted {
            Wanted::Likeliest(count) => Some(Listing::Likeliest(count)),
            Wanted::Listed(_) => Some(Listing::Tokens(asked.as_deref())),
            _ => None,
        };
        let mut listed = None;
        if let Some(tape) = &tape {
            let figures = tape.figures(&choices, bends, listing);
            for (i, &to) in to.iter().enumerate() {
                (logprobs[to], entropy[to], slope[to]) = (figures.logprobs[i], figures.entropies[i], figures.slopes[i]);
                (cross[to], square[to]) = figures.bends[i];
            }
            listed = figures.listed.map(|figures| {
                let size = [choices.len() as i64, -1];
                let temperatures: Vec<f32> = choices.iter().map(|choice| choice.temperature).collect();
                let places: Vec<i64> = to.iter().map(|&to| to as i64).collect();
                Listed {
                    tokens: figures.tokens.map(|tokens| Tensor::from_slice(&tokens).view(size)),
                    logprobs: Tensor::from_slice(&figures.logprobs).view(size).set_requires_grad(learns),
                    others: Tensor::from_slice(&figures.others),
                    temperatures: Tensor::from_slice(&temperatures),
                    to: Tensor::from_slice(&places),
                }
            });
        }
        let bend = bends.then_some((cross, square));
        let outputs = TokenOutputs { listed, ..TokenOutputs::from_figures(&logprobs, &entropy, &slope, bend, learns) };
        EnginePass { outputs, tape, tokens: EngineTokens::Choices(choices, to) }
    }

    /// Of a critic.
    fn values(pass: &Pass, running: &AdaptedEngine, wanted: Wanted) -> EnginePass {
        let learns = wanted.learns();
        let tape = Tape::new(running, &pass.trie, &pass.output_nodes, learns);
        let (values, states): (_, Vec<usize>) = (tape.values(), pass.from.iter().map(|&state| state as usize).collect());
        let outputs: Vec<f32> = states.iter().map(|&state| values[state]).collect();
        let outputs = TokenOutputs::of_values(Tensor::from_slice(&outputs).set_requires_grad(learns));
        EnginePass { outputs, tape: Some(tape), tokens: EngineTokens::States(states) }
    }
}

impl Trace for EnginePass {
    fn outputs(&self) -> &TokenOutputs {
        &self.outputs
    }

    fn back(&self, loss: &Tensor) -> Result<Gradients> {
        let outputs = self.outputs.gradients(loss);
        let Some(tape) = &self.tape else { return Ok(Gradients { weights: None, outputs }) };
        let by = values(&outputs[0]);
        let gradient = match (&self.tokens, &self.outputs.listed) {
            (EngineTokens::Choices(choices, _), Some(listed)) => {
                let tokens = listed.tokens.as_ref().map(numbers);
                tape.back(choices, &FigureGradients::Listed { tokens: tokens.as_deref(), by: &by })
            }
            (EngineTokens::Choices(choices, to), None) => {
                let by_entropy = outputs.get(1).map_or_else(|| vec![0.0; by.len()], values);
                tape.back(choices, &FigureGradients::Chosen(&to.iter().map(|&to| (by[to], by_entropy[to])).collect::<Vec<_>>()))
            }
            (EngineTokens::States(states), _) => {
                // Tokens of several rows may have one state.
                let mut sums = vec![0.0; states.iter().max().map_or(0, |most| most + 1)];
                states.iter().zip(&by).for_each(|(&state, by)| sums[state] += by);
                tape.values_back(&sums)
            }
        };
        Ok(Gradients { weights: Some(Tensor::from_slice(&gradient)), outputs })
    }
}

/// The tokens of a list, in its order.
fn numbers(tokens: &Tensor) -> Vec<i64> {
    let mut numbers = vec![0; tokens.numel()];
    let count = numbers.len();
    tokens.to_device(Device::Cpu).contiguous().view([-1]).copy_data(&mut numbers, count);
    numbers
}
