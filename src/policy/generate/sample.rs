//! Draws one token from the logits of one row.

use crate::policy::Sampling;

/// The token drawn with the uniform number `unit`, and its log-probability under `log_softmax(logits / temperature)` over the
/// `allowed` tokens (`None`: all), to which `top_p` makes no difference. At temperature 0 the likeliest, the lowest of equals,
/// with its log-probability at temperature 1.
pub fn draw(logits: &[f32], allowed: Option<&[u32]>, sampling: &Sampling, unit: f64) -> (u32, f32) {
    let token = |i: usize| allowed.map_or(i as u32, |allowed| allowed[i]);
    let temperature = if sampling.temperature > 0.0 { sampling.temperature } else { 1.0 };
    let count = allowed.map_or(logits.len(), <[u32]>::len);
    let scaled: Vec<f64> = (0..count).map(|i| logits[token(i) as usize] as f64 / temperature).collect();
    let mut best = 0;
    for (i, x) in scaled.iter().enumerate() {
        if *x > scaled[best] {
            best = i;
        }
    }
    let weights: Vec<f64> = scaled.iter().map(|x| (x - scaled[best]).exp()).collect();
    let total: f64 = weights.iter().sum();
    let logprob = |i: usize| (scaled[i] - scaled[best] - total.ln()) as f32;
    if sampling.temperature <= 0.0 {
        return (token(best), logprob(best));
    }
    let kept = if sampling.top_p < 1.0 { nucleus(&weights, sampling.top_p * total) } else { vec![true; count] };
    let mass: f64 = weights.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(w, _)| w).sum();
    let (mut left, mut chosen) = (unit * mass, best);
    for i in (0..count).filter(|&i| kept[i]) {
        chosen = i;
        left -= weights[i];
        if left < 0.0 {
            break;
        }
    }
    (token(chosen), logprob(chosen))
}

/// The smallest set of likeliest tokens that reaches `mass`, the lower token first among equals (Holtzman et al. 2020).
fn nucleus(weights: &[f64], mass: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    let (mut kept, mut sum) = (vec![false; weights.len()], 0.0);
    for i in order {
        kept[i] = true;
        sum += weights[i];
        if sum >= mass {
            break;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(temperature: f64, top_p: f64) -> Sampling {
        Sampling { temperature, top_p, max_tokens: 1 }
    }

    #[test]
    fn inverse_of_the_distribution() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()]; // 1/8, 2/8, 5/8
        let at = |unit| draw(&logits, None, &sampling(1.0, 1.0), unit);
        assert_eq!([at(0.0).0, at(0.12).0, at(0.13).0, at(0.37).0, at(0.38).0, at(0.999).0], [0, 0, 1, 1, 2, 2]);
        assert!((at(0.2).1 - (0.25f32).ln()).abs() < 1e-6);
        let held = draw(&logits, Some(&[0, 1]), &sampling(1.0, 1.0), 0.5);
        assert_eq!(held.0, 1);
        assert!((held.1 - (2.0f32 / 3.0).ln()).abs() < 1e-6);
    }

    #[test]
    fn truncation_changes_the_draw_but_not_the_record() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()];
        let (token, logprob) = draw(&logits, None, &sampling(1.0, 0.7), 0.0);
        assert_eq!(token, 1, "the unlikeliest is cut off");
        assert!((logprob - (0.25f32).ln()).abs() < 1e-6);
        assert_eq!(draw(&logits, None, &sampling(1.0, 0.6), 0.0).0, 2);
    }

    #[test]
    fn greedy_and_temperature() {
        let logits = [1.0, 3.0, 3.0];
        assert_eq!(draw(&logits, None, &sampling(0.0, 1.0), 0.99).0, 1);
        let hot = draw(&logits, None, &sampling(2.0, 1.0), 0.0).1;
        assert!((hot as f64 - (1.0 / (1.0 + 2.0 * 1f64.exp())).ln()).abs() < 1e-6);
    }
}
