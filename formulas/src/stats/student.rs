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
}
