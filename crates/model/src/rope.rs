//! What the tables of rotary positions follow from (Su et al. 2021).

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
        let plain = (0..half).map(|i| (i as f64 * (-self.base.ln() / half as f64)).exp());
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
        plain.enumerate().map(scaled).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
