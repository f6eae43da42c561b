//! What several runs, alike but for their seeds, say together.

use super::Interval;

/// The 0.975 quantiles of Student's t distribution with 1, 2, ... 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The mean of one value a run, with its interval of 95%: mean +- t * s / sqrt(n), s the sample deviation (Student 1908). Beyond 31
/// runs t is the normal distribution's. `None` for fewer than two runs, which tell nothing of how much they vary.
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

    #[test]
    fn as_worked_by_hand() {
        // 0.6, 0.7, 0.8: mean 0.7, deviation 0.1, so 4.303 * 0.1 / sqrt(3) = 0.248434.
        let found = over_seeds(&[0.6, 0.7, 0.8]).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(found.value, 0.7) && close(found.low, 0.451566) && close(found.high, 0.948434), "{found:?}");
        assert_eq!(over_seeds(&[3.0, 3.0]), Some(Interval { value: 3.0, low: 3.0, high: 3.0 }));
        assert_eq!((over_seeds(&[3.0]), over_seeds(&[])), (None, None));
        // Of 100 values, half of them 0 and half 1: deviation sqrt(25 / 99), 1.96 * 0.050252 = 0.098494.
        let many: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        assert!(close(over_seeds(&many).unwrap().high, 0.598494));
    }
}
