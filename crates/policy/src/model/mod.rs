//! Models as tensors, and how these are saved.
//!
//! An [`Architecture`] ([`flow_model`]) describes a model: its sizes and constants, and from them the list of its
//! parameters. A [`Network`] is that description with weights: tensors that compute. Everything else speaks of [`Net`].

pub mod adapter_files;
pub mod bert;
pub mod cache;
pub mod checkpoint;
mod decoder;
pub mod export;
pub mod flat;
mod linear;
pub mod lora;
pub mod reading;
pub mod rope;
pub mod saved;
mod views;
pub mod weights;

use crate::limits::RowLimits;
use crate::tensors::values;
use cache::Cache;
use decoder::Decoder;
use flow_int8::engine::{AdaptedEngine, Engine, MatrixFormat, WeightsByName};
use flow_int8::products::isa::Isa;
use flow_model::config::VALUE_HEAD;
use flow_model::lora::Adapter;
use flow_model::{Architecture, Sizes};
use flow_model::{Head, ModelFault};
use reading::TrieTensors;
use std::sync::Arc;
use tch::{Kind, Tensor};
use weights::Weights;

/// A model with its weights: what a forward pass computes.
pub trait Network: Send {
    /// The same with other weights; tables that follow from the configuration alone are shared.
    fn with(&self, weights: &Weights) -> Box<dyn Network>;

    /// The final states `[outputs, width]` of a trie's output nodes; and of each block the keys and values of all
    /// positions that were computed, `[places, 2 * kv_heads * head]`. `past` has those of the nodes that are known, if
    /// there are any.
    fn read(&self, reading: &TrieTensors, past: &[Tensor]) -> (Tensor, Vec<Tensor>);

    /// Of each block the keys and values at `rows` `[sequences, places]`, with `room` empty slots behind them.
    fn cache(&self, blocks: &[Tensor], rows: &Tensor, room: i64) -> Cache;

    /// Reads on: the final states `[rows, new, width]` of the tokens `ids` `[rows, new]`, which stand at the places
    /// `at` `[rows, new]` of their sequences and fill the cache from slot `slot` on. `mask` `[rows, 1, new, slots]` is
    /// added to the scores of the slots up to and with the last new one.
    fn extend(&self, ids: &Tensor, at: &Tensor, cache: &mut Cache, slot: i64, mask: &Tensor) -> Tensor;

    /// The logits `[n, vocab]` of final states `[n, width]`, or with a value head their values `[n, 1]`.
    fn outputs(&self, states: &Tensor) -> Tensor;
}

/// An architecture with these weights.
fn network(architecture: &dyn Architecture, weights: &Weights) -> Box<dyn Network> {
    Box::new(Decoder::new(&architecture.sized(), weights))
}

/// A model with its weights: what generation and updates call.
pub struct Net {
    architecture: Arc<dyn Architecture>,
    /// The same with the head of the base, which may be another one than an adapter brings.
    below: Arc<dyn Architecture>,
    weights: Weights,
    /// None where the engine computes.
    network: Option<Box<dyn Network>>,
    /// The model's sizes.
    pub sizes: Sizes,
    /// The tokens that close an answer.
    pub ends: Arc<[u32]>,
    /// The seed of the adapters' dropout masks.
    seed: u64,
    /// Where the base was packed: what computes in place of the network.
    running: Option<AdaptedEngine>,
}

/// A net gives access to its weights.
impl std::ops::Deref for Net {
    type Target = Weights;

    fn deref(&self) -> &Weights {
        &self.weights
    }
}

impl Net {
    /// `architecture` with the weights `flat` `[parameters]`, computed in `kind`, whose answers end with one of `ends`.
    pub fn new(architecture: Arc<dyn Architecture>, flat: &Tensor, kind: Kind, ends: &[u32]) -> Net {
        let weights = Weights::new(&Arc::new(architecture.layout()), flat, kind, false);
        let network = Some(network(&*architecture, &weights));
        let (sizes, below) = (architecture.sizes(), architecture.clone());
        Net { sizes, architecture, below, weights, network, ends: ends.into(), seed: 0, running: None }
    }

    /// The same model with the adapter `adapter`, whose weights are `flat`; from now on only those are trained. An
    /// adapter with a value head makes a critic of it.
    ///
    /// # Errors
    /// If it can't have such a head.
    pub fn adapted(&self, adapter: &Arc<Adapter>, flat: &Tensor) -> Result<Net, ModelFault> {
        let architecture = if adapter.head && !self.below.sizes().value { self.below.with_head(Head::Value)? } else { self.below.clone() };
        Ok(self.under(architecture, self.weights.adapted(adapter, flat)))
    }

    /// The same model with `flat` as its trained weights. With `train` gradients can be taken of its leaves.
    pub fn with(&self, flat: &Tensor, train: bool) -> Net {
        self.with_weights(self.weights.with(flat, train.then_some(self.seed)))
    }

    /// The same model with `seed` as the seed of its adapter's dropout masks.
    pub fn seeded(self, seed: u64) -> Net {
        Net { seed, ..self }
    }

    /// The same model without its adapter.
    pub fn bare(&self) -> Net {
        self.under(self.below.clone(), self.weights.bare())
    }

    /// The same model with its base packed once as the engine computes it, which is all that is left of the base where
    /// it need not be `saved`.
    pub fn packed(&self, kept: MatrixFormat, saved: bool) -> Net {
        let leaf = |name: &str| {
            let leaf = self.weights.base_leaf(name)?;
            Some((values(&leaf.to_kind(Kind::Float)), leaf.size()))
        };
        let engine = Arc::new(Engine::new(&self.architecture.sized(), &leaf, kept, Isa::chosen()));
        let adapters = Arc::new(engine.bare());
        let weights = if saved { self.weights.bare() } else { self.weights.hollow() };
        Net { network: None, running: Some(AdaptedEngine { engine, adapters }), weights, ..self.bare() }
    }

    /// `architecture` as the engine computes it. `leaf` reads one matrix after the other, and only packed ones are kept.
    pub fn read_packed(architecture: Arc<dyn Architecture>, leaf: &WeightsByName, kept: MatrixFormat, ends: &[u32]) -> Net {
        let engine = Arc::new(Engine::new(&architecture.sized(), leaf, kept, Isa::chosen()));
        let adapters = Arc::new(engine.bare());
        let weights = Weights::hollow_of(&Arc::new(architecture.layout()));
        let (sizes, below, running) = (architecture.sizes(), architecture.clone(), Some(AdaptedEngine { engine, adapters }));
        Net { sizes, architecture, below, weights, network: None, ends: ends.into(), seed: 0, running }
    }

    fn with_weights(&self, weights: Weights) -> Net {
        self.under(self.architecture.clone(), weights)
    }

    /// Those weights under `architecture`, which differs from this one only in its head.
    fn under(&self, architecture: Arc<dyn Architecture>, weights: Weights) -> Net {
        let running = self.running.as_ref().map(|running| {
            let engine = running.engine.clone();
            let adapters = match weights.adapter() {
                Some(adapter) => Arc::new(engine.adapters(weights.base_layout(), adapter, &values(&weights.flat().to_kind(Kind::Float)))),
                None => Arc::new(engine.bare()),
            };
            AdaptedEngine { engine, adapters }
        });
        let network = match &self.network {
            _ if running.is_some() => None,
            Some(network) if Arc::ptr_eq(&architecture, &self.architecture) => Some(network.with(&weights)),
            _ => Some(network(&*architecture, &weights)),
        };
        self.assemble(architecture, weights, network, running)
    }

    fn assemble(
        &self,
        architecture: Arc<dyn Architecture>,
        weights: Weights,
        network: Option<Box<dyn Network>>,
        running: Option<AdaptedEngine>,
    ) -> Net {
        let (sizes, below, ends) = (architecture.sizes(), self.below.clone(), self.ends.clone());
        Net { architecture, below, weights, network, sizes, ends, seed: self.seed, running }
    }

    /// What computes in place of libtorch, row by row, where the base was packed.
    pub fn engine(&self) -> Option<&AdaptedEngine> {
        self.running.as_ref()
    }

    /// What a row must fit to be read by it.
    pub fn limits(&self) -> RowLimits {
        RowLimits { sizes: self.sizes, ends: self.ends.clone() }
    }

    /// Bytes of a number that it computes with.
    pub fn bytes_of_number(&self) -> usize {
        self.kind().elt_size_in_bytes()
    }

    fn network(&self) -> &dyn Network {
        match &self.network {
            Some(network) => &**network,
            // Callers of a net must first ask whether the engine computes it.
            None => panic!("this model is computed row by row"),
        }
    }

    /// The same weights for another thread; its leaves are its own.
    pub fn share(&self, train: bool) -> Net {
        if self.running.is_some() {
            // The engine is shared as it is, and takes its gradients itself.
            return self.assemble(self.architecture.clone(), self.weights.shared(), None, self.running.clone());
        }
        self.with(self.weights.flat(), train)
    }

    /// The model without its weights.
    pub fn architecture(&self) -> &Arc<dyn Architecture> {
        &self.architecture
    }

    /// The weights of the base's value head, if it has one.
    pub fn value_head(&self) -> Option<Vec<f32>> {
        match &self.running {
            Some(running) => running.engine.head().map(<[f32]>::to_vec),
            None => self.weights.base_leaf(VALUE_HEAD).map(|head| values(&head.to_kind(Kind::Float))),
        }
    }

    /// What its weights lie in: its own, and what is trained beside them.
    pub fn tensors(&self) -> Vec<&Tensor> {
        vec![self.weights.base(), self.weights.flat()]
    }

    /// See [`Network::read`].
    pub fn read(&self, reading: &TrieTensors, past: &[Tensor]) -> (Tensor, Vec<Tensor>) {
        self.network().read(reading, past)
    }

    /// See [`Network::cache`].
    pub fn cache(&self, blocks: &[Tensor], rows: &Tensor, room: i64) -> Cache {
        self.network().cache(blocks, rows, room)
    }

    /// See [`Network::extend`].
    pub fn extend(&self, ids: &Tensor, at: &Tensor, cache: &mut Cache, slot: i64, mask: &Tensor) -> Tensor {
        self.network().extend(ids, at, cache, slot, mask)
    }

    /// See [`Network::outputs`]; of states `[.., width]`, `[n, outputs]`.
    pub fn outputs(&self, states: &Tensor) -> Tensor {
        self.network().outputs(&states.view([-1, self.sizes.width as i64]))
    }
}
