//! Reads sequences as tries: what wasn't read yet, in passes, and the output after each.

use crate::attention::AttentionLayout;
use crate::generate::rows;
use crate::generate::store::Store;
use crate::generate::SHARE;
use crate::memory;
use crate::model::reading::TrieTensors;
use crate::model::Net;
use crate::tensors::{indices, values};
use crate::threads::spread;
use flow_int8::trie::{runs, shared, Trie};
use flow_model::config::DecoderConfig;
use flow_model::{Result, PAD_TO};
use std::ops::Range;
use tch::Tensor;

/// Prompts of one pass on a CPU: few enough that the activations stay in the cache of a core.
const PROMPTS: usize = 64;
/// On a GPU, as far as its memory goes.
const MANY: usize = 512;

/// The result of a pass over some sequences.
struct PassOutput<T> {
    /// The converted output after each of them.
    outputs: Vec<T>,
    /// The slots of computed tokens, and for each block their keys and values.
    slots: Vec<usize>,
    rows: Vec<Tensor>,
    /// Places that were computed.
    computed: usize,
}

/// The result of reading some sequences.
pub struct ReadResult<T> {
    /// The converted output after each of them.
    pub outputs: Vec<T>,
    /// The slots of each one's tokens.
    pub paths: Vec<Vec<usize>>,
    /// Places that were computed.
    pub computed: usize,
}

/// Reads what is new in `sequences`, ascending, and converts the output after each, logits or a value, with `convert`.
pub fn read<T: Send>(
    net: &Net,
    store: &mut Store,
    sequences: &[&[u32]],
    threads: usize,
    convert: impl Fn(usize, &[f32]) -> T + Sync,
) -> Result<ReadResult<T>> {
    if let Some(running) = net.engine() {
        let (outputs, computed) = rows::read(running, store.page_cache(running), sequences, threads, |i, logits| convert(i, logits))?;
        return Ok(ReadResult { outputs, paths: vec![], computed });
    }
    read_on_device(net, store, sequences, threads, |part, outputs| {
        let (width, outputs) = (outputs.size()[1] as usize, values(outputs));
        part.zip(outputs.chunks(width)).map(|(i, output)| convert(i, output)).collect()
    })
}

/// As [`read`], by libtorch: `convert` gets the outputs after some of the sequences, `[sequences or more, outputs]`,
/// where they lie.
pub fn read_on_device<T: Send>(
    net: &Net,
    store: &mut Store,
    sequences: &[&[u32]],
    threads: usize,
    convert: impl Fn(Range<usize>, &Tensor) -> Vec<T> + Sync,
) -> Result<ReadResult<T>> {
    let paths = store.admit(sequences.iter().copied());
    let ready = store.ready();
    let begins = |i: usize| shared(sequences[i - 1], sequences[i]);
    let passes = runs(sequences.len(), |start| pass_size(net, &sequences[start..]), begins);
    let state = || (net.share(false), store.blocks());
    let done = spread(threads, state, &passes, |(net, blocks), part| {
        let convert = |outputs: &Tensor| convert(part.clone(), outputs);
        Ok(tch::no_grad(|| pass(net, blocks, &ready, &sequences[part.clone()], &paths[part.clone()], convert)))
    })?;
    let (mut outputs, mut computed) = (Vec::with_capacity(sequences.len()), 0);
    for pass in done {
        computed += pass.computed;
        store.keep(&pass.slots, &pass.rows);
        outputs.extend(pass.outputs);
    }
    Ok(ReadResult { outputs, paths, computed })
}

/// How many of `sequences`, in order, one pass reads: on a GPU as many as its memory has room for.
fn pass_size(net: &Net, sequences: &[&[u32]]) -> usize {
    if !net.device().is_cuda() {
        return PROMPTS;
    }
    let DecoderConfig { width, heads, kv_heads, head, hidden, .. } = net.architecture().sized();
    // What one block makes of a token, and all keys and values; of a sequence its logits.
    let token = (6 * width + 2 * (heads + 2 * kv_heads) * head + 4 * hidden + net.sizes.cached) * net.bytes_of_number();
    let sequence = 3 * 4 * net.sizes.vocab;
    let mut left = memory::available().map_or(u64::MAX, |free| free / SHARE);
    let mut taken = 0;
    for (i, tokens) in sequences.iter().enumerate().take(MANY) {
        let fresh = tokens.len() - if i == 0 { 0 } else { shared(sequences[i - 1], tokens) };
        let needs = (fresh * token + sequence) as u64;
        if needs > left {
            break;
        }
        (left, taken) = (left - needs, i + 1);
    }
    taken.max(1)
}

/// Reads what is new in `sequences`, whose tokens lie in the slots `paths`. `ready` says of each slot whether its keys
/// and values are there.
fn pass<T>(
    net: &Net,
    blocks: &[Tensor],
    ready: &[bool],
    sequences: &[&[u32]],
    paths: &[Vec<usize>],
    convert: impl Fn(&Tensor) -> Vec<T>,
) -> PassOutput<T> {
    let mut trie = Trie::default();
    let (mut slots, mut ends) = (Vec::new(), Vec::new());
    for (sequence, path) in sequences.iter().zip(paths) {
        ends.extend(trie.add(sequence).last());
        slots.extend(&path[path.len() - (trie.len() - slots.len())..]);
    }
    // Only keys and values are kept, so the last token of a sequence is computed again for its final state.
    let mut known: Vec<bool> = slots.iter().map(|&slot| ready[slot]).collect();
    ends.iter().for_each(|&end: &usize| known[end] = false);
    let slots_where = |is_known: bool| slots.iter().zip(&known).filter(move |(_, known)| **known == is_known).map(|(&slot, _)| slot);
    let past = indices(&slots_where(true).map(|slot| slot as i64).collect::<Vec<_>>(), net.device());
    let past: Vec<Tensor> = blocks.iter().map(|block| block.index_select(0, &past)).collect();
    let (states, rows) = net.read(&TrieTensors::new(&trie, &known, &ends, AttentionLayout::PerSequence, net.device()), &past);
    let slots: Vec<usize> = slots_where(false).collect();
    let outputs = convert(&net.outputs(&states));
    PassOutput { outputs, computed: slots.len().next_multiple_of(PAD_TO), slots, rows }
}
