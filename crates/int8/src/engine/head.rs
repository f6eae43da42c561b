//! The head: logits or values of final states, and log-probabilities of logits: each row by itself, in an order that
//! its length decides.

use super::{AdaptedEngine, Engine};
use crate::products::dense::StridedRows;
use crate::products::isa::Isa;
use crate::products::rounded::Rounded;
use crate::products::vectors::{dot, exp, sum, LANES};

/// Logits whose masses are added up at a time.
pub const MASS: usize = 256;
/// States whose logits are there at a time.
const CHUNK: usize = 64;

vectorised! {
    /// The sums of exp((logit - largest) / temperature) over each [`MASS`] of `logits`.
    fn sums(logits: &[f32], temperature: f32, most: f32) -> Vec<f32> {
        let inverse = 1.0 / temperature;
        let mut sums = Vec::with_capacity(logits.len().div_ceil(MASS));
        for logits in logits.chunks(MASS) {
            let mut total = V::splat(0.0);
            let mut chunks = logits.chunks_exact(LANES);
            for logits in chunks.by_ref() {
                total = total.add(V::load(logits).sub(V::splat(most)).mul(V::splat(inverse)).exp());
            }
            let mut total = total.lanes();
            for (total, logit) in total.iter_mut().zip(chunks.remainder()) {
                *total += exp((logit - most) * inverse);
            }
            sums.push(sum(total));
        }
        sums
    }

    /// The largest of `logits`.
    fn largest(logits: &[f32]) -> f32 {
        let mut most = V::splat(f32::NEG_INFINITY);
        let mut chunks = logits.chunks_exact(LANES);
        for logits in chunks.by_ref() {
            most = V::load(logits).max(most);
        }
        let most = most.lanes().into_iter().chain(chunks.remainder().iter().copied());
        most.fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }

    /// The entropy in nats of a distribution with that mass: mass - sum of p (logit - largest) / temperature.
    pub fn entropy(logits: &[f32], temperature: f32, mass: (f32, f32)) -> f32 {
        let inverse = 1.0 / temperature;
        let mut total = V::splat(0.0);
        let mut chunks = logits.chunks_exact(LANES);
        for logits in chunks.by_ref() {
            let scaled = V::load(logits).sub(V::splat(mass.0)).mul(V::splat(inverse));
            total = scaled.sub(V::splat(mass.1)).exp().fma(scaled, total);
        }
        let mut total = total.lanes();
        for (total, logit) in total.iter_mut().zip(chunks.remainder()) {
            let scaled = (logit - mass.0) * inverse;
            *total = exp(scaled - mass.1).mul_add(scaled, *total);
        }
        mass.1 - sum(total)
    }

    /// The sum of the squared probabilities of a distribution with that mass.
    pub fn squares(logits: &[f32], temperature: f32, mass: (f32, f32)) -> f32 {
        let inverse = 1.0 / temperature;
        let mut total = V::splat(0.0);
        let mut chunks = logits.chunks_exact(LANES);
        for logits in chunks.by_ref() {
            let share = V::load(logits).sub(V::splat(mass.0)).mul(V::splat(inverse)).sub(V::splat(mass.1)).exp();
            total = share.fma(share, total);
        }
        let mut total = total.lanes();
        for (total, logit) in total.iter_mut().zip(chunks.remainder()) {
            let share = exp((logit - mass.0) * inverse - mass.1);
            *total = share.mul_add(share, *total);
        }
        sum(total)
    }

    /// The sum of the products.
    fn dot_product(a: &[f32], b: &[f32]) -> f32 {
        dot(a, b)
    }

    /// Adds to `to` the gradient of the entropy `entropy` by `logits`, -p (ln p + entropy) / temperature, times
    /// `share`.
    pub fn add_entropy_slopes(logits: &[f32], temperature: f32, mass: (f32, f32), entropy: f32, share: f32, to: &mut [f32]) {
        let (inverse, scale) = (1.0 / temperature, -share / temperature);
        let (mut whole, mut chunks) = (to.chunks_exact_mut(LANES), logits.chunks_exact(LANES));
        for (to, logits) in whole.by_ref().zip(chunks.by_ref()) {
            let log = V::load(logits).sub(V::splat(mass.0)).mul(V::splat(inverse)).sub(V::splat(mass.1));
            log.exp().mul(log.sub(V::splat(-entropy))).fma(V::splat(scale), V::load(to)).store(to);
        }
        for (to, logit) in whole.into_remainder().iter_mut().zip(chunks.remainder()) {
            let log = (logit - mass.0) * inverse - mass.1;
            *to = (exp(log) * (log + entropy)).mul_add(scale, *to);
        }
    }

    /// The value of each of `states` `[n, width]` by the head `weights` `[width]`.
    pub fn values(states: &[f32], weights: &[f32]) -> Vec<f32> {
        states.chunks_exact(weights.len()).map(|state| dot(state, weights)).collect()
    }

    /// Adds to `to` the probabilities of `logits` times `share`.
    pub fn add_probabilities(logits: &[f32], temperature: f32, mass: (f32, f32), share: f32, to: &mut [f32]) {
        let inverse = 1.0 / temperature;
        let (mut whole, mut chunks) = (to.chunks_exact_mut(LANES), logits.chunks_exact(LANES));
        for (to, logits) in whole.by_ref().zip(chunks.by_ref()) {
            let scaled = V::load(logits).sub(V::splat(mass.0)).mul(V::splat(inverse)).sub(V::splat(mass.1));
            scaled.exp().fma(V::splat(share), V::load(to)).store(to);
        }
        for (to, logit) in whole.into_remainder().iter_mut().zip(chunks.remainder()) {
            *to = exp((logit - mass.0) * inverse - mass.1).mul_add(share, *to);
        }
    }
}

/// What the gradient of the entropy H by the logits, g_j = -p_j (ln p_j + H) / temperature, is beside that of the
/// log-probability of `logits[token]`: the product of the two, (g_token - the sum of p_j g_j) / temperature, and the
/// square of its norm.
pub fn entropy_bend(isa: Isa, logits: &[f32], token: usize, temperature: f32, mass: (f32, f32)) -> (f32, f32) {
    let (mut shares, mut slopes) = (vec![0.0; logits.len()], vec![0.0; logits.len()]);
    add_probabilities(isa, logits, temperature, mass, 1.0, &mut shares);
    add_entropy_slopes(isa, logits, temperature, mass, entropy(isa, logits, temperature, mass), 1.0, &mut slopes);
    let mean = dot_product(isa, &shares, &slopes);
    ((slopes[token] - mean) / temperature, dot_product(isa, &slopes, &slopes))
}

/// The largest of `logits`, and the logarithm of the sum of exp((logit - largest) / temperature): with them the
/// log-probability of token i is `(logits[i] - largest) / temperature` less the second, in nats. Nothing where a logit is
/// NaN or infinite.
pub fn mass(isa: Isa, logits: &[f32], temperature: f32) -> (f32, f32) {
    masses(isa, logits, temperature).1
}

/// The sums of exp((logit - largest) / temperature) over each [`MASS`] of `logits`, and what [`mass`] makes of them.
pub fn masses(isa: Isa, logits: &[f32], temperature: f32) -> (Vec<f32>, (f32, f32)) {
    let most = largest(isa, logits);
    let sums = sums(isa, logits, temperature, most);
    let total: f64 = sums.iter().map(|&sum| f64::from(sum)).sum();
    (sums, (most, total.ln() as f32))
}

/// The log-probability of `logits[token]` at `temperature`, given their mass.
pub fn logprob(logit: f32, temperature: f32, mass: (f32, f32)) -> f32 {
    (logit - mass.0) * (1.0 / temperature) - mass.1
}

/// The norm of the gradient of the log-probability of `logits[token]` at `temperature` T by the logits, given their
/// mass: sqrt((1 - p)^2 + the sum of the others' squared probabilities) / T. The token is left out of that sum, and not
/// taken off it, so that little is lost where p is nearly 1.
pub fn slope(isa: Isa, logits: &[f32], token: usize, temperature: f32, mass: (f32, f32)) -> f32 {
    let others = squares(isa, &logits[..token], temperature, mass) + squares(isa, &logits[token + 1..], temperature, mass);
    let rest = logprob(logits[token], temperature, mass).exp_m1();
    (rest * rest + others).sqrt() / temperature
}

/// Calls `each` with the logits of each of `states` `[n, width]`, final states after the last norm, in their order; of
/// a critic with its value.
pub fn each_output(running: &AdaptedEngine, states: &[f32], mut each: impl FnMut(usize, &mut [f32])) {
    let Engine { isa, config, .. } = &*running.engine;
    if let Some(head) = &running.adapters.head {
        let mut values = values(*isa, states, &head.weights);
        return values.chunks_mut(1).enumerate().for_each(|(i, value)| each(i, value));
    }
    let output = running.engine.output();
    let (mut rounded, mut y) = (Rounded::default(), Vec::new());
    for (number, states) in states.chunks(CHUNK * config.width).enumerate() {
        let count = states.len() / config.width;
        output.multiply(*isa, StridedRows { numbers: states, stride: config.width, count }, &mut rounded, &mut y);
        for (i, row) in y.chunks_mut(output.stride()).take(count).enumerate() {
            each(number * CHUNK + i, &mut row[..config.tokens]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities 1/8, 2/8, 5/8: entropy 0.900256 nats; at temperature 2 they go with 1, sqrt 2, sqrt 5.
    #[test]
    fn probabilities_as_worked_by_hand() {
        let logits = [0.0, 2f32.ln(), 5f32.ln()];
        let mass_at = |temperature: f32| mass(Isa::PLAIN, &logits, temperature);
        assert!((logprob(logits[1], 1.0, mass_at(1.0)) - 0.25f32.ln()).abs() < 1e-6);
        assert!((entropy(Isa::PLAIN, &logits, 1.0, mass_at(1.0)) - 0.900_256).abs() < 1e-5);
        // (1 - 1/4)^2 + (1/8)^2 + (5/8)^2 = 0.96875; its root is 0.984251.
        assert!((slope(Isa::PLAIN, &logits, 1, 1.0, mass_at(1.0)) - 0.984_251).abs() < 1e-6);
        let hot = 2f32.sqrt() / (1.0 + 2f32.sqrt() + 5f32.sqrt());
        assert!((logprob(logits[1], 2.0, mass_at(2.0)) - hot.ln()).abs() < 1e-6);
        // Slopes of the entropy, -p (ln p + H): 0.147398, 0.121510, -0.268908. Beside that of the second token's
        // log-probability: 0.121510 - (0.147398 + 2 x 0.121510 - 5 x 0.268908) / 8 = 0.240775 and the square of the
        // norm 0.108803.
        let mut slopes = [0.0; 3];
        add_entropy_slopes(Isa::PLAIN, &logits, 1.0, mass_at(1.0), 0.900_256, 1.0, &mut slopes);
        assert!(slopes.iter().zip([0.147_398, 0.121_510, -0.268_908]).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-5), "{slopes:?}");
        let (cross, square) = entropy_bend(Isa::PLAIN, &logits, 1, 1.0, mass_at(1.0));
        assert!((cross - 0.240_775).abs() < 1e-5 && (square - 0.108_803).abs() < 1e-5, "{cross} {square}");
        let mut to = [1.0; 3];
        add_probabilities(Isa::PLAIN, &logits, 1.0, mass_at(1.0), 8.0, &mut to);
        assert!(to.iter().zip([2.0, 3.0, 6.0]).all(|(a, b)| (a - b).abs() < 1e-5), "{to:?}");
    }
}
