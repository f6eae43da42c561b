//! The acting copy of a model whose weights are all trained, where it differs from the learning one: each version's
//! matrices packed once, and computed row by row ([`flow_int8::engine`]).

use crate::model::Net;
use flow_int8::engine::MatrixFormat;
use flow_int8::products::isa::row_by_row_is_quick;
use flow_model::{Act, Architecture, ModelFault};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tch::Kind;

/// Why the engine doesn't compute a model of another architecture than it knows.
pub fn not_in_engine(architecture: &dyn Architecture) -> String {
    format!("its architecture `{}` is of another shape", architecture.name())
}

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
    /// If `act` asks for something that such a model can't do: beside an adapter, as a critic, or in another kind than
    /// f32.
    pub fn new(act: Act, start: &Net) -> Result<Acting, ModelFault> {
        let unfit = match () {
            () if start.adapter().is_some() => Some("beside an adapter `base` sets it, and acting and learning use one model".into()),
            () if start.sizes.value => Some("a critic doesn't act".into()),
            () if start.kind() != Kind::Float => Some("the learning model is in f32: leave `dtype` out".into()),
            () if !start.architecture().in_engine() => Some(not_in_engine(&**start.architecture())),
            () => None,
        };
        let format = match (act, unfit) {
            (Act::Own, _) | (Act::Auto, Some(_)) => None,
            (Act::Auto, None) => row_by_row_is_quick().then_some(MatrixFormat::F32),
            (Act::Int8 | Act::F32, Some(why)) => return Err(ModelFault::Act { why }),
            (Act::Int8, None) => Some(MatrixFormat::Int8),
            (Act::F32, None) => Some(MatrixFormat::F32),
        };
        // A GPU multiplies no rows by themselves: the learning model acts.
        Ok(Acting { format: format.filter(|_| !start.device().is_cuda()), nets: RefCell::default() })
    }

    /// The acting model of `version`, whose weights are in `net`.
    pub fn at(&self, version: u64, net: Net) -> Net {
        let Some(kept) = self.format else { return net };
        self.nets.borrow_mut().entry(version).or_insert_with(|| net.packed(kept, false)).share(false)
    }

    /// Which weights act.
    pub fn act(&self) -> Act {
        self.format.map_or(Act::Own, |format| if format == MatrixFormat::Int8 { Act::Int8 } else { Act::F32 })
    }

    /// Whether it is rounded, while the learning model isn't.
    pub fn rounded(&self) -> bool {
        self.format == Some(MatrixFormat::Int8)
    }

    /// Bytes of the acting copies: four a weight in f32, one in 8 bits, whose scales (a sixteenth more) are left out.
    pub fn bytes(&self) -> u64 {
        let each = if self.rounded() { 1 } else { 4 };
        self.nets.borrow().values().map(|net| each * net.layout().len() as u64).sum()
    }

    /// Forgets all versions but those `kept`.
    pub fn retain(&mut self, kept: &[u64]) {
        self.nets.get_mut().retain(|version, _| kept.contains(version));
    }
}
