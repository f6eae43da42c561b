//! The uncertainty of a measurement: on some tasks, or under some seeds.

use flow_core::seed::Random;
use schemars::JsonSchema;
use serde::Serialize;

/// A value that was measured, with the interval that it is said to lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The measured value, in its own unit.
    pub value: f64,
    /// The lower end, in the same unit.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The percentile interval of a ratio of sums (Efron 1979; Efron and Tibshirani 1993, section 13.3): of the ratios of
/// `resamples` draws, with replacement, of as many (part, whole) pairs as there are, those between which the middle
/// share `level` of them lies. The pairs are what is independent, such as tasks. 0 to 0 where there are none.
pub fn bootstrap(pairs: &[(f64, f64)], resamples: usize, level: f64, seed: u64) -> (f64, f64) {
    let mut random = Random::new(seed);
    let mut ratios: Vec<f64> = (0..resamples)
        .map(|_| {
            let (part, whole) = (0..pairs.len()).map(|_| pairs[random.below(pairs.len())]).fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1));
            if whole > 0.0 {
                part / whole
            } else {
                0.0
            }
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios.get(((share * ratios.len() as f64) as usize).min(ratios.len().saturating_sub(1))).copied().unwrap_or(0.0);
    (at((1.0 - level) / 2.0), at((1.0 + level) / 2.0))
}

/// The score interval of 95% of a share of `n` (Wilson 1927), which has a width where the share is 0 or 1, as no
/// resampling has. 0 to 1 for none.
pub fn wilson(share: f64, n: usize) -> (f64, f64) {
    const Z: f64 = 1.959963984540054;
    if n == 0 {
        return (0.0, 1.0);
    }
    let n = n as f64;
    let (middle, reach) = (share + Z * Z / (2.0 * n), Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt());
    let end = |x: f64| (x / (1.0 + Z * Z / n)).clamp(0.0, 1.0);
    (end(middle - reach), end(middle + reach))
}

/// The 0.975 quantiles of Student's t distribution with 1, 2, ... 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The mean of one value a run, with its interval of 95%: mean +- t * s / sqrt(n), s the sample deviation (Student
/// 1908). Beyond 31 runs t is the normal distribution's. `None` for fewer than two runs, which tell nothing of how much
/// they vary.
pub fn over_seeds(values: &[f64]) -> Option<Interval> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let reach = T.get(n - 2).copied().unwrap_or(1.96) * (variance / n as f64).sqrt();
    Some(Interval { value: mean, low: mean - reach, high: mean + reach })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two tasks, one won and one lost, a draw has both of the one, both of the other or one each: 1/4, 1/4, 1/2.
    #[test]
    fn the_bootstrap_is_the_quantiles_of_its_draws() {
        let middle = |level| bootstrap(&[(1.0, 1.0), (0.0, 1.0)], 4000, level, 7);
        assert_eq!((middle(0.45), middle(0.55)), ((0.5, 0.5), (0.0, 1.0)), "half of all draws are even");
        assert_eq!(bootstrap(&[(1.0, 4.0)], 10, 0.95, 7), (0.25, 0.25), "one task is no sample");
        assert_eq!(bootstrap(&[], 10, 0.95, 7), (0.0, 0.0));
    }

    /// 0 of 4: z^2 / (4 + z^2) = 3.841459 / 7.841459 is the upper end, and of 4 of 4 the lower one 1 less that.
    #[test]
    fn a_share_of_none_has_a_width() {
        let close = |a: (f64, f64), b: (f64, f64)| assert!((a.0 - b.0).abs() < 1e-6 && (a.1 - b.1).abs() < 1e-6, "{a:?}");
        close(wilson(0.0, 4), (0.0, 0.489891));
        close(wilson(1.0, 4), (0.510109, 1.0));
        close(wilson(0.5, 4), (0.150039, 0.849961));
        close(wilson(0.0, 0), (0.0, 1.0));
        let (low, high) = wilson(0.0, 1000);
        assert!(low < 1e-9 && high < 0.0039, "{high}");
    }

    #[test]
    fn seeds_as_worked_by_hand() {
        // 0.6, 0.7, 0.8: mean 0.7, deviation 0.1, so 4.303 * 0.1 / sqrt(3) = 0.248434.
        let interval = over_seeds(&[0.6, 0.7, 0.8]).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(interval.value, 0.7) && close(interval.low, 0.451566) && close(interval.high, 0.948434), "{interval:?}");
        assert_eq!(over_seeds(&[3.0, 3.0]), Some(Interval { value: 3.0, low: 3.0, high: 3.0 }));
        assert_eq!((over_seeds(&[3.0]), over_seeds(&[])), (None, None));
        // Of 100 values, half of them 0 and half 1: deviation sqrt(25 / 99), 1.96 * 0.050252 = 0.098494.
        let many: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!(close(over_seeds(&many).unwrap().high, 0.598494));
    }
}
