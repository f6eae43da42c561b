//! Training: a forward pass over a trie of tokens, which stores little, and the backward pass to the adapters, which
//! recomputes each block (activation checkpointing).
//!
//! Two states per token and block are stored, and what attention gave where an adapter learns from it. Logits exist for
//! a few tokens at a time, forward and backward.

use super::block::{BlockActivations, PlacedToken, ResidualStreams, FED};
use super::branches::TrieAttention;
use super::head::{add_entropy_slopes, add_probabilities, each_output, entropy, entropy_bend, logprob, mass, slope, squares, values};
use super::listed::{ListedFigures, Listing, Pulls, StateChoice, TokenLists};
use super::norm::{back as norm_back, head_back};
use super::rope::turn;
use super::{AdaptedEngine, BlockWeights, Engine, MatrixFormat, ValueHead};
use crate::products::dense::StridedRows;
use crate::products::rounded::Rounded;
use crate::products::vectors::exp;
use crate::trie::Trie;

/// States whose logits exist at a time.
const CHUNK: usize = 64;

/// A forward pass with its values for the backward pass.
pub struct Tape {
    running: AdaptedEngine,
    tokens: Vec<PlacedToken>,
    before: Vec<Option<usize>>,
    output_nodes: Vec<usize>,
    streams: ResidualStreams,
    /// The stream after the last block, of the output nodes.
    last: Vec<f32>,
    /// The final states of the output nodes, `[outputs, width]`, after the last norm.
    pub states: Vec<f32>,
}

/// Room for intermediate values of a block's backward pass, used again by the next.
#[derive(Default)]
struct BackwardScratch {
    between: BlockActivations,
    back: Vec<f32>,
    dqkv: Vec<f32>,
}

/// The gradients of a loss by the figures of choices.
pub enum FigureGradients<'a> {
    /// By the log-probability and by the entropy of each.
    Chosen(&'a [(f32, f32)]),
    /// By the log-probabilities of listed tokens, `[choices, listed]`.
    Listed { tokens: Option<&'a [i64]>, by: &'a [f32] },
}

/// Of each choice.
pub struct ChoiceFigures {
    /// Its log-probability, in nats.
    pub logprobs: Vec<f32>,
    /// The entropy of the distribution it was drawn from, in nats.
    pub entropies: Vec<f32>,
    /// The norm of the gradient of its log-probability by the logits.
    pub slopes: Vec<f32>,
    /// See [`super::head::entropy_bend`]; zeros unless they were asked for.
    pub bends: Vec<(f32, f32)>,
    /// Those of listed tokens, where some are.
    pub listed: Option<ListedFigures>,
}

impl Tape {
    /// Computes the tokens of `trie` and keeps the final states of `output_nodes`, ascending. With `learns` it can be
    /// differentiated.
    pub fn new(running: &AdaptedEngine, trie: &Trie, output_nodes: &[usize], learns: bool) -> Tape {
        let engine = &running.engine;
        let tokens: Vec<PlacedToken> = (0..trie.len()).map(|node| PlacedToken { id: trie.token(node), place: trie.place(node) }).collect();
        let before = (0..trie.len()).map(|node| trie.back(node).nth(1)).collect();
        let mut streams = ResidualStreams::default();
        let x = {
            let streams = learns.then_some(&mut streams);
            match engine.format {
                MatrixFormat::Int8 => {
                    engine.forward(&running.adapters, &tokens, &mut TrieAttention::<u16>::new(engine.isa, engine.heads(), &tokens), streams)
                }
                MatrixFormat::F32 => {
                    engine.forward(&running.adapters, &tokens, &mut TrieAttention::<f32>::new(engine.isa, engine.heads(), &tokens), streams)
                }
            }
        };
        let width = engine.config().width;
        let last: Vec<f32> = output_nodes.iter().flat_map(|&node| x[node * width..(node + 1) * width].iter().copied()).collect();
        let states = engine.last(&last);
        Tape { running: running.clone(), tokens, before, output_nodes: output_nodes.to_vec(), streams, last, states }
    }

    /// The log-probability and entropy of each of `choices`, with `bends` how the entropy's gradient lies, and the
    /// tokens of `listing`.
    pub fn figures(&self, choices: &[StateChoice], bends: bool, listing: Option<Listing>) -> ChoiceFigures {
        let none = || vec![0.0; choices.len()];
        let bends_of = vec![(0.0, 0.0); choices.len()];
        let mut figures = ChoiceFigures { logprobs: none(), entropies: none(), slopes: none(), bends: bends_of, listed: None };
        let mut list = listing.map(|listing| TokenLists::new(listing, choices.len(), self.running.engine.config.tokens));
        let choices_of = by_state(choices, self.output_nodes.len());
        let isa = self.running.engine.isa;
        each_output(&self.running, &self.states, |state, logits| {
            for &i in &choices_of[state] {
                let StateChoice { token, temperature, allowed, .. } = &choices[i];
                let restricted = allowed.as_ref().map(|allowed| picked(logits, allowed));
                let over = restricted.as_deref().unwrap_or(logits);
                let mass = mass(isa, over, *temperature);
                figures.logprobs[i] = logprob(logits[*token as usize], *temperature, mass);
                figures.entropies[i] = entropy(isa, over, *temperature, mass);
                let place = allowed.as_ref().map_or(Some(*token as usize), |allowed| allowed.iter().position(|t| t == token));
                figures.slopes[i] = place.map_or(0.0, |place| slope(isa, over, place, *temperature, mass));
                if let Some(place) = place.filter(|_| bends) {
                    figures.bends[i] = entropy_bend(isa, over, place, *temperature, mass);
                }
                if let Some(list) = &mut list {
                    list.fill(i, logits, &choices[i], mass, squares(isa, over, *temperature, mass));
                }
            }
        });
        figures.listed = list.map(TokenLists::figures);
        figures
    }

    /// What a critic expects at each of the states that were asked for.
    pub fn values(&self) -> Vec<f32> {
        let AdaptedEngine { engine, adapters } = &self.running;
        adapters.head.as_ref().map_or_else(Vec::new, |head| values(engine.isa, &self.states, &head.weights))
    }

    /// The gradient by the adapters' weights of a loss whose gradients by the figures of `choices` are `by`.
    pub fn back(&self, choices: &[StateChoice], by: &FigureGradients) -> Vec<f32> {
        let gradient = vec![0.0; self.running.adapters.len];
        self.blocks_back(&self.states_back(choices, by), gradient)
    }

    /// The same of a loss whose gradient by the value at each of the states that were asked for is `by`.
    pub fn values_back(&self, by: &[f32]) -> Vec<f32> {
        let mut gradient = vec![0.0; self.running.adapters.len];
        let mut dstates = vec![0.0; self.states.len()];
        if let Some(ValueHead { weights, at }) = &self.running.adapters.head {
            let width = weights.len();
            for ((by, state), dstate) in by.iter().zip(self.states.chunks_exact(width)).zip(dstates.chunks_exact_mut(width)) {
                dstate.iter_mut().zip(weights).for_each(|(to, weight)| *to = by * weight);
                if let Some(at) = at {
                    gradient[*at..at + width].iter_mut().zip(state).for_each(|(to, state)| *to += by * state);
                }
            }
        }
        self.blocks_back(&dstates, gradient)
    }

    /// `gradient` with the adapters' part from `dstates`, of the final states that were asked for, added.
    fn blocks_back(&self, dstates: &[f32], mut gradient: Vec<f32>) -> Vec<f32> {
        let engine = &self.running.engine;
        let width = engine.config.width;
        let mut dlast = vec![0.0; self.last.len()];
        norm_back(engine.isa, &self.last, &engine.norm, engine.eps(), dstates, width, &mut dlast);
        let mut dx = vec![0.0; self.tokens.len() * width];
        for (&node, dlast) in self.output_nodes.iter().zip(dlast.chunks_exact(width)) {
            dx[node * width..(node + 1) * width].copy_from_slice(dlast);
        }
        let mut scratch = BackwardScratch::default();
        for number in (0..engine.blocks.len()).rev() {
            self.block_back(number, &mut dx, &mut gradient, &mut scratch);
        }
        gradient
    }

    /// What goes back to the final states: W' (onehot - p) / temperature, times the first of `by`, and W' times the
    /// slopes of the entropy, times the second. The chosen token's part is exact. What the probabilities add is a
    /// product of its own with rows of 15 bits, so that no large number of a row decides how its many small ones are
    /// rounded.
    ///
    /// Of listed tokens it is W' (by_j - p_j sum by) / temperature: exact for listed tokens, where the list isn't the
    /// whole vocabulary.
    fn states_back(&self, choices: &[StateChoice], by: &FigureGradients) -> Vec<f32> {
        let engine = &self.running.engine;
        let (isa, width) = (engine.isa, engine.config.width);
        let output = engine.output();
        let mut dstates = vec![0.0; self.states.len()];
        let choices_of = by_state(choices, self.output_nodes.len());
        let vocab = engine.config.tokens;
        let turned = engine.turned_output.get_or_init(|| output.turned(vocab));
        let (mut rounded, mut product, mut part) = (Rounded::default(), Vec::new(), Vec::new());
        let mut weights = vec![0.0; width];
        // Probabilities of a few states at a time, which are multiplied together.
        let states = self.output_nodes.len();
        let mut spread = vec![0.0; CHUNK.min(states) * vocab];
        let mut any = false;
        each_output(&self.running, &self.states, |state, logits| {
            let slot = state % CHUNK;
            let dstate = &mut dstates[state * width..(state + 1) * width];
            let mut row = |token: u32, share: f32| {
                output.row(token as usize, &mut weights);
                dstate.iter_mut().zip(&weights).for_each(|(to, weight)| *to += share * weight);
            };
            for &i in &choices_of[state] {
                let StateChoice { token, temperature, allowed, .. } = &choices[i];
                let (by, by_entropy) = match by {
                    FigureGradients::Chosen(by) if by[i] == (0.0, 0.0) => continue,
                    FigureGradients::Chosen(by) => by[i],
                    FigureGradients::Listed { tokens, by } => {
                        let size = by.len() / choices.len();
                        let (by, tokens) = (&by[i * size..(i + 1) * size], tokens.map(|tokens| &tokens[i * size..(i + 1) * size]));
                        let pulls = Pulls::new(tokens, by, *temperature);
                        if pulls.whole == 0.0 && pulls.each.iter().all(|(_, by)| *by == 0.0) {
                            continue;
                        }
                        match allowed {
                            Some(allowed) => pulls.restricted(isa, logits, allowed, &mut row),
                            None => {
                                any = true;
                                pulls.free(isa, logits, tokens.is_some(), &mut spread[slot * vocab..(slot + 1) * vocab], &mut row);
                            }
                        }
                        continue;
                    }
                };
                let share = by / temperature;
                row(*token, share);
                match allowed {
                    Some(allowed) => {
                        let restricted = picked(logits, allowed);
                        let mass = mass(isa, &restricted, *temperature);
                        let mut slopes = vec![0.0; allowed.len()];
                        if by_entropy != 0.0 {
                            let entropy = entropy(isa, &restricted, *temperature, mass);
                            add_entropy_slopes(isa, &restricted, *temperature, mass, entropy, by_entropy, &mut slopes);
                        }
                        allowed
                            .iter()
                            .zip(restricted)
                            .zip(slopes)
                            .for_each(|((&token, x), slope)| row(token, slope - share * logprob(x, *temperature, mass).exp()));
                    }
                    None => {
                        any = true;
                        let mass = mass(isa, logits, *temperature);
                        let spread = &mut spread[slot * vocab..(slot + 1) * vocab];
                        add_probabilities(isa, logits, *temperature, mass, -share, spread);
                        if by_entropy != 0.0 {
                            let entropy = entropy(isa, logits, *temperature, mass);
                            add_entropy_slopes(isa, logits, *temperature, mass, entropy, by_entropy, spread);
                        }
                    }
                }
            }
            if any && (slot + 1 == CHUNK || state + 1 == states) {
                let spread = &mut spread[..(slot + 1) * vocab];
                turned.finely(isa, spread, vocab, &mut rounded, &mut product, &mut part);
                let to = dstates[(state - slot) * width..].chunks_exact_mut(width);
                to.zip(product.chunks(turned.stride())).take(slot + 1).for_each(|(to, product)| {
                    to.iter_mut().zip(product).for_each(|(to, product)| *to += product);
                });
                spread.fill(0.0);
                any = false;
            }
        });
        dstates
    }

    /// The backward pass of one block: `dx` `[tokens, width]`, the gradient of its outputs, becomes that of its inputs.
    fn block_back(&self, number: usize, dx: &mut [f32], gradient: &mut [f32], scratch: &mut BackwardScratch) {
        let AdaptedEngine { engine, adapters } = &self.running;
        let (block, adapted): (&BlockWeights, _) = (&engine.blocks[number], &adapters.blocks[number]);
        let Engine { isa, config, .. } = &**engine;
        let (isa, width, hidden, count) = (*isa, config.width, config.hidden, self.tokens.len());
        let (before, middle) = (&self.streams.before[number], &self.streams.middle[number]);
        let BackwardScratch { between, back, dqkv } = scratch;

        for (dx, middle) in dx.chunks_mut(FED * width).zip(middle.chunks(FED * width)) {
            let count = dx.len() / width;
            engine.feed(block, adapted, middle, between);
            let acted = StridedRows { numbers: &between.acted, stride: hidden, count };
            let dy = StridedRows { numbers: dx, stride: width, count };
            block.down.back(isa, &adapted[3], acted, dy, &mut between.rounded, back, gradient);
            gated_back(isa, &mut between.gate_up, block.gate_up.stride(), hidden, back, block.down.back_stride());
            let dgate_up = StridedRows { numbers: &between.gate_up, stride: block.gate_up.stride(), count };
            let normed = StridedRows { numbers: &between.normed, stride: width, count };
            block.gate_up.back(isa, &adapted[2], normed, dgate_up, &mut between.rounded, back, gradient);
            norm_back(isa, middle, &block.norm2, engine.eps(), back, block.gate_up.back_stride(), dx);
        }

        engine.project_plain(block, &adapted[0], count, before, between);
        let plain = block.head_norms.as_ref().map(|_| between.qkv.clone());
        engine.placed(block, &self.tokens, &mut between.qkv);
        let stride = block.qkv.stride();
        let queries = config.heads * config.head;
        let qkv = StridedRows { numbers: &between.qkv, stride, count };
        block.out.back(
            isa,
            &adapted[1],
            StridedRows { numbers: &self.streams.attended[number], stride: queries, count },
            StridedRows { numbers: dx, stride: width, count },
            &mut between.rounded,
            back,
            gradient,
        );
        dqkv.clear();
        dqkv.resize(between.qkv.len(), 0.0);
        let dout = StridedRows { numbers: back, stride: block.out.back_stride(), count };
        match engine.format {
            MatrixFormat::Int8 => TrieAttention::<u16>::new(isa, engine.heads(), &self.tokens).back(qkv, &self.before, dout, dqkv),
            MatrixFormat::F32 => TrieAttention::<f32>::new(isa, engine.heads(), &self.tokens).back(qkv, &self.before, dout, dqkv),
        }
        let keys = config.kv_heads * config.head;
        for (row, token) in self.tokens.iter().enumerate() {
            let own = &mut dqkv[row * stride..row * stride + queries + keys];
            turn(isa, own, engine.rope.at(token.place), true);
            if let (Some((q, k)), Some(plain)) = (&block.head_norms, &plain) {
                let plain = &plain[row * stride..row * stride + queries + keys];
                head_back(isa, &plain[..queries], q, engine.eps(), &mut own[..queries]);
                head_back(isa, &plain[queries..], k, engine.eps(), &mut own[queries..]);
            }
        }
        let normed = StridedRows { numbers: &between.normed, stride: width, count };
        block.qkv.back(isa, &adapted[0], normed, StridedRows { numbers: dqkv, stride, count }, &mut between.rounded, back, gradient);
        norm_back(isa, before, &block.norm1, engine.eps(), back, block.qkv.back_stride(), dx);
    }
}

/// Which choices are made from each state.
fn by_state(choices: &[StateChoice], states: usize) -> Vec<Vec<usize>> {
    let mut choices_of = vec![Vec::new(); states];
    choices.iter().enumerate().for_each(|(i, choice)| choices_of[choice.state].push(i));
    choices_of
}

/// The logits of those tokens.
fn picked(logits: &[f32], allowed: &[u32]) -> Vec<f32> {
    allowed.iter().map(|&token| logits[token as usize]).collect()
}

vectorised! {
    /// In place of rows of `gate_up` `[.., hidden | hidden]` their gradient from rows of `dacted`: with s = 1 / (1 +
    /// exp(-g)), silu(g) = g s, du = d silu(g), dg = d u s (1 + g (1 - s)).
    fn gated_back(gate_up: &mut [f32], stride: usize, hidden: usize, dacted: &[f32], dstride: usize) {
        for (both, dacted) in gate_up.chunks_mut(stride).zip(dacted.chunks(dstride)) {
            let (gate, up) = both.split_at_mut(hidden);
            for ((gate, up), d) in gate.iter_mut().zip(up).zip(&dacted[..hidden]) {
                let (g, u) = (*gate, *up);
                let s = 1.0 / (1.0 + exp(-g));
                *up = d * g * s;
                *gate = d * u * s * (1.0 + g * (1.0 - s));
            }
        }
    }
}
