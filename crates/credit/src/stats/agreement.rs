//! How well one number, such as the credit of a turn, agrees with another that was measured with an error, such as what
//! the turn was worth.

use super::Interval;
use flow_core::seed::Random;
use std::collections::BTreeMap;

/// A number, and a measurement of the same thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// An id of the unit that shares its errors, such as the task.
    pub cluster: u64,
    pub credit: f64,
    pub worth: f64,
    /// The standard error of `worth`.
    pub error: f64,
}

impl Pair {
    /// Whether the measured value differs from 0 at the level of 5%.
    pub fn decided(&self) -> bool {
        self.worth.abs() > 1.96 * self.error
    }
}

/// Means, variances and the covariance of credit and worth.
fn moments(pairs: &[&Pair]) -> (f64, f64, f64) {
    let n = pairs.len().max(1) as f64;
    let mean = |of: fn(&Pair) -> f64| pairs.iter().map(|pair| of(pair)).sum::<f64>() / n;
    let (credit, worth) = (mean(|pair| pair.credit), mean(|pair| pair.worth));
    let sum = |of: &dyn Fn(&Pair) -> f64| pairs.iter().map(|pair| of(pair)).sum::<f64>() / n;
    (
        sum(&|pair| (pair.credit - credit).powi(2)),
        sum(&|pair| (pair.worth - worth).powi(2)),
        sum(&|pair| (pair.credit - credit) * (pair.worth - worth)),
    )
}

/// Pearson's correlation; none where either is constant.
pub fn correlation(pairs: &[&Pair]) -> Option<f64> {
    let (credit, worth, both) = moments(pairs);
    (credit > 0.0 && worth > 0.0).then(|| both / (credit * worth).sqrt())
}

/// The slope of worth on credit by least squares: what is worth more by one unit of credit; none where the credit is
/// constant.
pub fn slope(pairs: &[&Pair]) -> Option<f64> {
    let (credit, _, both) = moments(pairs);
    (credit > 0.0).then(|| both / credit)
}

/// The correlation that the true worth itself would have with the measured one: the root of the share of the variance
/// that isn't the measurement's own (Spearman 1904). None where nothing varies.
pub fn ceiling(pairs: &[&Pair]) -> Option<f64> {
    let noise = pairs.iter().map(|pair| pair.error.powi(2)).sum::<f64>() / pairs.len().max(1) as f64;
    let (_, worth, _) = moments(pairs);
    (worth > 0.0).then(|| (1.0 - noise / worth).max(0.0).sqrt())
}

/// The share of the pairs with both numbers other than 0 that have equal signs; none where there is no such pair.
pub fn same_sign(pairs: &[&Pair]) -> Option<f64> {
    let signed: Vec<&&Pair> = pairs.iter().filter(|pair| pair.credit != 0.0 && pair.worth != 0.0).collect();
    let same = signed.iter().filter(|pair| (pair.credit > 0.0) == (pair.worth > 0.0)).count();
    (!signed.is_empty()).then(|| same as f64 / signed.len() as f64)
}

/// The mean of the measured values.
pub fn mean_worth(pairs: &[&Pair]) -> Option<f64> {
    (!pairs.is_empty()).then(|| pairs.iter().map(|pair| pair.worth).sum::<f64>() / pairs.len() as f64)
}

/// Resamples of [`clustered`]: enough for the second digit.
const RESAMPLES: usize = 1000;

/// A figure of the pairs with its interval of 95%, by the percentile bootstrap over clusters (Efron and Tibshirani
/// 1993, section 13.3; clusters as a whole: Davison and Hinkley 1997, section 3.8). None where there is no such figure.
pub fn clustered(pairs: &[Pair], figure: fn(&[&Pair]) -> Option<f64>, seed: u64) -> Option<Interval> {
    let value = figure(&pairs.iter().collect::<Vec<_>>())?;
    let mut clusters: BTreeMap<u64, Vec<&Pair>> = BTreeMap::new();
    pairs.iter().for_each(|pair| clusters.entry(pair.cluster).or_default().push(pair));
    let clusters: Vec<Vec<&Pair>> = clusters.into_values().collect();
    let mut random = Random::new(seed);
    let mut draw = || (0..clusters.len()).flat_map(|_| clusters[random.below(clusters.len())].iter().copied()).collect::<Vec<_>>();
    let mut figures: Vec<f64> = (0..RESAMPLES).filter_map(|_| figure(&draw())).collect();
    figures.sort_by(f64::total_cmp);
    let at = |share: f64| figures.get((share * figures.len() as f64) as usize).copied().unwrap_or(value);
    Some(Interval { value, low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(cluster: u64, credit: f64, worth: f64) -> Pair {
        Pair { cluster, credit, worth, error: 0.5 }
    }

    /// Credits -1, 0, 1 with worths -2, 1, 1: means 0 and 0, variances 2/3 and 2, covariance 1. So r = 1 / sqrt(4/3),
    /// the slope 1.5, the ceiling sqrt(1 - 0.25 / 2); of the two pairs with a sign both agree.
    #[test]
    fn figures_worked_by_hand() {
        let pairs = [pair(1, -1.0, -2.0), pair(2, 0.0, 1.0), pair(3, 1.0, 1.0)];
        let all: Vec<&Pair> = pairs.iter().collect();
        let near = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
        near(correlation(&all), 0.75f64.sqrt());
        near(slope(&all), 1.5);
        near(ceiling(&all), 0.875f64.sqrt());
        near(same_sign(&all), 1.0);
        near(mean_worth(&all), 0.0);
        assert_eq!(pairs.map(|pair| pair.decided()), [true, true, true]);
        assert!(!pair(1, 0.0, 0.97).decided());
        let flat = [pair(1, 1.0, 2.0), pair(2, 1.0, -2.0)];
        let flat: Vec<&Pair> = flat.iter().collect();
        assert_eq!((correlation(&flat), slope(&flat), same_sign(&flat)), (None, None, Some(0.5)));
        assert_eq!((correlation(&[]), ceiling(&[]), same_sign(&[])), (None, None, None));
    }

    /// Ten pairs of a cluster say no more than one where they are equal, and a share of 0.3 of 100 clusters has the
    /// standard error 0.0458.
    #[test]
    fn clusters_are_drawn_whole() {
        let each = |n: usize| (0..100).flat_map(|task| vec![pair(task, if task < 30 { 1.0 } else { -1.0 }, 1.0); n]).collect::<Vec<_>>();
        let [one, ten] = [1, 10].map(|n| clustered(&each(n), same_sign, 3).unwrap());
        assert_eq!((one.value, one.low, one.high), (ten.value, ten.low, ten.high));
        assert!((one.low - 0.21).abs() <= 0.0201 && (one.high - 0.39).abs() <= 0.0201, "{one:?}");
        assert_eq!(clustered(&[], same_sign, 3), None);
    }
}
