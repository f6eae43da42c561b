//! Rotary positions (Su et al. 2021), the halves of a head turned against each other as in Llama.

use tch::{Device, Kind, Tensor};

/// What the tables of the rotary positions follow from.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// The frequencies are base^(-2 i / head).
    pub base: f64,
    /// What is done to them for contexts longer than those of pre-training.
    pub scaling: Scaling,
}

/// How frequencies are changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All divided by `factor` (Chen et al. 2023).
    Linear { factor: f64 },
    /// Those whose wavelength is above `original / low` divided by `factor`, those below `original / high` left alone,
    /// and those between moved from one to the other: Llama 3.1, as `transformers` computes it.
    Llama3 { factor: f64, low: f64, high: f64, original: f64 },
    /// Each divided by its own factor, as a GGUF file has them.
    Factors(Vec<f64>),
}

impl RopeConfig {
    /// The frequencies of a head of `2 * half` numbers.
    pub fn frequencies(&self, half: i64) -> Vec<f64> {
        let plain = (Tensor::arange(half, (Kind::Double, Device::Cpu)) * (-self.base.ln() / half as f64)).exp();
        let scaled = |(i, plain): (usize, f64)| match &self.scaling {
            Scaling::None => plain,
            Scaling::Linear { factor } => plain / factor,
            Scaling::Factors(factors) => plain / factors.get(i).copied().unwrap_or(1.0),
            Scaling::Llama3 { factor, low, high, original } => {
                let wavelength = std::f64::consts::TAU / plain;
                if wavelength > original / low {
                    plain / factor
                } else if wavelength < original / high {
                    plain
                } else {
                    let smooth = (original / wavelength - low) / (high - low);
                    (1.0 - smooth) * plain / factor + smooth * plain
                }
            }
        };
        (0..half).map(|i| plain.double_value(&[i])).enumerate().map(scaled).collect()
    }
}

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

    #[test]
    fn long_wavelengths_are_stretched() {
        // Base 10^4, head of 8: frequencies 1, 0.1, 0.01, 0.001, wavelengths 6.28, 62.8, 628, 6283. With 1000 original
        // places, low 1 and high 4: above 1000 divided by 8, below 250 left alone, 628 between: smooth = (1000 / 628.3 - 1)
        // / 3 = 0.197183.
        let frequencies = |scaling| RopeConfig { base: 1e4, scaling }.frequencies(4);
        let smooth = (1000.0 / (std::f64::consts::TAU / 0.01) - 1.0) / 3.0;
        let expected = [1.0, 0.1, (1.0 - smooth) * 0.01 / 8.0 + smooth * 0.01, 0.001 / 8.0];
        let close = |actual: Vec<f64>, expected: [f64; 4]| {
            assert!(actual.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-12), "{actual:?}")
        };
        close(frequencies(Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 1000.0 }), expected);
        close(frequencies(Scaling::Linear { factor: 2.0 }), [0.5, 0.05, 0.005, 0.0005]);
        close(frequencies(Scaling::Factors(vec![1.0, 1.0, 4.0])), [1.0, 0.1, 0.0025, 0.001]);
    }
}
