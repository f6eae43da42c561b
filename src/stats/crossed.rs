//! How sure one can be of a mean over seeds and tasks, both drawn: seeds of a training, and tasks that each of them was measured on.

use super::Interval;
use crate::seed::Random;

/// One draw, with replacement: which seeds, and which tasks, the same ones for every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Places of seeds.
    pub seeds: Vec<usize>,
    /// Places of tasks.
    pub tasks: Vec<usize>,
}

/// Draws of as many seeds and as many tasks as there are, both with replacement (the pigeonhole bootstrap, Owen 2007).
pub fn draws(seeds: usize, tasks: usize, count: usize, seed: u64) -> Vec<Draw> {
    let mut random = Random::new(seed);
    let mut some = |n: usize| (0..n).map(|_| random.below(n)).collect::<Vec<_>>();
    (0..count).map(|_| Draw { seeds: some(seeds), tasks: some(tasks) }).collect()
}

/// The interval of `level` around `value`, which is a mean over `seeds` seeds, from what it came to in each draw: their deviation, larger by
/// sqrt(n / (n - 1)), since a draw of n seeds varies by (n - 1) / n of what n new ones would, times Student's t with n - 1 degrees of
/// freedom. Few seeds so make it wide, as they should. `None` for fewer than two seeds.
pub fn over_draws(value: f64, drawn: &[f64], seeds: usize, level: f64) -> Option<Interval> {
    if seeds < 2 || drawn.len() < 2 {
        return None;
    }
    let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
    let variance = drawn.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (drawn.len() - 1) as f64;
    let n = seeds as f64;
    let reach = student((1.0 + level) / 2.0, n - 1.0) * (variance * n / (n - 1.0)).sqrt();
    Some(Interval { value, low: value - reach, high: value + reach })
}

/// The interval of `level` of the mean of one value a seed: mean +- t * s / sqrt(n), s the sample deviation (Student 1908). `None` for fewer
/// than two seeds.
pub fn of_seeds(values: &[f64], level: f64) -> Option<Interval> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let reach = student((1.0 + level) / 2.0, n - 1.0) * (variance / n).sqrt();
    Some(Interval { value: mean, low: mean - reach, high: mean + reach })
}

/// The quantile at `p` (above a half) of Student's t distribution with `freedom` degrees of freedom, by halving: its distribution function
/// is 1 - I(freedom / (freedom + t^2); freedom / 2, 1 / 2) / 2, I the regularised incomplete beta function.
pub fn student(p: f64, freedom: f64) -> f64 {
    let upper = |t: f64| beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0;
    let (mut low, mut high) = (0.0, 1.0);
    while upper(high) > 1.0 - p && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if upper(middle) > 1.0 - p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 1964, 26.5.8), evaluated by Lentz's method.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (gamma(a + b) - gamma(a) - gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..500 {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step = c * d;
            fraction *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// ln of the gamma function (Lanczos 1964, with the coefficients of g = 7, n = 9).
fn gamma(x: f64) -> f64 {
    const C: [f64; 8] = [
        676.5203681218851,
        -1259.1392167224028,
        771.3234287776531,
        -176.6150291621406,
        12.507343278686905,
        -0.13857109526572012,
        9.984369578019572e-6,
        1.5056327351493116e-7,
    ];
    if x < 0.5 {
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = C.iter().zip(1..).fold(0.9999999999998099, |sum, (c, i)| sum + c / (x + f64::from(i)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From tables of the t distribution.
    #[test]
    fn quantiles_of_student() {
        for (p, freedom, expected) in [
            (0.975, 1.0, 12.7062),
            (0.975, 2.0, 4.30265),
            (0.975, 9.0, 2.26216),
            (0.995, 9.0, 3.24984),
            (0.9995, 4.0, 8.61030),
            (0.975, 1e6, 1.95997),
        ] {
            assert!((student(p, freedom) - expected).abs() < 1e-4 * expected, "{p} {freedom}: {}", student(p, freedom));
        }
        // 60, 70, 80: 4.303 * 10 / sqrt(3) = 24.84.
        let interval = of_seeds(&[60.0, 70.0, 80.0], 0.95).unwrap();
        assert!((interval.low - 45.159).abs() < 1e-2 && (interval.high - 94.841).abs() < 1e-2, "{interval:?}");
        assert_eq!(of_seeds(&[1.0], 0.95), None);
    }

    /// Ten seeds and 100 tasks, each value the sum of what its seed and its task bring, of deviation 1 and 2: the mean's is
    /// sqrt(1 / 10 + 4 / 100) = 0.374, where the seeds alone would say 0.316.
    #[test]
    fn both_seeds_and_tasks_count() {
        let mut random = Random::new(7);
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let standard = |mut values: Vec<f64>, deviation: f64| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let s = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            values.iter_mut().for_each(|v| *v = (*v - mean) / s * deviation);
            values
        };
        let seeds = standard((0..10).map(|_| normal()).collect(), 1.0);
        let tasks = standard((0..100).map(|_| normal()).collect(), 2.0);
        let value_of_draw = |draw: &Draw| {
            let mean = |which: &[usize], values: &[f64]| which.iter().map(|i| values[*i]).sum::<f64>() / which.len() as f64;
            mean(&draw.seeds, &seeds) + mean(&draw.tasks, &tasks)
        };
        let drawn: Vec<f64> = draws(10, 100, 4000, 3).iter().map(value_of_draw).collect();
        let interval = over_draws(0.0, &drawn, 10, 0.95).unwrap();
        let expected = student(0.975, 9.0) * (0.1f64 + 0.04).sqrt();
        // The tasks' part is larger by 10 / 9, too.
        assert!((interval.high / expected - 1.0).abs() < 0.06, "{} and {expected}", interval.high);
        assert_eq!(over_draws(0.0, &drawn, 1, 0.95), None);
    }
}
