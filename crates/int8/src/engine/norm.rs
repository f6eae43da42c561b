//! The norm by the root of the mean square (Zhang and Sennrich 2019): y = g x / sqrt(mean(x^2) + eps).

use crate::products::vectors::dot;

/// 1 / sqrt(mean(x^2) + eps).
#[inline(always)]
fn factor(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

vectorised! {
    /// Rows `x` `[rows, gain.len()]`, `stride` from one another, each normed into `y`, which is packed.
    pub fn normed(x: &[f32], stride: usize, gain: &[f32], eps: f32, y: &mut [f32]) {
        let width = gain.len();
        for (y, x) in y.chunks_exact_mut(width).zip(x.chunks(stride)) {
            let x = &x[..width];
            let factor = factor(x, eps);
            for ((y, x), gain) in y.iter_mut().zip(x).zip(gain) {
                *y = x * factor * gain;
            }
        }
    }

    /// Each head of `x` `[heads, gain.len()]` normed in place.
    pub fn heads_normed(x: &mut [f32], gain: &[f32], eps: f32) {
        for x in x.chunks_exact_mut(gain.len()) {
            let factor = factor(x, eps);
            for (x, gain) in x.iter_mut().zip(gain) {
                *x = *x * factor * gain;
            }
        }
    }

    /// Adds to `to` the gradient through [`normed`] of the packed rows `x` from rows of `dy`, `stride` from one
    /// another: with f the factor, f g dy - x f^3 mean(g dy x).
    pub fn back(x: &[f32], gain: &[f32], eps: f32, dy: &[f32], stride: usize, to: &mut [f32]) {
        let width = gain.len();
        let mut weighed = vec![0.0; width];
        for ((x, dy), to) in x.chunks_exact(width).zip(dy.chunks(stride)).zip(to.chunks_exact_mut(width)) {
            let factor = factor(x, eps);
            for ((weighed, dy), gain) in weighed.iter_mut().zip(dy).zip(gain) {
                *weighed = dy * gain;
            }
            let mean = dot(&weighed, x) / width as f32;
            let share = factor * factor * factor * mean;
            for ((to, weighed), x) in to.iter_mut().zip(&weighed).zip(x) {
                *to += factor * weighed - x * share;
            }
        }
    }

    /// In place of `d` `[heads, gain.len()]` the gradient through [`heads_normed`] of `x`.
    pub fn head_back(x: &[f32], gain: &[f32], eps: f32, d: &mut [f32]) {
        let width = gain.len();
        for (x, d) in x.chunks_exact(width).zip(d.chunks_exact_mut(width)) {
            let factor = factor(x, eps);
            d.iter_mut().zip(gain).for_each(|(d, gain)| *d *= gain);
            let mean = dot(d, x) / width as f32;
            let share = factor * factor * factor * mean;
            d.iter_mut().zip(x).for_each(|(d, x)| *d = factor * *d - x * share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::isa::Isa;

    /// x = (3, 4), mean square 12.5, gain (1, 2): (0.848528, 2.262742). The gradient from dy = (1, 0) by difference
    /// quotients.
    #[test]
    fn a_norm_as_worked_by_hand() {
        let norm = |x: [f32; 2]| {
            let mut y = [0.0; 2];
            normed(Isa::PLAIN, &x, 2, &[1.0, 2.0], 0.0, &mut y);
            y
        };
        let y = norm([3.0, 4.0]);
        assert!((y[0] - 0.848_528).abs() < 1e-6 && (y[1] - 2.262_742).abs() < 1e-6, "{y:?}");
        let mut to = [0.0; 2];
        back(Isa::PLAIN, &[3.0, 4.0], &[1.0, 2.0], 0.0, &[1.0, 0.0], 2, &mut to);
        let quotient = |a: [f32; 2], b: [f32; 2]| (norm(a)[0] - norm(b)[0]) / 0.02;
        let expected = [quotient([3.01, 4.0], [2.99, 4.0]), quotient([3.0, 4.01], [3.0, 3.99])];
        assert!(to.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{to:?} {expected:?}");
    }
}
