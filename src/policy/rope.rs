//! Rotary positions (Su et al. 2021), the halves of a head turned against each other as in Llama.

use super::shape::Shape;
use tch::{Device, Kind, Tensor};

const ROPE_BASE: f64 = 10_000.0;

/// Cosine and sine of position x frequency, `[context, head]` each.
pub struct Rope {
    pub cos: Tensor,
    pub sin: Tensor,
}

impl Rope {
    pub fn new(shape: &Shape, device: Device) -> Rope {
        let half = shape.head() as i64 / 2;
        let frequency = (Tensor::arange(half, (Kind::Double, device)) * (-ROPE_BASE.ln() / half as f64)).exp();
        let angle = Tensor::arange(shape.context as i64, (Kind::Double, device)).outer(&frequency);
        let angle = Tensor::cat(&[&angle, &angle], -1);
        // The sign of the turned half is folded into the sine.
        let sign = Tensor::cat(&[-Tensor::ones([half], (Kind::Double, device)), Tensor::ones([half], (Kind::Double, device))], 0);
        Rope { cos: angle.cos().to_kind(Kind::Float), sin: (angle.sin() * sign).to_kind(Kind::Float) }
    }
    pub fn share(&self) -> Rope {
        Rope { cos: self.cos.shallow_clone(), sin: self.sin.shallow_clone() }
    }
}

/// `x` turned: the halves swapped, times sine, plus itself times cosine.
pub fn turn(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let half = x.size()[x.dim() - 1] / 2;
    (x * cos).addcmul_(&x.roll([half], [-1]), sin)
}
