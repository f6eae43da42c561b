//! The acting copy of a model whose weights are all trained, where it differs from the learning one: each version's matrices packed once,
//! and computed row by row ([`crate::policy::engine`]).

use super::engine::MatrixFormat;
use super::model::Net;
use super::products::isa::{Isa, Level};
use super::versions::not_in_engine;
use super::{Act, ModelFault};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tch::Kind;

/// The acting copy of a model.
#[derive(Default)]
pub struct Acting {
    /// How its matrices are kept; those of the learning model where it is none.
    format: Option<MatrixFormat>,
    /// The versions that have acted, as they act.
    nets: RefCell<BTreeMap<u64, Net>>,
}

impl Acting {
    /// Has `act` act with a model that begins with the weights of `start`.
    ///
    /// # Errors
    /// If `act` asks for something that such a model can't do: beside an adapter, as a critic, or in another kind than f32.
    pub fn new(act: Act, start: &Net) -> Result<Acting, ModelFault> {
        let why = match () {
            () if start.adapter().is_some() => Some("beside an adapter `base` sets it, and acting and learning use one model"),
            () if start.sizes.value => Some("a critic doesn't act"),
            () if start.kind() != Kind::Float => Some("the learning model is in f32: leave `dtype` out"),
            () => None,
        };
        let unknown = !start.architecture().in_engine();
        // Plain code is slower than libtorch. `FLOW_ISA` has no part in it: by a lesser set a model acts with the same bits.
        let slow = act == Act::Auto && Isa::new(Level::Avx2).is_none();
        let format = match act {
            Act::Own => None,
            Act::Int8 => Some(MatrixFormat::Int8),
            Act::Auto | Act::F32 => Some(MatrixFormat::F32),
        };
        match why {
            Some(why) if act.asks() => Err(ModelFault::Act { why: why.into() }),
            None if act.asks() && unknown => Err(ModelFault::Act { why: not_in_engine(start) }),
            // A GPU multiplies no rows by themselves: the learning model acts.
            None if !unknown && !slow && !start.device().is_cuda() => Ok(Acting { format, nets: RefCell::default() }),
            _ => Ok(Acting::default()),
        }
    }

    /// The acting model of `version`, whose weights are in `net`.
    pub fn at(&self, version: u64, net: Net) -> Net {
        let Some(kept) = self.format else { return net };
        self.nets.borrow_mut().entry(version).or_insert_with(|| net.packed(kept, false)).share(false)
    }

    /// Whether it is rounded, while the learning model isn't.
    pub fn rounded(&self) -> bool {
        self.format == Some(MatrixFormat::Int8)
    }

    /// Bytes of the versions as they act, in f32 or with a quarter of that.
    pub fn bytes(&self) -> u64 {
        let each = if self.rounded() { 1 } else { 4 };
        self.nets.borrow().values().map(|net| each * net.layout().len() as u64).sum()
    }

    /// Forgets all versions but those `kept`.
    pub fn retain(&mut self, kept: &[u64]) {
        self.nets.get_mut().retain(|version, _| kept.contains(version));
    }
}
