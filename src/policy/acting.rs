//! What acts with a model all of whose weights are trained, where that isn't what learns: each version's matrices packed once, and computed row by row
//! ([`crate::policy::engine`]).

use super::engine::MatrixFormat;
use super::model::Net;
use super::versions::not_in_engine;
use super::{Act, ModelFault};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tch::Kind;

/// What acts with a model.
#[derive(Default)]
pub struct Acting {
    act: Act,
    /// The versions that have acted, as they act.
    nets: RefCell<BTreeMap<u64, Net>>,
}

impl Acting {
    /// Has `act` act with a model that begins with the weights of `start`.
    ///
    /// # Errors
    /// If such a model can't act so: beside an adapter, as a critic, or in another kind than f32.
    pub fn new(act: Act, start: &Net) -> Result<Acting, ModelFault> {
        let why = match () {
            () if act == Act::Own => None,
            () if start.adapter().is_some() => Some("beside an adapter `base` says it, and then what acts and what learns are one"),
            () if start.sizes.value => Some("a critic doesn't act"),
            () if start.kind() != Kind::Float => Some("what learns beside it is in f32: leave `dtype` out"),
            () if !start.architecture().in_engine() => return Err(ModelFault::Act { why: not_in_engine(start) }),
            () => None,
        };
        match why {
            Some(why) => Err(ModelFault::Act { why: why.into() }),
            // A GPU multiplies no rows by themselves: what learns acts.
            None if start.device().is_cuda() => Ok(Acting::default()),
            None => Ok(Acting { act, nets: RefCell::default() }),
        }
    }

    /// What acts with `version`, whose weights are in `net`.
    pub fn at(&self, version: u64, net: Net) -> Net {
        let kept = match self.act {
            Act::Own => return net,
            Act::Int8 => MatrixFormat::Int8,
            Act::F32 => MatrixFormat::F32,
        };
        self.nets.borrow_mut().entry(version).or_insert_with(|| net.packed(kept, false)).share(false)
    }

    /// Whether it is rounded, while what learns isn't.
    pub fn rounded(&self) -> bool {
        self.act == Act::Int8
    }

    /// Forgets all versions but those `kept`.
    pub fn retain(&mut self, kept: &[u64]) {
        self.nets.get_mut().retain(|version, _| kept.contains(version));
    }
}
