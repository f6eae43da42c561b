//! Draws one token from the logits of one row.

use crate::Sampling;

/// The token drawn with the uniform number `unit`, and its log-probability under `log_softmax(logits / temperature)`
/// over the `allowed` tokens (`None`: all), to which `top_k` and `top_p` make no difference. At temperature 0 the
/// likeliest, the lowest of equals, with its log-probability at temperature 1.
pub fn draw(logits: &[f32], allowed: Option<&[u32]>, sampling: &Sampling, unit: f64) -> (u32, f32) {
    let token = |i: usize| allowed.map_or(i as u32, |allowed| allowed[i]);
    let temperature = sampling.divisor();
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
    let included = truncated(&weights, sampling);
    let mass: f64 = weights.iter().zip(&included).filter(|(_, included)| **included).map(|(w, _)| w).sum();
    let (mut left, mut chosen) = (unit * mass, best);
    for i in (0..count).filter(|&i| included[i]) {
        chosen = i;
        left -= weights[i];
        if left < 0.0 {
            break;
        }
    }
    (token(chosen), logprob(chosen))
}

/// The log-probability of `token` among all, as [`draw`] records it.
pub fn recorded(logits: &[f32], sampling: &Sampling, token: u32) -> f32 {
    let scaled = |logit: f32| f64::from(logit) / sampling.divisor();
    let best = logits.iter().map(|&logit| scaled(logit)).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|&logit| (scaled(logit) - best).exp()).sum();
    (scaled(logits[token as usize]) - best - total.ln()) as f32
}

/// Which tokens are drawn from, by their weights (the largest is 1): of tokens with at least `min_p` of it (Nguyen et
/// al. 2024) the `top_k` likeliest (Fan et al. 2018), and of these the smallest set that has `top_p` of their
/// probability (Holtzman et al. 2020), the lower token first among equals. In this order, as vLLM truncates.
pub fn truncated(weights: &[f64], sampling: &Sampling) -> Vec<bool> {
    let most = if sampling.top_k == 0 { weights.len() } else { sampling.top_k.min(weights.len()) };
    let likely = |weight: &f64| *weight >= sampling.min_p;
    if most == weights.len() && sampling.top_p >= 1.0 {
        return weights.iter().map(likely).collect();
    }
    let weights: Vec<f64> = weights.iter().map(|weight| if likely(weight) { *weight } else { 0.0 }).collect();
    let order = likeliest(&weights, most, sampling.top_p);
    let mut included = vec![false; weights.len()];
    if sampling.top_p >= 1.0 {
        order.into_iter().for_each(|i| included[i] = likely(&weights[i]));
        return included;
    }
    let all = if most == weights.len() { weights.iter().sum() } else { order.iter().map(|&i| weights[i]).sum::<f64>() };
    let mass = sampling.top_p * all;
    let mut sum = 0.0;
    for i in order {
        included[i] = likely(&weights[i]);
        sum += weights[i];
        if sum >= mass {
            break;
        }
    }
    included
}

/// The `most` likeliest tokens, or of all of them enough for `top_p` of their probability; the likeliest first, the
/// lower first of equals. They are looked for among ever more, since few are likely.
fn likeliest(weights: &[f64], most: usize, top_p: f64) -> Vec<usize> {
    let order = |a: &usize, b: &usize| weights[*b].total_cmp(&weights[*a]).then(a.cmp(b));
    let mut all: Vec<usize> = (0..weights.len()).collect();
    let target = top_p * weights.iter().sum::<f64>();
    let mut count = if most == weights.len() { most.min(256) } else { most };
    loop {
        if count < all.len() {
            all.select_nth_unstable_by(count, order);
        }
        if count >= most || all[..count].iter().map(|&i| weights[i]).sum::<f64>() > target * (1.0 + 1e-9) {
            all.truncate(count);
            all.sort_unstable_by(order);
            return all;
        }
        count = (8 * count).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampling(temperature: f64, top_p: f64) -> Sampling {
        Sampling { temperature, top_p, max_tokens: 1, ..Default::default() }
    }

    #[test]
    fn inverse_of_the_distribution() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()]; // 1/8, 2/8, 5/8
        let at = |unit| draw(&logits, None, &sampling(1.0, 1.0), unit);
        assert_eq!([at(0.0).0, at(0.12).0, at(0.13).0, at(0.37).0, at(0.38).0, at(0.999).0], [0, 0, 1, 1, 2, 2]);
        assert!((at(0.2).1 - (0.25f32).ln()).abs() < 1e-6);
        let constrained = draw(&logits, Some(&[0, 1]), &sampling(1.0, 1.0), 0.5);
        assert_eq!(constrained.0, 1);
        assert!((constrained.1 - (2.0f32 / 3.0).ln()).abs() < 1e-6);
    }

    #[test]
    fn truncation_changes_the_draw_but_not_the_record() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()];
        let (token, logprob) = draw(&logits, None, &sampling(1.0, 0.7), 0.0);
        assert_eq!(token, 1, "the unlikeliest is cut off");
        assert!((logprob - (0.25f32).ln()).abs() < 1e-6);
        assert_eq!(draw(&logits, None, &sampling(1.0, 0.6), 0.0).0, 2);
    }

    /// Probabilities 1/8, 2/8, 5/8. The two likeliest have 2/7 and 5/7 of what is left: 0.7 of it is the likeliest
    /// alone, 0.8 is both, and 0.8 of all would have been both, too, but 0.9 of all would have been all three.
    #[test]
    fn top_k_comes_before_top_p() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()];
        let lowest = |top_k, top_p| draw(&logits, None, &Sampling { top_k, ..sampling(1.0, top_p) }, 0.0);
        assert_eq!([lowest(0, 1.0), lowest(2, 1.0), lowest(1, 1.0), lowest(9, 1.0)].map(|drawn| drawn.0), [0, 1, 2, 0]);
        assert_eq!([lowest(2, 0.7), lowest(2, 0.8), lowest(2, 0.95), lowest(0, 0.95)].map(|drawn| drawn.0), [2, 1, 1, 0]);
        assert!((lowest(2, 1.0).1 - (0.25f32).ln()).abs() < 1e-6, "what is recorded is the probability among all");
        // Half of the way through what is left: 2/7 of it is the second token's.
        let draws = |unit| draw(&logits, None, &Sampling { top_k: 2, ..sampling(1.0, 1.0) }, unit).0;
        assert_eq!([draws(0.28), draws(0.29)], [1, 2]);
    }

    /// Probabilities 1/8, 2/8, 5/8: the others have 0.2 and 0.4 of the likeliest. With 0.3 of it two are left, 2/7 and
    /// 5/7, of which `top_p: 0.7` is the likeliest alone.
    #[test]
    fn what_is_much_less_likely_than_the_likeliest_is_left_out() {
        let logits = [0.0, (2.0f32).ln(), (5.0f32).ln()];
        let lowest = |min_p, top_p| draw(&logits, None, &Sampling { min_p, ..sampling(1.0, top_p) }, 0.0);
        assert_eq!([0.0, 0.19, 0.21, 0.3, 0.39, 0.41, 1.0].map(|min_p| lowest(min_p, 1.0).0), [0, 0, 1, 1, 1, 2, 2]);
        assert_eq!([lowest(0.3, 0.7).0, lowest(0.3, 0.8).0, lowest(0.0, 0.8).0], [2, 1, 1]);
        assert!((lowest(0.3, 1.0).1 - (0.25f32).ln()).abs() < 1e-6, "what is recorded is the probability among all");
        let draws = |unit| draw(&logits, None, &Sampling { min_p: 0.3, ..sampling(1.0, 1.0) }, unit).0;
        assert_eq!([draws(0.28), draws(0.29)], [1, 2]);
    }

    #[test]
    fn greedy_and_temperature() {
        let logits = [1.0, 3.0, 3.0];
        assert_eq!(draw(&logits, None, &sampling(0.0, 1.0), 0.99).0, 1);
        let hot = draw(&logits, None, &sampling(2.0, 1.0), 0.0).1;
        assert!((hot as f64 - (1.0 / (1.0 + 2.0 * 1f64.exp())).ln()).abs() < 1e-6);
    }
}
