//! Tensors by name: views of one flat vector.

use flow_model::parameters::{Layout, Leaf};
use std::sync::Arc;
use tch::Tensor;

/// Leaves that are views of one flat vector.
pub struct Views {
    pub(super) layout: Arc<Layout>,
    pub(super) flat: Tensor,
    pub(super) leaves: Vec<Tensor>,
}

impl Views {
    /// Views of `flat` `[layout.len()]`. With `train` gradients can be taken of each leaf.
    pub fn new(layout: &Arc<Layout>, flat: &Tensor, train: bool) -> Views {
        let view = |leaf: &Leaf| {
            let view = flat.narrow(0, leaf.at, leaf.size.iter().product()).view(leaf.size.as_slice()).detach();
            if train {
                view.set_requires_grad(true)
            } else {
                view
            }
        };
        Views { leaves: layout.leaves.iter().map(view).collect(), layout: layout.clone(), flat: flat.shallow_clone() }
    }

    /// The same views, for another thread.
    pub(super) fn share(&self) -> Views {
        let leaves = self.leaves.iter().map(Tensor::shallow_clone).collect();
        Views { layout: self.layout.clone(), flat: self.flat.shallow_clone(), leaves }
    }

    /// The names alone.
    pub(super) fn hollow(&self) -> Views {
        let none = self.flat.narrow(0, 0, 0).copy();
        Views { layout: self.layout.clone(), leaves: vec![], flat: none }
    }

    /// The leaf called `name`, if there is one and its numbers are there.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.layout.leaf_of(name).and_then(|leaf| self.leaves.get(leaf))
    }
}
