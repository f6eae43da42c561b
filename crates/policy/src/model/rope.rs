//! Rotary positions (Su et al. 2021), the halves of a head turned against each other as in Llama.

use flow_model::rope::RopeConfig;
use tch::{Device, Kind, Tensor};

/// Cosine and sine of position times frequency, `[context, head]` each; the sign of the turned half is folded into the
/// sine.
pub struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// The tables for `context` places of heads of `head` numbers.
    pub fn new(config: &RopeConfig, head: usize, context: usize, device: Device, kind: Kind) -> Rope {
        let half = head as i64 / 2;
        let frequency = Tensor::from_slice(&config.frequencies(half)).to_device(device);
        let angle = Tensor::arange(context as i64, (Kind::Double, device)).outer(&frequency);
        let (cos, sin) = (angle.cos().to_kind(kind), angle.sin().to_kind(kind));
        Rope { cos: Tensor::cat(&[&cos, &cos], -1), sin: Tensor::cat(&[&-&sin, &sin], -1) }
    }

    /// The same tables for another thread.
    pub fn share(&self) -> Rope {
        Rope { cos: self.cos.shallow_clone(), sin: self.sin.shallow_clone() }
    }

    /// The angles of the places `at` `[rows, n]`.
    pub fn at(&self, at: &Tensor) -> Angles {
        let (rows, n, head) = (at.size()[0], at.size()[1], self.cos.size()[1]);
        let table = |x: &Tensor| x.index_select(0, &at.reshape([rows * n])).view([rows, n, 1, head]);
        Angles { cos: table(&self.cos), sin: table(&self.sin) }
    }
}

/// Cosine and sine of some places, to turn `[rows, places, heads, head]` with.
pub struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    /// `x` `[rows, places, heads, head]` turned: itself times cosine, plus its halves swapped times sine.
    pub fn turn(&self, x: &Tensor) -> Tensor {
        let half = x.size()[x.dim() - 1] / 2;
        (x * &self.cos).addcmul_(&x.roll([half], [-1]), &self.sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::rope::Scaling;

    #[test]
    fn a_pair_is_turned_by_place_times_frequency() {
        // Head of 4, base 100: frequencies 1 and 0.1. At place 2 the pair (x0, x2) is turned by 2, (x1, x3) by 0.2.
        let rope = Rope::new(&RopeConfig { base: 100.0, scaling: Scaling::None }, 4, 3, Device::Cpu, Kind::Float);
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0]).view([1, 1, 1, 4]);
        let turned = rope.at(&Tensor::from_slice(&[2i64]).view([1, 1])).turn(&x);
        let expected = [
            2f64.cos() - 3.0 * 2f64.sin(),
            2.0 * 0.2f64.cos() - 4.0 * 0.2f64.sin(),
            3.0 * 2f64.cos() + 2f64.sin(),
            4.0 * 0.2f64.cos() + 2.0 * 0.2f64.sin(),
        ];
        for (i, expected) in expected.iter().enumerate() {
            assert!((turned.double_value(&[0, 0, 0, i as i64]) - expected).abs() < 1e-5);
        }
        let all = rope.at(&Tensor::arange(3, (Kind::Int64, Device::Cpu)).view([1, 3])).turn(&x.expand([1, 3, 1, 4], false));
        assert_eq!(all.narrow(1, 2, 1), turned);
    }
}
