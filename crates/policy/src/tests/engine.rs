//! The engine beside libtorch's network and its automatic gradients, and a row's bits in any company.

use crate::attention::AttentionLayout;
use crate::model::reading::TrieTensors;
use crate::model::Net;
use crate::tensors::{indices, values};
use flow_core::seed::Random;
use flow_int8::engine::listed::{Listing, StateChoice};
use flow_int8::engine::pages::{advance, PagePool, Sequence};
use flow_int8::engine::tape::{FigureGradients, Tape};
use flow_int8::engine::{AdaptedEngine, Engine, MatrixFormat};
use flow_int8::products::isa::Isa;
use flow_int8::trie::Trie;
use flow_model::lora::{Adapter, Lora};
use flow_model::{find, Architecture, NEVER};
use serde_json::json;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

const VOCAB: usize = 40;

/// A small model of each architecture.
fn architectures() -> Vec<Arc<dyn Architecture>> {
    let sizes = json!({
        "vocab_size": VOCAB, "num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
        "intermediate_size": 48, "max_position_embeddings": 100, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
        "hidden_act": "silu",
    });
    let own = |name: &str| {
        let mut json = sizes.clone();
        json["model_type"] = json!(name);
        if name == "qwen2" {
            json["tie_word_embeddings"] = json!(false);
            json["hidden_size"] = json!(48);
        }
        let read = find(name).unwrap();
        read(&json).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let tiny = json!({ "vocab": VOCAB, "layers": 3, "width": 32, "heads": 4, "kv_heads": 2, "hidden": 48, "context": 100, "tied": false });
    ["llama", "qwen2", "qwen3"].map(own).into_iter().chain([flow_model::tiny::read(&tiny).unwrap()]).collect()
}

/// A model with a trained adapter, in libtorch and in the engine.
fn both(architecture: &Arc<dyn Architecture>, format: MatrixFormat, isa: Isa) -> (Net, AdaptedEngine) {
    let layout = architecture.layout();
    let mut random = Random::new(3);
    let flat: Vec<f32> = layout.random(7).iter().map(|x| 2.0 * x + 0.05 * (random.unit() as f32 - 0.5)).collect();
    let lora = Lora { rank: 3, alpha: 6.0, dropout: 0.0, stabilised: false, targets: vec!["all-linear".into()] };
    let adapter = Arc::new(Adapter::new(lora, &layout, None).unwrap());
    let own: Vec<f32> = (0..adapter.layout().len()).map(|_| 0.3 * (random.unit() as f32 - 0.5)).collect();
    let net =
        Net::new(architecture.clone(), &Tensor::from_slice(&flat), Kind::Float, &[0]).adapted(&adapter, &Tensor::from_slice(&own)).unwrap();
    let leaf = |name: &str| {
        let leaf = &layout.leaves[layout.leaf_of(name)?];
        let count = leaf.size.iter().product::<i64>() as usize;
        Some((flat[leaf.at as usize..][..count].to_vec(), leaf.size.clone()))
    };
    let engine = Arc::new(Engine::new(&architecture.sized(), &leaf, format, isa));
    let adapters = Arc::new(engine.adapters(&layout, &adapter, &own));
    (net, AdaptedEngine { engine, adapters })
}

/// Sequences that begin alike and part.
fn sequences() -> Vec<Vec<u32>> {
    let mut random = Random::new(5);
    let mut more = |count: usize| (0..count).map(|_| random.below(VOCAB) as u32).collect::<Vec<_>>();
    let begin = more(37);
    let mut all: Vec<Vec<u32>> = (0..7).map(|i| [&begin[..5 * i], &more(3 + 7 * i)].concat()).collect();
    all.push(begin);
    all.sort();
    all
}

fn trie(sequences: &[Vec<u32>]) -> (Trie, Vec<usize>) {
    let mut trie = Trie::default();
    let mut ends: Vec<usize> = sequences.iter().map(|sequence| *trie.add(sequence).last().unwrap()).collect();
    ends.sort_unstable();
    (trie, ends)
}

/// Some choices after each end, among all tokens and among few.
fn choices(ends: usize) -> Vec<StateChoice> {
    let choice = |i: usize| StateChoice {
        state: (i / 2) % ends,
        token: [3, 7, 11][i % 3],
        temperature: [1.0, 0.7][i % 2],
        allowed: (i % 4 == 3).then(|| vec![3, 5, 7, 11]),
    };
    (0..2 * ends).map(choice).collect()
}

/// Log-probabilities by libtorch, and the gradient of their sum with weights.
fn torch(net: &Net, trie: &Trie, ends: &[usize], choices: &[StateChoice], by: &[(f32, f32)]) -> (Vec<f32>, Vec<f32>) {
    let net = net.share(true);
    let (states, _) = net.read(&TrieTensors::new(trie, &vec![false; trie.len()], ends, AttentionLayout::Packed, Device::Cpu), &[]);
    let logits = net.outputs(&states);
    let chance = |choice: &StateChoice| {
        let row = logits.get(choice.state as i64) / f64::from(choice.temperature);
        let over = choice.allowed.as_ref().map_or_else(
            || row.shallow_clone(),
            |allowed| row.index_select(0, &indices(&allowed.iter().map(|&token| token.into()).collect::<Vec<_>>(), Device::Cpu)),
        );
        let entropy = -(over.softmax(0, None) * over.log_softmax(0, None)).sum(None);
        (row.get(choice.token.into()) - over.logsumexp([0], false), entropy)
    };
    let (all, entropies): (Vec<_>, Vec<_>) = choices.iter().map(chance).unzip();
    let (all, entropies) = (Tensor::stack(&all, 0), Tensor::stack(&entropies, 0));
    let (by, by_entropy): (Vec<f32>, Vec<f32>) = by.iter().copied().unzip();
    let loss = (&all * Tensor::from_slice(&by) + entropies * Tensor::from_slice(&by_entropy)).sum(None);
    let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
    let flat = Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0);
    (values(&all.detach()), values(&flat))
}

/// Log-probabilities of listed tokens by libtorch, `[choices, listed]`, and the gradient of their sum with weights
/// `by`.
fn torch_listed(
    net: &Net,
    (trie, ends): (&Trie, &[usize]),
    choices: &[StateChoice],
    tokens: Option<&[i64]>,
    by: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let net = net.share(true);
    let (states, _) = net.read(&TrieTensors::new(trie, &vec![false; trie.len()], ends, AttentionLayout::Packed, Device::Cpu), &[]);
    let logits = net.outputs(&states);
    let size = by.len() / choices.len();
    let own = |(i, choice): (usize, &StateChoice)| {
        let mut row = logits.get(choice.state as i64) / f64::from(choice.temperature);
        if let Some(allowed) = &choice.allowed {
            let mask: Vec<f32> = (0..VOCAB as u32).map(|token| if allowed.contains(&token) { 0.0 } else { NEVER as f32 }).collect();
            row += Tensor::from_slice(&mask);
        }
        let all = row.log_softmax(0, None);
        tokens.map_or_else(|| all.shallow_clone(), |tokens| all.index_select(0, &Tensor::from_slice(&tokens[i * size..(i + 1) * size])))
    };
    let all = Tensor::stack(&choices.iter().enumerate().map(own).collect::<Vec<_>>(), 0);
    let loss = (&all * Tensor::from_slice(by).view([choices.len() as i64, -1])).sum(None);
    let gradients = Tensor::run_backward(&[loss], net.leaves(), false, false);
    let flat = Tensor::cat(&gradients.iter().map(|g| g.reshape([-1])).collect::<Vec<_>>(), 0);
    (values(&all.detach()), values(&flat))
}

/// How far `a` is from `b`, as a share of `b`'s length.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let length = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    length(&mut a.iter().zip(b).map(|(a, b)| f64::from(a - b))) / length(&mut b.iter().map(|&b| f64::from(b)))
}

#[test]
fn forward_and_back_are_those_of_libtorch() {
    for architecture in architectures() {
        let (trie, ends) = trie(&sequences());
        let choices = choices(ends.len());
        // By log-probabilities, and in every other row by entropies as well.
        let by = |i: usize| (0.5 - (i % 5) as f32 / 7.0, (i % 2) as f32 * 0.3);
        let by: Vec<(f32, f32)> = (0..choices.len()).map(by).collect();
        for (format, close, far) in [(MatrixFormat::F32, 1e-5, 0.0), (MatrixFormat::Int8, 0.15, 1e-4)] {
            let (net, running) = both(&architecture, format, Isa::chosen());
            let (expected, slopes) = torch(&net, &trie, &ends, &choices, &by);
            let tape = Tape::new(&running, &trie, &ends, true);
            let figures = tape.figures(&choices, true, None);
            let off = distance(&figures.logprobs, &expected);
            assert!(off < close && figures.entropies.iter().all(|entropy| *entropy >= 0.0), "{}: {off:.1e}", architecture.name());
            let gradient = tape.back(&choices, &FigureGradients::Chosen(&by));
            let off = distance(&gradient, &slopes);
            assert!(off < 10.0 * close && off >= far, "{}, {format:?}: {off:.1e}", architecture.name());
        }
    }
}

/// What else could have been chosen, all of it or the six likeliest tokens, and the gradient of a loss by these: among
/// all tokens and among few.
#[test]
fn listed_tokens_are_those_of_libtorch() {
    for architecture in architectures() {
        let (trie, ends) = trie(&sequences());
        let choices = choices(ends.len());
        for (format, close) in [(MatrixFormat::F32, 1e-5), (MatrixFormat::Int8, 0.15)] {
            let (net, running) = both(&architecture, format, Isa::chosen());
            let tape = Tape::new(&running, &trie, &ends, true);
            for count in [None, Some(6), Some(VOCAB)] {
                let listed = tape.figures(&choices, false, Some(Listing::Likeliest(count))).listed.unwrap();
                assert_eq!(listed.tokens.is_some(), count == Some(6));
                let tokens = listed.tokens.as_deref();
                let again = tape.figures(&choices, false, Some(Listing::Tokens(tokens))).listed.unwrap();
                assert!(again.logprobs == listed.logprobs && again.others == listed.others, "the same tokens, asked for by name");
                let allowed: Vec<usize> = (0..listed.logprobs.len()).filter(|&i| listed.logprobs[i] > -1e20).collect();
                // A loss has no gradient by a token that isn't allowed.
                let mut by = vec![0.0; listed.logprobs.len()];
                allowed.iter().for_each(|&i| by[i] = 0.5 - (i % 7) as f32 / 5.0);
                let (expected, slopes) = torch_listed(&net, (&trie, &ends), &choices, tokens, &by);
                let kept = |all: &[f32]| allowed.iter().map(|&i| all[i]).collect::<Vec<f32>>();
                let off = distance(&kept(&listed.logprobs), &kept(&expected));
                assert!(off < close, "{}, {format:?}, {count:?}: {off:.1e}", architecture.name());
                let size = listed.logprobs.len() / choices.len();
                for (i, own) in listed.logprobs.chunks(size).enumerate() {
                    let few = choices[i].allowed.as_ref().map_or(size, |allowed| allowed.len().min(size));
                    assert_eq!(own.iter().filter(|logprob| **logprob > -1e20).count(), few);
                    assert!(count != Some(6) || own.windows(2).all(|pair| pair[0] >= pair[1]), "the likeliest first: {own:?}");
                }
                let gradient = tape.back(&choices, &FigureGradients::Listed { tokens, by: &by });
                let off = distance(&gradient, &slopes);
                assert!(off < 10.0 * close, "{}, {format:?}, {count:?}: {off:.1e}", architecture.name());
            }
        }
    }
}

/// The bits of the final states of `sequences` when they are read together in steps of `step` tokens.
fn together(running: &AdaptedEngine, sequences: &[Vec<u32>], step: usize) -> Vec<Vec<u32>> {
    let pool = Arc::new(PagePool::default());
    let mut open: Vec<Sequence> = sequences.iter().map(|tokens| Sequence::new(tokens.clone(), vec![], None, &pool)).collect();
    let mut bits = vec![vec![]; open.len()];
    loop {
        let left: Vec<usize> = (0..open.len()).filter(|&i| open[i].computed < open[i].tokens.len()).collect();
        if left.is_empty() {
            return bits;
        }
        let counts: Vec<usize> = left.iter().map(|&i| step.min(open[i].tokens.len() - open[i].computed)).collect();
        let mut some: Vec<&mut Sequence> = open.iter_mut().filter(|sequence| sequence.computed < sequence.tokens.len()).collect();
        let states = advance(running, &mut some, &counts);
        for (state, i) in states.chunks(running.engine.config().width).zip(left) {
            bits[i] = state.iter().map(|x| x.to_bits()).collect();
        }
    }
}

/// Read at once or token by token, alone or among others, with any instructions: the same bits, which are also
/// learning's.
#[test]
fn a_row_has_the_same_bits_in_any_company() {
    for architecture in architectures() {
        let sequences = sequences();
        let (_, plain) = both(&architecture, MatrixFormat::Int8, Isa::PLAIN);
        let alone: Vec<Vec<u32>> = sequences.iter().flat_map(|sequence| together(&plain, std::slice::from_ref(sequence), 1)).collect();
        for isa in Isa::available() {
            let (_, running) = both(&architecture, MatrixFormat::Int8, isa);
            for step in [1, 5, 100] {
                assert!(together(&running, &sequences, step) == alone, "{}, {isa}, {step} tokens a step", architecture.name());
            }
            let many: Vec<Vec<u32>> = sequences.iter().cycle().take(if isa > Isa::PLAIN { 128 } else { 9 }).cloned().collect();
            let last = many.len() - 1;
            assert!(together(&running, &many, 100)[last] == alone[last % sequences.len()], "among {}", last + 1);
            let mut ends = Vec::new();
            let mut trie = Trie::default();
            sequences.iter().for_each(|sequence| ends.extend(trie.add(sequence).last()));
            let tape = Tape::new(&running, &trie, &ends, false);
            let learnt: Vec<Vec<u32>> =
                tape.states.chunks(running.engine.config().width).map(|state| state.iter().map(|x| x.to_bits()).collect()).collect();
            assert!(learnt == alone, "{}, {isa}: learning", architecture.name());
        }
    }
}
