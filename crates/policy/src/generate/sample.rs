//! Draws one token from the logits of one row as the engine computes them; [`flow_model::draw`] is the same in f64.

use flow_int8::engine::head::{logprob, masses, MASS};
use flow_int8::products::isa::Isa;
use flow_model::draw::truncated;
use flow_model::Sampling;

/// The same as [`draw_row`] records it.
pub fn recorded_row(isa: Isa, logits: &[f32], sampling: &Sampling, token: u32) -> f32 {
    let temperature = sampling.divisor() as f32;
    let (_, mass) = masses(isa, logits, temperature);
    logprob(logits[token as usize], temperature, mass)
}

/// As [`draw`], with exponentials in f32 and the sums that learning has: see [`flow_int8::engine::head`]. What is
/// recorded has the bits that learning computes.
pub fn draw_row(isa: Isa, logits: &[f32], allowed: Option<&[u32]>, sampling: &Sampling, unit: f64) -> (u32, f32) {
    if let Some(allowed) = allowed {
        let restricted: Vec<f32> = allowed.iter().map(|&token| logits[token as usize]).collect();
        let (i, logprob) = draw_row(isa, &restricted, None, sampling, unit);
        return (allowed[i as usize], logprob);
    }
    let temperature = sampling.divisor() as f32;
    let (sums, mass) = masses(isa, logits, temperature);
    let chosen = if sampling.temperature <= 0.0 {
        logits.iter().position(|logit| *logit == mass.0).unwrap_or(0)
    } else if !sampling.truncates() {
        inverse(logits, temperature, mass.0, &sums, unit)
    } else {
        let weights: Vec<f64> = logits.iter().map(|logit| f64::from((logit - mass.0) / temperature).exp()).collect();
        let included = truncated(&weights, sampling);
        let total: f64 = weights.iter().zip(&included).filter(|(_, included)| **included).map(|(weight, _)| weight).sum();
        let mut left = unit * total;
        let mut chosen = 0;
        for i in (0..weights.len()).filter(|&i| included[i]) {
            chosen = i;
            left -= weights[i];
            if left < 0.0 {
                break;
            }
        }
        chosen
    };
    (chosen as u32, logprob(logits[chosen], temperature, mass))
}

/// The first token up to which the masses come to more than `unit` of them all: block by block, then within one.
fn inverse(logits: &[f32], temperature: f32, most: f32, sums: &[f32], unit: f64) -> usize {
    let mut left = unit * sums.iter().map(|&sum| f64::from(sum)).sum::<f64>();
    let mut block = 0;
    while block + 1 < sums.len() && left >= f64::from(sums[block]) {
        left -= f64::from(sums[block]);
        block += 1;
    }
    let mut chosen = block * MASS;
    for (i, logit) in logits.iter().enumerate().skip(block * MASS).take(MASS) {
        let weight = f64::from((logit - most) / temperature).exp();
        // What can't be drawn is passed over, also where rounding leaves something at the end.
        if weight > 0.0 {
            chosen = i;
        }
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_model::draw::{draw, recorded};

    fn sampling(temperature: f64, top_p: f64) -> Sampling {
        Sampling { temperature, top_p, max_tokens: 1, ..Default::default() }
    }

    /// Row by row the same tokens are drawn, with the same probabilities up to rounding.
    #[test]
    fn a_row_is_drawn_like_any() {
        let mut random = flow_core::seed::Random::new(4);
        let logits: Vec<f32> = (0..3000).map(|_| 6.0 * random.unit() as f32).collect();
        let subset = [5u32, 17, 2999];
        for sampling in [
            sampling(1.0, 1.0),
            sampling(0.7, 0.9),
            sampling(0.0, 1.0),
            Sampling { top_k: 40, ..sampling(1.3, 1.0) },
            Sampling { top_k: 40, ..sampling(1.3, 0.5) },
            Sampling { min_p: 0.5, top_k: 400, ..sampling(1.3, 0.9) },
            Sampling { min_p: 0.5, ..sampling(1.3, 1.0) },
        ] {
            for i in 0..50 {
                for allowed in [None, Some(&subset[..])] {
                    let unit = (f64::from(i) + 0.5) / 50.0;
                    let (token, logprob) = draw(&logits, allowed, &sampling, unit);
                    let (other, other_logprob) = draw_row(Isa::chosen(), &logits, allowed, &sampling, unit);
                    assert!(
                        token == other && (logprob - other_logprob).abs() < 1e-5,
                        "{sampling:?}: {token} {logprob}, {other} {other_logprob}"
                    );
                    if allowed.is_none() {
                        let again = (recorded(&logits, &sampling, token), recorded_row(Isa::chosen(), &logits, &sampling, token));
                        assert_eq!(again, (logprob, other_logprob));
                    }
                }
            }
        }
    }
}
