//! Student's t distribution.

/// The quantile at `p` (above a half) of Student's t distribution with `freedom` degrees of freedom, by halving.
pub fn student(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, freedom) > 1.0 - p && high < 1e12 {
        high *= 2.0;
    }
    while high - low > 1e-13 * high {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if tail(middle, freedom) > 1.0 - p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The probability of a value above `t` (at least 0): I(freedom / (freedom + t^2); freedom / 2, 1 / 2) / 2, I the
/// regularised incomplete beta function.
pub fn tail(t: f64, freedom: f64) -> f64 {
    beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0
}

/// The probability of a value above `t` of the noncentral t distribution: (Z + `shift`) / sqrt(V / freedom), with Z
/// normal and V chi-squared. It is the mean of P(Z > t w - shift) over w = sqrt(V / freedom), by Simpson's rule.
pub fn noncentral(t: f64, freedom: f64, shift: f64) -> f64 {
    const STEPS: usize = 2000;
    let constant = std::f64::consts::LN_2 + freedom / 2.0 * (freedom / 2.0).ln() - gamma(freedom / 2.0);
    let density = |w: f64| if w > 0.0 { (constant + (freedom - 1.0) * w.ln() - freedom * w * w / 2.0).exp() } else { 0.0 };
    // Beyond ten deviations of w, which are at most 1 / sqrt(2 freedom) each, there is nothing.
    let reach = 10.0 / (2.0 * freedom).sqrt();
    let (low, high) = ((1.0 - reach).max(0.0), 1.0 + reach);
    let step = (high - low) / STEPS as f64;
    let term = |i: usize| {
        let w = low + i as f64 * step;
        let weight = if i == 0 || i == STEPS { 1.0 } else { [2.0, 4.0][i % 2] };
        weight * density(w) * (1.0 - normal(t * w - shift))
    };
    (0..=STEPS).map(term).sum::<f64>() * step / 3.0
}

/// How many standard errors from 0 a mean must be, so that with probability `power` it is above the quantile at `p` of
/// Student's t distribution.
pub fn noncentrality(p: f64, power: f64, freedom: f64) -> f64 {
    let t = student(p, freedom);
    let (mut low, mut high) = (0.0, t + 1.0);
    while noncentral(t, freedom, high) < power && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if noncentral(t, freedom, middle) < power {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, 26.2.17).
fn normal(x: f64) -> f64 {
    const B: [f64; 5] = [0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429];
    let k = 1.0 / (1.0 + 0.2316419 * x.abs());
    let above = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * B.iter().rev().fold(0.0, |sum, b| (sum + b) * k);
    if x < 0.0 {
        above
    } else {
        1.0 - above
    }
}

/// The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 1964, 26.5.8), evaluated
/// by Lentz's method.
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
            assert!((tail(student(p, freedom), freedom) - (1.0 - p)).abs() < 1e-9, "{p} {freedom}");
        }
    }

    /// From SciPy's `nct`. Without a shift it is Student's; with one degree of freedom fewer the tails are long.
    #[test]
    fn a_shifted_mean_is_above() {
        for (t, freedom, shift, expected) in
            [(4.302653, 2.0, 5.0, 0.7191805), (2.262157, 9.0, 3.0, 0.7611553), (31.6, 2.0, 40.0, 0.7981247), (2.0, 4.0, 0.0, 0.0580583)]
        {
            assert!((noncentral(t, freedom, shift) - expected).abs() < 1e-5, "{t} {freedom} {shift}: {}", noncentral(t, freedom, shift));
        }
        // n - 1 degrees of freedom, at a level of 0.05 / k: of three, five, eight and twenty seeds.
        for (freedom, k, expected) in [
            (2.0, 1.0, 5.65349),
            (2.0, 12.0, 19.6486),
            (2.0, 43.0, 37.20108),
            (4.0, 12.0, 7.39853),
            (7.0, 43.0, 6.50882),
            (19.0, 12.0, 4.16191),
        ] {
            let found = noncentrality(1.0 - 0.025 / k, 0.8, freedom);
            assert!((found / expected - 1.0).abs() < 1e-4, "{freedom} {k}: {found}");
        }
    }
}
