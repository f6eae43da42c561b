//! The weights that a network is made of, and low-rank adapters beside the frozen ones.

use super::lora::low_rank_updates;
use crate::model::lora::LowRank;
use crate::model::views::Views;
use flow_model::lora::{replacement, Adapter};
use flow_model::parameters::Layout;
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// What a network is made of: the model's own weights, and adapters if only those are trained.
///
/// What is trained (all of it, or the adapters alone) is one flat vector of f32, whatever the network computes in.
pub struct Weights {
    base: Views,
    adapter: Option<(Arc<Adapter>, Views)>,
    /// What the network computes in.
    kind: Kind,
    /// The seed of the adapter's dropout masks; `None` outside training.
    dropped: Option<u64>,
}

impl Weights {
    /// The weights `flat` `[layout.len()]`, computed in `kind`. With `train` gradients can be taken of each leaf.
    pub fn new(layout: &Arc<Layout>, flat: &Tensor, kind: Kind, train: bool) -> Weights {
        Weights { base: Views::new(layout, flat, train), adapter: None, kind, dropped: None }
    }

    /// The same with `adapter` beside them, whose weights are `flat`; the present weights are frozen.
    pub fn adapted(&self, adapter: &Arc<Adapter>, flat: &Tensor) -> Weights {
        Weights { adapter: Some((adapter.clone(), Views::new(adapter.layout(), flat, false))), ..self.bare() }
    }

    /// The same with `flat` as its trained weights. `train` is the seed of the adapters' dropout during training.
    pub fn with(&self, flat: &Tensor, train: Option<u64>) -> Weights {
        match &self.adapter {
            None => Weights::new(&self.base.layout, flat, self.kind, train.is_some()),
            Some((adapter, views)) => {
                let views = Views::new(&views.layout, flat, train.is_some());
                let dropped = train.filter(|_| adapter.lora.dropout > 0.0);
                Weights { adapter: Some((adapter.clone(), views)), dropped, ..self.bare() }
            }
        }
    }

    /// The same without an adapter.
    pub fn bare(&self) -> Weights {
        Weights { base: self.base.share(), adapter: None, kind: self.kind, dropped: None }
    }

    /// The names of a model's weights in f32, without numbers.
    pub fn hollow_of(layout: &Arc<Layout>) -> Weights {
        let flat = Tensor::empty([0], (Kind::Float, Device::Cpu));
        let base = Views { layout: layout.clone(), leaves: vec![], flat };
        Weights { base, adapter: None, kind: Kind::Float, dropped: None }
    }

    /// The same without the numbers of the model's own weights, whose names are left.
    pub fn hollow(&self) -> Weights {
        Weights { base: self.base.hollow(), adapter: None, kind: self.kind, dropped: None }
    }

    /// The same for another thread, without gradients.
    pub fn shared(&self) -> Weights {
        let adapter = self.adapter.as_ref().map(|(adapter, views)| (adapter.clone(), views.share()));
        Weights { base: self.base.share(), adapter, kind: self.kind, dropped: None }
    }

    /// The model's own leaf called `name`, if it has one.
    pub fn base_leaf(&self, name: &str) -> Option<&Tensor> {
        self.base.get(name)
    }

    /// The model's own leaf called `name`, or what is learnt whole in its place.
    ///
    /// # Panics
    /// If the layout has no such leaf: then an architecture asks for a parameter that it didn't list, which each
    /// architecture's test would show.
    pub fn get(&self, name: &str) -> Tensor {
        let own = self.adapter.as_ref().filter(|(adapter, _)| adapter.head).and_then(|(_, views)| views.get(&replacement(name)));
        match own.or_else(|| self.base.get(name)) {
            Some(leaf) => leaf.to_kind(self.kind),
            None => panic!("the architecture lists no parameter `{name}`"),
        }
    }

    /// The adapters' low-rank updates of the leaf called `name`.
    pub fn low_rank(&self, name: &str) -> Vec<LowRank> {
        let leaf = self.base.layout.leaf_of(name).map(|leaf| &self.base.layout.leaves[leaf]);
        match (&self.adapter, leaf) {
            (Some((adapter, views)), Some(leaf)) => low_rank_updates(adapter, &self.base.layout, leaf, views, self.kind, self.dropped),
            _ => Vec::new(),
        }
    }

    /// The model's own weights, `[parameters]`.
    pub fn base(&self) -> &Tensor {
        &self.base.flat
    }

    /// The model's own weights with the adapters merged, `[parameters]` in f32; a copy.
    #[cfg(test)]
    pub fn merged(&self) -> Tensor {
        let mut flat = self.base.flat.to_kind(Kind::Float).copy();
        if let Some((adapter, views)) = &self.adapter {
            super::lora::merge(adapter, &self.base.layout, &mut flat, &views.flat);
        }
        flat
    }

    /// The layout of the model's own weights.
    pub fn base_layout(&self) -> &Arc<Layout> {
        &self.base.layout
    }

    /// What is trained: all weights, or the adapters.
    fn trained(&self) -> &Views {
        self.adapter.as_ref().map_or(&self.base, |(_, views)| views)
    }

    /// The adapter, if only that is trained.
    pub fn adapter(&self) -> Option<&Arc<Adapter>> {
        self.adapter.as_ref().map(|(adapter, _)| adapter)
    }

    /// Whether gradients are taken, and of an adapter alone.
    pub fn adapter_learns(&self) -> bool {
        self.adapter.is_some() && self.leaves().first().is_some_and(Tensor::requires_grad)
    }

    /// The trained leaves, in the order of the flat vector.
    pub fn leaves(&self) -> &[Tensor] {
        &self.trained().leaves
    }

    /// What is trained, `[layout.len()]`.
    pub fn flat(&self) -> &Tensor {
        &self.trained().flat
    }

    /// What its parts are named by.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.trained().layout
    }

    /// What the network computes in.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the weights lie.
    pub fn device(&self) -> Device {
        self.base.flat.device()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::named_parts;
    use flow_model::parameters::Initializer;

    #[test]
    fn a_leaf_is_a_view_of_what_is_stacked_in_it() {
        let mut layout = Layout::default();
        layout.add("embed", &[3, 2], Initializer::Normal(0.5));
        layout.stacked("qk", &[("q".into(), 2), ("k".into(), 1)], Some(2), Initializer::Normal(1.0));
        layout.add("norm", &[2], Initializer::Ones);
        let flat = Tensor::arange(14, (Kind::Float, Device::Cpu));
        let weights = Weights::new(&Arc::new(layout), &flat, Kind::Float, true);
        assert_eq!(weights.get("qk").size(), [3, 2]);
        assert_eq!(weights.get("qk").double_value(&[2, 1]), 11.0);
        assert!(weights.leaves().iter().all(Tensor::requires_grad) && weights.leaves().len() == 3);
        let named: Vec<_> = named_parts(weights.layout(), &flat).collect();
        assert_eq!((named[2].0, named[2].1.size(), named[2].1.double_value(&[0, 0])), ("k", vec![1, 2], 10.0));
    }
}
