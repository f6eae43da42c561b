//! How sure one can be of a mean over seeds and tasks, both drawn: seeds of a training, and tasks that each of them was
//! measured on.

use super::student::{noncentrality, student, tail};
use flow_credit::stats::Interval;

/// A mean, and its variance in two parts.
///
/// The interval is mean +- t * s. s is the root of the sum of both parts, and t the mean of Student's quantiles for
/// each part, weighted by the parts (Cochran and Cox 1950, for two samples of unequal variance). At 95% it covers 94 to
/// 97.5%, whichever part dominates: `coverage.rs` simulates it. The exception are three seeds with effects of an even
/// distribution that outweigh all else: 92%, as of Student's t.
///
/// Two other methods cover less well. Satterthwaite's degrees of freedom are estimated, from two with three seeds:
/// intervals of 95% then cover 89 to 97%, and of 99.9%, which a page of fifty comparisons needs, they miss up to
/// fifteen times too often. The pigeonhole bootstrap (Owen
/// 2007) counts the noise of a pair of seed and task three times: it covers 99 to 100%.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// The variance that seeds bring, and with it what a pair of seed and task brings.
    by_seed: f64,
    /// What tasks bring beyond it.
    by_task: f64,
    seeds: usize,
    tasks: usize,
}

impl Estimate {
    /// The mean of one value a seed, of seeds alone (Student 1908). `None` for fewer than two seeds.
    pub fn of_seeds(values: &[f64]) -> Option<Estimate> {
        let (seeds, n) = (values.len(), values.len() as f64);
        let value = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0);
        (seeds > 1).then_some(Estimate { value, by_seed: variance / n, by_task: 0.0, seeds, tasks: 0 })
    }

    /// The mean `value` of a matrix with a row a seed and a column a task, both drawn, by the analysis of variance of
    /// two crossed random effects without repetition: MSA / (RC) is the seeds' part, max(MSB - MSE, 0) / (RC) the
    /// tasks'. `None` for fewer than two of either, and where rows differ in length.
    pub fn crossed(value: f64, matrix: &[Vec<f64>]) -> Option<Estimate> {
        let (seeds, tasks) = (matrix.len(), matrix.first().map_or(0, Vec::len));
        if seeds < 2 || tasks < 2 || matrix.iter().any(|row| row.len() != tasks) {
            return None;
        }
        let (r, c) = (seeds as f64, tasks as f64);
        let of_seed: Vec<f64> = matrix.iter().map(|row| row.iter().sum::<f64>() / c).collect();
        let of_task: Vec<f64> = (0..tasks).map(|j| matrix.iter().map(|row| row[j]).sum::<f64>() / r).collect();
        let mean = of_seed.iter().sum::<f64>() / r;
        let squares = |means: &[f64]| means.iter().map(|m| (m - mean).powi(2)).sum::<f64>();
        let rest = |(row, a): (&Vec<f64>, &f64)| row.iter().zip(&of_task).map(|(x, b)| (x - a - b + mean).powi(2)).sum::<f64>();
        let msa = c * squares(&of_seed) / (r - 1.0);
        let msb = r * squares(&of_task) / (c - 1.0);
        let mse = matrix.iter().zip(&of_seed).map(rest).sum::<f64>() / ((r - 1.0) * (c - 1.0));
        Some(Estimate { value, by_seed: msa / (r * c), by_task: (msb - mse).max(0.0) / (r * c), seeds, tasks })
    }

    /// The standard error.
    fn error(&self) -> f64 {
        (self.by_seed + self.by_task).sqrt()
    }

    /// The quantile at `p` of the value's distance from the truth, in standard errors.
    fn quantile(&self, p: f64) -> f64 {
        self.weighted(|freedom| student(p, freedom))
    }

    /// What a number of degrees of freedom gives, weighted by the parts.
    fn weighted(&self, of: impl Fn(f64) -> f64) -> f64 {
        let of = |n: usize| of(n as f64 - 1.0);
        if self.by_task == 0.0 {
            return of(self.seeds);
        }
        (self.by_seed * of(self.seeds) + self.by_task * of(self.tasks)) / (self.by_seed + self.by_task)
    }

    /// The interval of `level`.
    pub fn interval(&self, level: f64) -> Interval {
        let reach = self.error() * self.quantile((1.0 + level) / 2.0);
        Interval { value: self.value, low: self.value - reach, high: self.value + reach }
    }

    /// The two-sided p of the value against 0: the interval of level 1 - p ends there.
    pub fn p(&self) -> f64 {
        if self.value == 0.0 || self.error() == 0.0 {
            return if self.value == 0.0 { 1.0 } else { 0.0 };
        }
        let distance = self.value.abs() / self.error();
        if self.by_task == 0.0 {
            return 2.0 * tail(distance, self.seeds as f64 - 1.0);
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..50 {
            let p = (low + high) / 2.0;
            if self.quantile(1.0 - p / 2.0) > distance {
                low = p;
            } else {
                high = p;
            }
        }
        (low + high) / 2.0
    }

    /// The difference from 0 that at this spread has p at most `p` with probability `power`, by the noncentral t. The sum
    /// of two quantiles is less: at a level of 0.05 / 12 by 16% for three seeds and by 1% for twenty. `coverage.rs`
    /// simulates it.
    pub fn detectable(&self, p: f64, power: f64) -> f64 {
        self.error() * self.weighted(|freedom| noncentrality(1.0 - p / 2.0, power, freedom))
    }
}

/// What each task of a seed brings to a value of its tasks, whatever function of them it is: the pseudo-values of the
/// jackknife (Tukey 1958), from the `whole` value and the one `without` each task. Those of a mean are its values
/// themselves.
pub fn pseudo_values(whole: f64, without: &[f64]) -> Vec<f64> {
    let n = without.len() as f64;
    without.iter().map(|without| n * whole - (n - 1.0) * without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds have the means 1, 3, 5, tasks 1 and 5: MSA 8, MSB 24, MSE 2. So 8/6 of seeds and 22/6 of tasks, whose root
    /// is 2.236068, times (8 * 4.302653 + 22 * 12.706205) / 30 = 10.465258.
    #[test]
    fn an_interval_worked_by_hand() {
        let matrix = [vec![0.0, 2.0], vec![1.0, 5.0], vec![2.0, 8.0]];
        let estimate = Estimate::crossed(3.0, &matrix).unwrap();
        let interval = estimate.interval(0.95);
        assert!((interval.high - 3.0 - 23.401027).abs() < 1e-4 && (3.0 - interval.low - 23.401027).abs() < 1e-4, "{interval:?}");
        // Where the interval of level 1 - p ends at 0.
        let end = estimate.interval(1.0 - estimate.p()).low;
        assert!(end.abs() < 1e-6 && estimate.p() > 0.05, "{end}");
        assert_eq!((Estimate::crossed(3.0, &matrix[..1]), Estimate::crossed(1.0, &[vec![1.0], vec![2.0]])), (None, None));
    }

    /// 60, 70, 80: 4.302653 * 10 / sqrt(3) = 24.8414. 70 is 12.124356 standard errors from 0: p = 1 - 12.124356 /
    /// sqrt(2 + 147) = 0.006734.
    #[test]
    fn seeds_alone_are_students() {
        let estimate = Estimate::of_seeds(&[60.0, 70.0, 80.0]).unwrap();
        let interval = estimate.interval(0.95);
        assert!((interval.low - 45.1586).abs() < 1e-3 && (interval.high - 94.8414).abs() < 1e-3, "{interval:?}");
        assert!((estimate.p() - 0.006734).abs() < 1e-5, "{}", estimate.p());
        // 5.65349 standard errors of 5.773503, by the noncentral t with two degrees of freedom.
        assert!((estimate.detectable(0.05, 0.8) - 32.6404).abs() < 1e-3, "{}", estimate.detectable(0.05, 0.8));
        assert_eq!((Estimate::of_seeds(&[1.0]), Estimate::of_seeds(&[])), (None, None));
        let same = |value: f64| Estimate::of_seeds(&[value; 3]).unwrap().p();
        assert_eq!((same(0.0), same(2.0)), (1.0, 0.0));
    }

    /// Tasks that make no difference leave the seeds' own interval; seeds that make none leave the tasks'.
    #[test]
    fn either_part_alone_is_its_own_interval() {
        let close = |a: Interval, b: Interval| (a.low - b.low).abs() < 1e-9 && (a.high - b.high).abs() < 1e-9;
        let by_seed = Estimate::crossed(2.0, &[vec![1.0; 4], vec![2.0; 4], vec![3.0; 4]]).unwrap().interval(0.95);
        assert!(close(by_seed, Estimate::of_seeds(&[1.0, 2.0, 3.0]).unwrap().interval(0.95)), "{by_seed:?}");
        let by_task = Estimate::crossed(2.0, &vec![vec![1.0, 2.0, 3.0]; 5]).unwrap().interval(0.95);
        assert!(close(by_task, Estimate::of_seeds(&[1.0, 2.0, 3.0]).unwrap().interval(0.95)), "{by_task:?}");
    }
}
