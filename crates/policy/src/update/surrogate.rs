//! The surrogate: how a token's ratio and advantage become its loss. A shape is a value of [`Surrogate`], a function
//! here and a line of [`loss`].

use crate::numbers::{Kind, Tensor};
use crate::update::loss::{distance, Rows, LOG_RATIO};
use flow_core::seed::{mix, text, Random};
use flow_model::{Surrogate, TrustRegion, UpdateSettings};

/// What a surrogate is made of, a value a token: each `[tokens]`.
pub struct SurrogateInput<'a> {
    /// The log-probabilities under the weights that learn.
    pub new: &'a Tensor,
    /// The ratio's denominator.
    pub old: &'a Tensor,
    /// Log-probabilities recorded by the policy that acted.
    pub acted: &'a Tensor,
    /// The ratio of the two, of a token or of its row.
    pub ratio: &'a Tensor,
    /// The advantage.
    pub advantage: &'a Tensor,
    /// Which row a token is of.
    pub rows: &'a Rows,
    /// 1 for the tokens that covary most, where the surrogate asks for them, else 0.
    pub covary: &'a Tensor,
}

/// The loss of each token by the settings' surrogate, and whether it was clipped or masked.
pub fn loss(tokens: &SurrogateInput, settings: &UpdateSettings) -> (Tensor, Tensor) {
    let bounds = (settings.clip, settings.clip_high.unwrap_or(settings.clip));
    let (loss, clipped) = match settings.surrogate {
        Surrogate::Clip => clip(tokens, bounds, settings.dual_clip),
        Surrogate::Cispo => cispo(tokens, bounds),
        Surrogate::Sapo => sapo(tokens, settings.gate, settings.gate_below),
        Surrogate::Gmpo => gmpo(tokens, bounds),
        Surrogate::Dppo => dppo(tokens, bounds, settings.region),
        Surrogate::KlCov => kl_cov(tokens, settings.covary_kl),
        Surrogate::ClipCov => clip_cov(tokens, bounds, settings.dual_clip),
        Surrogate::Vespo => vespo(tokens, settings.power, settings.damping),
        // A function computes it before this is asked.
        Surrogate::Function => (-(tokens.ratio * tokens.advantage), tokens.ratio.detach().zeros_like()),
    };
    let Some(most) = settings.mask_drift else { return (loss, clipped) };
    let masked = drifted(tokens, most);
    (loss.masked_fill(&masked, 0.0), clipped.logical_or(&masked))
}

/// PPO's clip (Schulman et al. 2017), with two bounds (DAPO, Yu et al. 2025) and a dual clip (Ye et al. 2020, Eq. 5): m
/// = max(-A ratio, -A clamp(ratio, 1 - low, 1 + high)), and where A < 0 and a `dual` clip c is set the lesser of m and
/// -A c.
fn clip(tokens: &SurrogateInput, (low, high): (f64, f64), dual: Option<f64>) -> (Tensor, Tensor) {
    let against = -tokens.advantage;
    let unclipped = &against * tokens.ratio;
    let clipped_loss = &against * tokens.ratio.clamp(1.0 - low, 1.0 + high);
    let clipped = clipped_loss.gt_tensor(&unclipped);
    let loss = unclipped.maximum(&clipped_loss);
    let Some(dual) = dual else { return (loss, clipped) };
    let bounded = loss.minimum(&(&against * dual));
    (bounded.where_self(&tokens.advantage.lt(0.0), &loss), clipped)
}

/// CISPO (MiniMax-M1, arXiv 2506.13585): -clamp(ratio, 1 - low, 1 + high) A log pi, where no gradient goes through the
/// ratio.
fn cispo(tokens: &SurrogateInput, (low, high): (f64, f64)) -> (Tensor, Tensor) {
    let ratio = tokens.ratio.detach();
    let bounded = ratio.clamp(1.0 - low, 1.0 + high);
    let clipped = bounded.not_equal_tensor(&ratio);
    (-(bounded * tokens.advantage) * tokens.new, clipped)
}

/// SAPO (arXiv 2511.20347): -4 / tau sigmoid(tau (ratio - 1)) A, with `gate` as tau where A > 0 and `gate_below`
/// elsewhere. Nothing is clipped.
fn sapo(tokens: &SurrogateInput, gate: f64, gate_below: f64) -> (Tensor, Tensor) {
    let tau = tokens.advantage.gt(0.0).to_kind(Kind::Float) * (gate - gate_below) + gate_below;
    let value = ((tokens.ratio - 1.0) * &tau).sigmoid() * 4.0 / tau;
    (-(value * tokens.advantage), tokens.ratio.detach().zeros_like())
}

/// GMPO (arXiv 2507.20673): -A s at each token of a row, with s the geometric mean of the row's ratios, each clipped
/// beforehand. The logarithm d of a ratio is clipped to -low from below and to high from above, and the clip counts
/// where it makes A s smaller.
fn gmpo(tokens: &SurrogateInput, (low, high): (f64, f64)) -> (Tensor, Tensor) {
    let sign = tokens.advantage.sign();
    let log_ratio = (tokens.new - tokens.old).clamp(-LOG_RATIO, LOG_RATIO);
    let (free, bounded) = (&sign * &log_ratio, &sign * log_ratio.clamp(-low, high));
    let ratio = tokens.rows.mean(&(free.minimum(&bounded) * &sign)).exp();
    (-(tokens.advantage * ratio), bounded.lt_tensor(&free))
}

/// DPPO (arXiv 2602.04879): -A ratio, and 0 where the token's probability has gone the way of its advantage by more
/// than `high` upwards or `low` downwards. `region` is how that distance is measured: as a difference of probabilities,
/// or as the divergence of the choice between this token and any other. verl bounds the ratio by 20 besides, prime-rl
/// doesn't.
fn dppo(tokens: &SurrogateInput, (low, high): (f64, f64), region: TrustRegion) -> (Tensor, Tensor) {
    let (new, old) = (tokens.new.detach(), tokens.old);
    let (p, q) = (new.exp(), old.exp());
    let moved = &p - &q;
    let far = match region {
        TrustRegion::Tv => moved.abs(),
        // As in verl, 1e-8 keeps a probability of 1 from making a NaN of it.
        TrustRegion::Kl => {
            let (rest, rest_before) = (-&p + 1.0, -&q + 1.0);
            &q * (old - &new) + &rest_before * ((&rest_before + 1e-8) / (&rest + 1e-8)).log()
        }
    };
    let up = tokens.advantage.gt(0.0).logical_and(&moved.gt(0.0)).logical_and(&far.gt(high));
    let down = tokens.advantage.lt(0.0).logical_and(&moved.lt(0.0)).logical_and(&far.gt(low));
    let masked = up.logical_or(&down);
    ((-(tokens.ratio * tokens.advantage)).masked_fill(&masked, 0.0), masked)
}

/// KL-Cov (arXiv 2505.22617): -A ratio, and `weight` |log ratio| besides for the tokens that covary most. At a ratio of
/// 1 |log ratio| has no slope, as in verl, whose old log-probability then is the new one.
fn kl_cov(tokens: &SurrogateInput, weight: f64) -> (Tensor, Tensor) {
    let apart = distance(&(tokens.new - tokens.old)) * tokens.covary * weight;
    (apart - tokens.ratio * tokens.advantage, tokens.covary.detach())
}

/// Clip-Cov (arXiv 2505.22617): PPO's clip, and 0 for the drawn tokens.
fn clip_cov(tokens: &SurrogateInput, bounds: (f64, f64), dual: Option<f64>) -> (Tensor, Tensor) {
    let (loss, clipped) = clip(tokens, bounds, dual);
    let drawn = tokens.covary.gt(0.0);
    (loss.masked_fill(&drawn, 0.0), clipped.logical_or(&drawn))
}

/// VESPO (arXiv 2602.10693, as in TRL): -phi(W) A log pi, with W the product of a row's ratios, between 1e-8 and e^20,
/// and phi(W) = W^k exp(lambda (1 - W)) without a gradient; k and lambda by the advantage's sign.
fn vespo(tokens: &SurrogateInput, power: [f64; 2], damping: [f64; 2]) -> (Tensor, Tensor) {
    let below = tokens.advantage.lt(0.0).to_kind(Kind::Float);
    let by_sign = |[up, down]: [f64; 2]| &below * (down - up) + up;
    let (k, lambda) = (by_sign(power), by_sign(damping));
    let log_ratio = (tokens.new.detach() - tokens.old).clamp(-LOG_RATIO, LOG_RATIO);
    let log_weight = tokens.rows.sum(&log_ratio).clamp(1e-8f64.ln(), LOG_RATIO);
    let phi = (k * &log_weight + lambda * (-log_weight.exp() + 1.0)).exp();
    (-(phi * tokens.advantage) * tokens.new, tokens.ratio.detach().zeros_like())
}

/// Which tokens the settings' surrogate treats by their covariance, (log p - mean) (A - mean) over the tokens of `part`:
/// by `kl_cov` the share `covary` that covaries most, of equal ones the first; by `clip_cov` as many, drawn by
/// `seed` among those between the bounds. At least one, where there is one. A list a row; none where the surrogate
/// doesn't ask.
pub fn covarying(logprobs: &[&[f32]], advantages: &[Vec<f32>], part: &[Vec<bool>], settings: &UpdateSettings, seed: u64) -> Vec<Vec<bool>> {
    if ![Surrogate::KlCov, Surrogate::ClipCov].contains(&settings.surrogate) {
        return Vec::new();
    }
    let all: Vec<(usize, usize)> =
        (0..part.len()).flat_map(|row| (0..part[row].len()).map(move |i| (row, i))).filter(|(row, i)| part[*row][*i]).collect();
    let mean =
        |value: &dyn Fn(usize, usize) -> f32| all.iter().map(|(row, i)| f64::from(value(*row, *i))).sum::<f64>() / all.len().max(1) as f64;
    let (logprob, advantage) = (|row: usize, i: usize| logprobs[row][i], |row: usize, i: usize| advantages[row][i]);
    let (likely, good) = (mean(&logprob), mean(&advantage));
    let covariance = |(row, i): &(usize, usize)| (f64::from(logprob(*row, *i)) - likely) * (f64::from(advantage(*row, *i)) - good);
    let mut ranked: Vec<(f64, (usize, usize))> = all.iter().map(|token| (covariance(token), *token)).collect();
    if settings.surrogate == Surrogate::KlCov {
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    } else {
        ranked.retain(|(covariance, _)| *covariance > settings.covary_above && *covariance < settings.covary_below);
        Random::new(mix(seed, text("clip_cov"))).shuffle(&mut ranked);
    }
    let mut covary: Vec<Vec<bool>> = part.iter().map(|part| vec![false; part.len()]).collect();
    let count = ((all.len() as f64 * settings.covary) as usize).max(1);
    ranked.iter().take(count).for_each(|(_, (row, i))| covary[*row][*i] = true);
    covary
}

/// DeepSeek-V3.2's off-policy mask: the tokens with a negative advantage of rows whose mean of log acted - log new
/// exceeds `most`.
fn drifted(tokens: &SurrogateInput, most: f64) -> Tensor {
    let drift = tokens.rows.mean(&(tokens.acted - tokens.new.detach()));
    drift.gt(most).logical_and(&tokens.advantage.lt(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::update::loss::{ratio, sequence_ratio};
    use flow_model::RatioKind;

    /// The losses of a row of tokens, their derivatives by the log-probabilities, and whether they were clipped. `new`
    /// and `old` are probabilities.
    fn row<const N: usize>(advantage: [f32; N], new: [f64; N], old: [f64; N], settings: UpdateSettings) -> Vec<(f64, f64, bool)> {
        let new = Tensor::from_slice(&new.map(|p| p.ln() as f32)).set_requires_grad(true);
        let old = Tensor::from_slice(&old.map(|p| p.ln() as f32));
        let rows = Rows { place: Tensor::from_slice(&[0i64; N]), part: Tensor::from_slice(&[1f32; N]), count: 1 };
        let ratio = if settings.ratio == RatioKind::Token { ratio(&new, &old) } else { sequence_ratio(&new, &old, &rows) };
        let advantage = &Tensor::from_slice(&advantage);
        let covary = &Tensor::from_slice(&std::array::from_fn::<f32, N, _>(|i| if i == 0 { 1.0 } else { 0.0 }));
        let input = SurrogateInput { new: &new, old: &old, acted: &old, ratio: &ratio, advantage, rows: &rows, covary };
        let (loss, clipped) = loss(&input, &settings);
        let slopes = Tensor::run_backward(&[loss.sum(None)], &[&new], false, false);
        let one = |i| (loss.double_value(&[i]), slopes[0].double_value(&[i]), clipped.to_kind(Kind::Float).double_value(&[i]) == 1.0);
        (0..N as i64).map(one).collect()
    }

    fn close(actual: &[(f64, f64, bool)], expected: &[(f64, f64, bool)]) {
        let same = |(a, b): (&(f64, f64, bool), &(f64, f64, bool))| (a.0 - b.0).abs() < 1e-5 && (a.1 - b.1).abs() < 1e-5 && a.2 == b.2;
        assert!(actual.len() == expected.len() && actual.iter().zip(expected).all(same), "{actual:?} is not {expected:?}");
    }

    /// One token whose ratio is `r`.
    fn at(advantage: f32, r: f64, settings: UpdateSettings) -> Vec<(f64, f64, bool)> {
        row([advantage], [r], [1.0], settings)
    }

    fn of(surrogate: Surrogate, clip: f64, clip_high: f64) -> UpdateSettings {
        UpdateSettings { surrogate, clip, clip_high: Some(clip_high), ..Default::default() }
    }

    #[test]
    fn ppo_as_worked_by_hand() {
        let dual = |high, dual| UpdateSettings { dual_clip: Some(dual), ..of(Surrogate::Clip, 0.2, high) };
        close(&at(1.0, 1.5, dual(0.28, 3.0)), &[(-1.28, 0.0, true)]);
        close(&at(-1.0, 0.5, dual(0.28, 3.0)), &[(0.8, 0.0, true)]);
        close(&at(-1.0, 5.0, dual(0.28, 3.0)), &[(3.0, 0.0, false)]);
        close(&at(-1.0, 5.0, dual(0.28, 10.0)), &[(5.0, 5.0, false)]);
        close(&at(1.0, 0.5, dual(0.2, 3.0)), &[(-0.5, -0.5, false)]);
        close(&at(-1.0, 5.0, of(Surrogate::Clip, 0.2, 0.2)), &[(5.0, 5.0, false)]);
    }

    /// Token ratios 4 and 1: the geometric mean is 2, and beyond the clip 1.28 for both. LUSPO (arXiv 2602.05261) is
    /// this loss summed over the tokens of a row, by `aggregation: seq_mean_token_sum`: |y| min(s A, clip(s) A).
    #[test]
    fn gspo_as_worked_by_hand() {
        let sequence = |high| UpdateSettings { ratio: RatioKind::Sequence, ..of(Surrogate::Clip, 0.2, high) };
        close(&row([1.0; 2], [0.8, 0.5], [0.2, 0.5], sequence(0.28)), &[(-1.28, 0.0, true); 2]);
        close(&row([1.0; 2], [0.8, 0.5], [0.2, 0.5], sequence(2.0)), &[(-2.0, -2.0, false); 2]);
    }

    /// CISPO: a ratio of 1.5 counts as 1.2, and the token still learns: -1.2 * 2 * ln 1.5, by the log-probability -2.4.
    /// Of PPO's loss the derivative is 0 there. SAPO: at a ratio of 1 the gate is 2 / tau and its slope 1. At 1.5
    /// sigmoid(0.5) is 0.622459: -4 * 0.622459 and -4 * 0.622459 * 0.377541 * 1.5.
    #[test]
    fn cispo_and_sapo_as_worked_by_hand() {
        close(&at(2.0, 1.5, of(Surrogate::Cispo, 0.2, 0.2)), &[(-0.973116, -2.4, true)]);
        close(&at(-1.0, 0.5, of(Surrogate::Cispo, 0.2, 0.2)), &[(-0.554518, 0.8, true)]);
        close(&at(-1.0, 0.5, of(Surrogate::Cispo, 1.0, 0.2)), &[(-0.346574, 0.5, false)]);
        close(&at(2.0, 1.5, of(Surrogate::Clip, 0.2, 0.2)), &[(-2.4, 0.0, true)]);
        let sapo = || of(Surrogate::Sapo, 0.2, 0.2);
        close(&at(1.0, 1.0, sapo()), &[(-2.0, -1.0, false)]);
        close(&at(-1.0, 1.0, sapo()), &[(2.0 / 1.05, 1.0, false)]);
        close(&at(1.0, 1.5, sapo()), &[(-2.489837, -1.410022, false)]);
    }

    /// Log-ratios 0.6 and -0.1 with bounds of 0.4. A = 1: 0.4 and -0.1, mean 0.15, s = 1.161834; the first token is
    /// clipped and has no slope, and the second has s / 2 in the loss of each of the two. A = -1: the clip would make
    /// the loss smaller, so 0.6 and -0.1 stand: mean 0.25, s = 1.284025.
    #[test]
    fn gmpo_as_worked_by_hand() {
        let gmpo = || of(Surrogate::Gmpo, 0.4, 0.4);
        let (new, old) = ([0.6f64.exp() * 0.1, (-0.1f64).exp() * 0.5], [0.1, 0.5]);
        close(&row([1.0; 2], new, old, gmpo()), &[(-1.161834, 0.0, true), (-1.161834, -1.161834, false)]);
        close(&row([-1.0; 2], new, old, gmpo()), &[(1.284025, 1.284025, false); 2]);
        // The other way about: a log-ratio of -0.6 counts as -0.4 where A < 0.
        close(&row([-1.0], [(-0.6f64).exp()], [1.0], gmpo()), &[((-0.4f64).exp(), 0.0, true)]);
        close(&row([0.0], [0.5], [1.0], gmpo()), &[(0.0, 0.0, false)]);
    }

    /// From 1/2 to 3/4 the probability moves by 1/4, and its divergence is (ln(2/3) + ln 2) / 2 = 0.143841. Beyond the
    /// bound a token that goes its advantage's way learns nothing, one that goes against it does. From 0.01 to 0.02 the
    /// ratio is 2, which PPO would clip; the move is 0.01.
    #[test]
    fn dppo_as_worked_by_hand() {
        let region = |region, clip| UpdateSettings { region, ..of(Surrogate::Dppo, clip, clip) };
        let (masked, kept) = ([(0.0, 0.0, true)], [(-3.0, -3.0, false)]);
        for (distance, below, above) in [(TrustRegion::Tv, 0.2, 0.3), (TrustRegion::Kl, 0.14, 0.15)] {
            close(&row([2.0], [0.75], [0.5], region(distance, below)), &masked);
            close(&row([2.0], [0.75], [0.5], region(distance, above)), &kept);
            close(&row([-1.0], [0.75], [0.5], region(distance, below)), &[(1.5, 1.5, false)]);
            close(&row([-1.0], [0.25], [0.5], region(distance, 0.1)), &masked);
            close(&row([2.0], [0.02], [0.01], region(distance, below)), &[(-4.0, -4.0, false)]);
            close(&row([2.0], [1.0], [1.0], region(distance, below)), &[(-2.0, -2.0, false)]);
        }
    }

    /// One step of weights that sampled the tokens themselves: the log ratios are rounding, 1e-7 up or down, and the slope
    /// is the advantage's alone, -A ratio, in either case. |x| made 0.5 and -1.5 of it.
    #[test]
    fn kl_cov_at_a_ratio_of_1_is_the_advantage_alone() {
        for (apart, advantage) in [(1.2e-7, 0.5), (-1.2e-7, 0.5), (2.4e-7, -0.074), (0.0, 1.29), (5e-6, 1.0)] {
            let token = row([advantage], [f64::exp(-0.5 + apart)], [f64::exp(-0.5)], of(Surrogate::KlCov, 0.2, 0.2));
            close(&token, &[(-f64::from(advantage), -f64::from(advantage), true)]);
        }
        let moved = row([0.5], [f64::exp(-0.501)], [f64::exp(-0.5)], of(Surrogate::KlCov, 0.2, 0.2));
        assert!((moved[0].1 + 0.5 * f64::exp(-0.001) + 1.0).abs() < 1e-5, "{moved:?}");
    }

    /// Ratios of 0.5, A = 2, the first token held back by |ln 0.5| = 0.693147 with a weight of 3: its slope -0.5 * 2 - 3.
    /// Log-probabilities 0, -1, -2, -1 (mean -1) and advantages 1, 1, -2, 0 (mean 0): covariances 1, 0, 2, 0.
    #[test]
    fn kl_cov_as_worked_by_hand() {
        let settings = UpdateSettings { covary_kl: 3.0, ..of(Surrogate::KlCov, 0.2, 0.2) };
        close(&row([2.0; 2], [0.5; 2], [1.0; 2], settings), &[(-1.0 + 3.0 * std::f64::consts::LN_2, -4.0, true), (-1.0, -1.0, false)]);
        let (logprobs, advantages): ([&[f32]; 2], [Vec<f32>; 2]) =
            ([&[0.0, -1.0], &[-2.0, -1.0, 9.0]], [vec![1.0, 1.0], vec![-2.0, 0.0, 9.0]]);
        let part = [vec![true; 2], vec![true, true, false]];
        let chosen = |covary| covarying(&logprobs, &advantages, &part, &UpdateSettings { covary, ..of(Surrogate::KlCov, 0.2, 0.2) }, 0);
        assert_eq!(chosen(0.0), [vec![false; 2], vec![true, false, false]], "one at least");
        assert_eq!(chosen(0.5), [vec![true, false], vec![true, false, false]]);
        assert_eq!(chosen(1.0), [vec![true; 2], vec![true, true, false]], "and none that takes no part");
        assert!(covarying(&[], &[], &[], &of(Surrogate::KlCov, 0.2, 0.2), 0).is_empty());
        assert!(covarying(&logprobs, &advantages, &part, &of(Surrogate::Clip, 0.2, 0.2), 0).is_empty(), "asked for by nobody");
    }

    /// PPO's clip, and the first token drawn: it has no loss and no slope. Of covariances 1, 0, 2, 0 (as above) one
    /// lies between 1 and 5; between 0.5 and 5 there are two, of which half of four tokens are both, and a quarter is
    /// one of them, another one by another seed.
    #[test]
    fn clip_cov_as_worked_by_hand() {
        close(&row([2.0; 2], [0.5; 2], [1.0; 2], of(Surrogate::ClipCov, 0.2, 0.2)), &[(0.0, 0.0, true), (-1.0, -1.0, false)]);
        close(&row([2.0; 2], [1.0, 1.5], [1.0; 2], of(Surrogate::ClipCov, 0.2, 0.2)), &[(0.0, 0.0, true), (-2.4, 0.0, true)]);
        let (logprobs, advantages): ([&[f32]; 2], [Vec<f32>; 2]) = ([&[0.0, -1.0], &[-2.0, -1.0]], [vec![1.0, 1.0], vec![-2.0, 0.0]]);
        let part = [vec![true; 2], vec![true; 2]];
        let drawn = |covary, covary_above, seed| {
            let settings = UpdateSettings { covary, covary_above, ..of(Surrogate::ClipCov, 0.2, 0.2) };
            covarying(&logprobs, &advantages, &part, &settings, seed)
        };
        assert_eq!(drawn(0.0, 1.0, 0), [vec![false; 2], vec![true, false]], "one at least, and none at a bound");
        assert_eq!(drawn(0.5, 0.5, 0), [vec![true, false], vec![true, false]]);
        assert_eq!(drawn(1.0, 0.5, 0), [vec![true, false], vec![true, false]], "and none that doesn't covary");
        assert_eq!(drawn(0.5, 5.0, 0), [vec![false; 2], vec![false; 2]]);
        let firsts: Vec<bool> = (0..20).map(|seed| drawn(0.25, 0.5, seed)[0][0]).collect();
        assert!(firsts.contains(&true) && firsts.contains(&false) && drawn(0.25, 0.5, 7) == drawn(0.25, 0.5, 7), "{firsts:?}");
    }

    /// Ratios 2 and 1/4: W = 1/2. A = 1: phi = (1/2)^2 exp(3/2) = 1.120422, times -ln p: p is 0.8 and 0.1. A = -2: phi
    /// = (1/2)^3 exp(1) = 0.339785, twice that. At W = 1 it is REINFORCE; at W = e^20 nothing is left.
    #[test]
    fn vespo_as_worked_by_hand() {
        let vespo = || UpdateSettings { surrogate: Surrogate::Vespo, ..Default::default() };
        let (new, old) = ([0.8, 0.1], [0.4, 0.4]);
        close(&row([1.0; 2], new, old, vespo()), &[(0.250015, -1.120422, false), (2.579867, -1.120422, false)]);
        close(&row([-2.0; 2], new, old, vespo()), &[(-0.151642, 0.679570, false), (-1.564769, 0.679570, false)]);
        close(&row([1.0; 2], [0.8, 0.2], [0.2, 0.8], vespo()), &[(0.223144, -1.0, false), (1.609438, -1.0, false)]);
        close(&row([1.0], [1.0], [1e-12], vespo()), &[(0.0, 0.0, false)]);
        let other = UpdateSettings { power: [1.0, 0.0], damping: [0.0, 1.0], ..vespo() };
        close(&row([1.0; 2], new, old, other), &[(0.5 * 0.223144, -0.5, false), (0.5 * 10f64.ln(), -0.5, false)]);
    }

    /// Probabilities of 1 that became 0.5 and 0.8: the mean of log acted - log new is (ln 2 + ln 1.25) / 2 = 0.458145.
    #[test]
    fn an_off_policy_mask_as_worked_by_hand() {
        let mask = |most| UpdateSettings { mask_drift: Some(most), ..of(Surrogate::Clip, 1.0, 1.0) };
        let (new, old) = ([0.5, 0.8], [1.0; 2]);
        close(&row([-1.0; 2], new, old, mask(0.4)), &[(0.0, 0.0, true); 2]);
        close(&row([-1.0; 2], new, old, mask(0.5)), &[(0.5, 0.5, false), (0.8, 0.8, false)]);
        close(&row([1.0; 2], new, old, mask(0.4)), &[(-0.5, -0.5, false), (-0.8, -0.8, false)]);
    }
}
