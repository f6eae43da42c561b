//! The parts of the loss of each token, as small functions on vectors of one value a token: ratios, REINFORCE, values,
//! divergences (Schulman 2020), weights. How a ratio and an advantage become a loss stands in [`crate::update::surrogate`].

use crate::numbers::{Kind, Tensor};
use flow_model::{Aggregation, KlKind};

/// How far the logarithm of a ratio may go; from there on k3 goes straight on.
pub(super) const LOG_RATIO: f64 = 20.0;

/// How far a log-probability may differ by rounding alone: computed twice from the same weights in f32.
const ROUNDING: f64 = 1e-5;

/// |d|, without a slope where `d` is rounding: its sign there is chance, and |d| has a slope of 1 however small `d` is.
pub fn distance(d: &Tensor) -> Tensor {
    let distance = d.abs();
    distance.detach().where_self(&distance.le(ROUNDING), &distance)
}

/// exp(clamp(new - old)).
pub fn ratio(new: &Tensor, old: &Tensor) -> Tensor {
    (new - old).clamp(-LOG_RATIO, LOG_RATIO).exp()
}

/// The tokens of some rows: which of `count` rows each is in, and 1 where it takes part, else 0.
pub struct Rows {
    /// The row of each token, `[tokens]`.
    pub place: Tensor,
    /// Whether it takes part, `[tokens]`.
    pub part: Tensor,
    /// How many rows there are.
    pub count: i64,
}

impl Rows {
    /// The sum of `values` over the tokens of a row that take part, at each of its tokens.
    pub fn sum(&self, values: &Tensor) -> Tensor {
        let none = Tensor::zeros([self.count], (Kind::Float, values.device()));
        none.index_add(0, &self.place, &(values * &self.part)).index_select(0, &self.place)
    }

    /// The mean of `values` over the tokens of a row that take part, at each of its tokens.
    pub fn mean(&self, values: &Tensor) -> Tensor {
        let none = Tensor::zeros([self.count], (Kind::Float, values.device()));
        let mean = none.index_add(0, &self.place, &(values * &self.part)) / none.index_add(0, &self.place, &self.part);
        mean.index_select(0, &self.place)
    }
}

/// The geometric mean of each row's token ratios, at each of its tokens: s = exp(mean of new - old) over the tokens
/// that take part (GSPO, Zheng et al. 2025, Eq. 7).
pub fn sequence_ratio(new: &Tensor, old: &Tensor, rows: &Rows) -> Tensor {
    rows.mean(&(new - old)).clamp(-LOG_RATIO, LOG_RATIO).exp()
}

/// min(exp(clamp(start - acted)), truncate): how much likelier a token is by the weights at the update's start than by
/// the weights that acted.
pub fn importance(start: &Tensor, acted: &Tensor, truncate: f64) -> Tensor {
    ratio(start, acted).clamp_max(truncate)
}

/// The loss of each token of rows that are learnt by REINFORCE, `[tokens]`: -(beta A - kl (L_q - L_p)) log q, where L
/// is the row's log-probability under the model and under the reference (EAPO, Eq. 8 and appendix A). The bracket is a
/// coefficient: no gradient goes through it. `rows` says for each token which of `count` rows it is in; `mean` takes L
/// as a mean over the row's tokens and not as their sum.
pub fn reinforce(
    new: &Tensor,
    reference: Option<&Tensor>,
    advantage: &Tensor,
    (rows, count, mean): (&Tensor, i64, bool),
    (beta, kl): (f64, f64),
) -> Tensor {
    let none = || Tensor::zeros([count], (Kind::Float, new.device()));
    let apart = reference.map(|reference| {
        let sums = none().index_add(0, rows, &(new.detach() - reference));
        let sums = if mean { sums / none().index_add(0, rows, &new.ones_like().detach()) } else { sums };
        sums.index_select(0, rows) * kl
    });
    let reward = advantage * beta;
    -(apart.map_or_else(|| reward.copy(), |apart| &reward - apart)) * new
}

/// The value loss, and whether the clipped branch decided: max((V - R)^2, (clamp(V, V_old - clip, V_old + clip) - R)^2)
/// / 2, with R the target; (V - R)^2 / 2 where `clip` is 0. PPO's paper has the plain square; the clip and the half are
/// those of its code (OpenAI Baselines).
pub fn value(value: &Tensor, old: &Tensor, target: &Tensor, clip: f64) -> (Tensor, Tensor) {
    let unclipped = (value - target).square() / 2.0;
    if clip == 0.0 {
        return (unclipped, value.zeros_like());
    }
    let change = value - old;
    let clipped_loss = (old + change.clamp(-clip, clip) - target).square() / 2.0;
    let clipped = clipped_loss.gt_tensor(&unclipped).logical_and(&change.abs().gt(clip));
    (unclipped.maximum(&clipped_loss), clipped)
}

/// The weight of a value's squared error by the expectile `tau`: |tau - 1(R < V)|, twice that so that 0.5 leaves the
/// loss as it is (IQL, Kostrikov et al. 2022, Eq. 5). `states` is 1 where an expectile is asked for, else 0: there the
/// weight is 1.
pub fn expectile(value: &Tensor, target: &Tensor, states: &Tensor, tau: f64) -> Tensor {
    let above = target.lt_tensor(value).to_kind(Kind::Float);
    let weight = (above - tau).abs() * 2.0;
    (weight - 1.0) * states + 1.0
}

/// The estimate of the KL divergence from the reference (Schulman 2020), in nats, `[tokens]`. k3 is exp(-d) + d - 1 down
/// to d = -20 and goes on along its tangent: in f32 exp(-d) is infinite below -88.7.
pub fn reference_kl(new: &Tensor, reference: &Tensor, kind: KlKind) -> Tensor {
    let d = new - reference;
    match kind {
        KlKind::K1 => d,
        KlKind::K2 => d.square() / 2.0,
        KlKind::K3 => {
            let near = d.clamp_min(-LOG_RATIO);
            (-&near).exp() * (1.0 + (&near - &d)) + d - 1.0
        }
        KlKind::Abs => distance(&d),
    }
}

/// How far a policy has gone from the one that acted: k3's estimate (Schulman 2020) of KL(acted || new), whose draws
/// the tokens are. The other direction would take the policy that acted for its own reference: a token that became
/// unlikely would count e^d.
pub fn moved(new: &Tensor, acted: &Tensor) -> Tensor {
    reference_kl(acted, new, KlKind::K3)
}

/// What an optimiser step counts, as far as the weight of a token depends on it.
pub struct StepCounts {
    /// The responses of the step.
    pub rows: usize,
    /// Their tokens.
    pub tokens: usize,
    /// The trajectories that they are turns of.
    pub trajectories: usize,
    /// The constant of `seq_mean_token_sum_norm`.
    pub norm: f64,
}

/// The weight of each token of a response of `length` tokens in the loss of a step: the loss of the step is the
/// weighted sum over its tokens, however they are split into passes. `turns` and `written` are the responses and the
/// tokens of the response's trajectory in the step.
pub fn weight(aggregation: Aggregation, length: usize, turns: usize, written: usize, step: &StepCounts) -> f64 {
    let rows = step.rows as f64;
    1.0 / match aggregation {
        Aggregation::TokenMean => step.tokens as f64,
        Aggregation::SeqMeanTokenSum => rows,
        Aggregation::SeqMeanTokenMean => rows * length as f64,
        Aggregation::SeqMeanTokenSumNorm => rows * step.norm,
        Aggregation::TrajectoryMeanTokenMean => (step.trajectories * written) as f64,
        Aggregation::TrajectoryMeanTurnMean => (step.trajectories * turns) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::values;

    #[test]
    fn divergences_as_worked_by_hand() {
        let t = |x: f32| Tensor::from_slice(&[x]);
        for (kind, expected) in [(KlKind::K1, 0.5), (KlKind::K2, 0.125), (KlKind::K3, 0.106531), (KlKind::Abs, 0.5)] {
            let estimate = reference_kl(&t(-1.0), &t(-1.5), kind).double_value(&[0]);
            assert!((estimate - expected).abs() < 1e-6, "{kind:?}: {estimate}");
        }
        assert_eq!(reference_kl(&t(-1.5), &t(-1.0), KlKind::Abs).double_value(&[0]), 0.5);
    }

    /// Within rounding of 0, and at 0, |d| has no slope; beyond it the slope is the sign of d. The value is |d| throughout.
    #[test]
    fn a_distance_of_rounding_has_no_slope() {
        let d = [0.0f32, 1e-7, -1e-7, 9e-6, -2e-5, 2e-5, -3.0];
        let new = Tensor::from_slice(&d).set_requires_grad(true);
        let slopes = |of: &Tensor| values(&Tensor::run_backward(&[of.sum(None)], &[&new], false, false)[0]);
        let apart = distance(&new);
        assert_eq!(values(&apart), d.map(f32::abs));
        assert_eq!(slopes(&apart), [0.0, 0.0, 0.0, 0.0, -1.0, 1.0, -1.0]);
        assert_eq!(slopes(&reference_kl(&new, &new.zeros_like().detach(), KlKind::Abs)), [0.0, 0.0, 0.0, 0.0, -1.0, 1.0, -1.0]);
    }

    /// At d = -100 the tangent at -20 is e^20 * 81 - 101, and its gradient 1 - e^20, which leads back.
    #[test]
    fn k3_stays_a_number_and_leads_back() {
        let new = Tensor::from_slice(&[-100.0f32, -20.0, -3.0]).set_requires_grad(true);
        let estimate = reference_kl(&new, &new.zeros_like().detach(), KlKind::K3);
        let gradient = Tensor::run_backward(&[estimate.sum(None)], &[&new], false, false);
        let e20 = 20f64.exp();
        let expected = [(e20 * 81.0 - 101.0, 1.0 - e20), (e20 - 21.0, 1.0 - e20), (3f64.exp() - 4.0, 1.0 - 3f64.exp())];
        for (i, (value, slope)) in (0..).zip(expected) {
            assert!(
                (estimate.double_value(&[i]) / value - 1.0).abs() < 1e-5 && (gradient[0].double_value(&[i]) / slope - 1.0).abs() < 1e-5,
                "{i}"
            );
        }
    }

    /// A choice between two, at 0.9 and 0.1 where the reference has 0.5 each. What is drawn is drawn by these
    /// probabilities, so the gradient of the divergence by the logit is 0.09 * (ln 1.8 - ln 0.2) = 0.197750; k2 has it
    /// on average, k1 has none.
    #[test]
    fn k1_has_no_gradient_on_average() {
        let gradient_of = |kind| {
            let logit = Tensor::from_slice(&[9f32.ln()]).set_requires_grad(true);
            let (first, half) = (logit.sigmoid(), Tensor::from_slice(&[0.5f32.ln()]));
            let one = |p: Tensor| reference_kl(&p.log(), &half, kind) * p.detach();
            let mean = (one(first.shallow_clone()) + one(-first + 1.0)).sum(None);
            Tensor::run_backward(&[mean], &[&logit], false, false)[0].double_value(&[0])
        };
        assert!(gradient_of(KlKind::K1).abs() < 1e-6, "{}", gradient_of(KlKind::K1));
        assert!((gradient_of(KlKind::K2) - 0.197750).abs() < 1e-5, "{}", gradient_of(KlKind::K2));
    }

    #[test]
    fn a_move_is_measured_by_the_draws_of_the_policy_that_acted() {
        // Acted (.5, .5), new (.9, .1): KL = .5 ln(.5 / .9) + .5 ln(.5 / .1) = 0.510826, the mean of the estimate over
        // what was drawn.
        let t = |p: [f32; 2]| Tensor::from_slice(&p).log();
        let estimate = moved(&t([0.9, 0.1]), &t([0.5, 0.5]));
        let [a, b] = [estimate.double_value(&[0]), estimate.double_value(&[1])];
        assert!((0.5 * a + 0.5 * b - 0.510826).abs() < 1e-5, "{a}, {b}");
        assert!((a - 0.212213).abs() < 1e-5 && (b - 0.809438).abs() < 1e-5, "{a}, {b}");
    }

    #[test]
    fn a_sequence_ratio_is_a_geometric_mean() {
        // Row 0 has token ratios 4, 1 and a masked 7; row 1 has 1/4 alone.
        let new = Tensor::from_slice(&[4f32.ln(), 0.0, 7f32.ln(), 0.25f32.ln()]).set_requires_grad(true);
        let rows = Rows { place: Tensor::from_slice(&[0i64, 0, 0, 1]), part: Tensor::from_slice(&[1f32, 1.0, 0.0, 1.0]), count: 2 };
        let ratio = sequence_ratio(&new, &new.zeros_like().detach(), &rows);
        let values = |t: &Tensor| (0..4).map(|i| t.double_value(&[i])).collect::<Vec<_>>();
        let close = |t: &Tensor, expected: [f64; 4]| assert!(values(t).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{t:?}");
        close(&ratio, [2.0, 2.0, 2.0, 0.25]);
        // The gradient of s by a token's log-probability is s / length: row 0 stands once for each of its three tokens,
        // row 1 once.
        let gradient = Tensor::run_backward(&[ratio.sum(None)], &[&new], false, false);
        close(&gradient[0], [3.0, 3.0, 0.0, 0.25]);
    }

    #[test]
    fn value_loss_as_worked_by_hand() {
        // V_old 1, target 3, clip 0.2: a V of 1.5 or 4 counts as 1.2, a V of 0.9 as itself.
        let t = Tensor::from_slice(&[1.5f32, 0.9, 4.0]);
        let losses = |clip| value(&t, &t.ones_like(), &(t.ones_like() * 3.0), clip);
        for (clip, expected, decided) in [(0.2, [1.62, 2.205, 1.62], [1.0, 0.0, 1.0]), (0.0, [1.125, 2.205, 0.5], [0.0; 3])] {
            let (loss, clipped) = losses(clip);
            for i in 0..3 {
                assert!((loss.double_value(&[i as i64]) - expected[i]).abs() < 1e-6, "{loss:?}");
                assert_eq!(clipped.double_value(&[i as i64]), decided[i]);
            }
        }
    }

    /// Values 1 and 3 where 2 should have been expected, and 3 of an action. By 0.7 the first error weighs 1.4, the
    /// second 0.6, the third 1.
    #[test]
    fn an_expectile_as_worked_by_hand() {
        let t = |values: [f32; 3]| Tensor::from_slice(&values);
        let weights = |tau| expectile(&t([1.0, 3.0, 3.0]), &t([2.0; 3]), &t([1.0, 1.0, 0.0]), tau);
        for (tau, expected) in [(0.7, [1.4, 0.6, 1.0]), (0.5, [1.0; 3]), (1.0, [2.0, 0.0, 1.0])] {
            for (i, expected) in (0..).zip(expected) {
                assert!((weights(tau).double_value(&[i]) - expected).abs() < 1e-6, "{tau}");
            }
        }
    }

    #[test]
    fn importance_is_truncated() {
        let start = Tensor::from_slice(&[1.5f32.ln(), 5f32.ln(), 0.1f32.ln()]);
        let weights = importance(&start, &start.zeros_like(), 2.0);
        for (i, expected) in [1.5, 2.0, 0.1].into_iter().enumerate() {
            assert!((weights.double_value(&[i as i64]) - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn far_ratios_stay_numbers() {
        let t = |x: f32| Tensor::from_slice(&[x]);
        assert!((ratio(&t(0.0), &t(-100.0)).double_value(&[0]) / 20f64.exp() - 1.0).abs() < 1e-5);
    }

    /// A text of three tokens at q = 1/2, 1/4, 1/2 and p = 1/4 each: log q - log p is ln 2, 0, ln 2, in all 2 ln 2 =
    /// 1.386294. With Q = 1, beta = 2 and kl = 0.5 the coefficient is 2 - 0.693147 = 1.306853, and the loss -1.306853 *
    /// ln(1/16) = 3.623365. By means a token it is 2 - 0.5 * 0.462098 = 1.768951, and the loss 1.768951 * 2.772589 / 3
    /// = 1.634858. The gradient by each log q is less the coefficient.
    #[test]
    fn reinforce_as_worked_by_hand() {
        let new = Tensor::from_slice(&[0.5f32.ln(), 0.25f32.ln(), 0.5f32.ln()]).set_requires_grad(true);
        let base = Tensor::from_slice(&[0.25f32.ln(); 3]);
        let rows = Tensor::from_slice(&[0i64; 3]);
        for (mean, loss, coefficient) in [(false, 3.623365, 1.306853), (true, 1.634858, 1.768951)] {
            let each = reinforce(&new, Some(&base), &new.ones_like().detach(), (&rows, 1, mean), (2.0, 0.5));
            let step = StepCounts { rows: 1, tokens: 3, trajectories: 1, norm: 1.0 };
            let by = if mean { Aggregation::SeqMeanTokenMean } else { Aggregation::SeqMeanTokenSum };
            let whole = each.sum(None) * weight(by, 3, 1, 3, &step);
            assert!((whole.double_value(&[]) - loss).abs() < 1e-5, "{whole:?}");
            let gradient = Tensor::run_backward(&[each.sum(None)], &[&new], false, false);
            assert!((0..3).all(|i| (gradient[0].double_value(&[i]) + coefficient).abs() < 1e-5), "{:?}", gradient[0]);
        }
        // What the reference found likelier than Q is worth is made less likely: Q = 0.
        let each = reinforce(&new, Some(&base), &new.zeros_like().detach(), (&rows, 1, false), (2.0, 0.5));
        let gradient = Tensor::run_backward(&[each.sum(None)], &[&new], false, false);
        assert!((gradient[0].double_value(&[0]) - std::f64::consts::LN_2).abs() < 1e-5);
    }

    #[test]
    fn aggregations_of_two_responses() {
        // Losses 1, 2, 3 and 6, the responses of two trajectories.
        let step = StepCounts { rows: 2, tokens: 4, trajectories: 2, norm: 8.0 };
        let sum = |aggregation| {
            let w = |length| weight(aggregation, length, 1, length, &step);
            w(3) * 6.0 + w(1) * 6.0
        };
        assert_eq!(sum(Aggregation::TokenMean), 3.0);
        assert_eq!(sum(Aggregation::SeqMeanTokenSum), 6.0);
        assert_eq!(sum(Aggregation::SeqMeanTokenMean), 4.0);
        assert_eq!(sum(Aggregation::SeqMeanTokenSumNorm), 0.75);
        assert_eq!(sum(Aggregation::TrajectoryMeanTokenMean), 4.0);
        assert_eq!(sum(Aggregation::TrajectoryMeanTurnMean), 6.0);
    }

    /// What an episode weighs beside one that makes a single call of four tokens, where it makes calls of four tokens
    /// each: two, the second of which edits what the first was asked (a fork); three, the last of which begins anew
    /// with less (a compaction); and six, of which two sub-agents make two each at the same time. By tokens and by rows
    /// it weighs as many times as much as it makes calls; by trajectories as much.
    #[test]
    fn an_episode_of_many_calls() {
        for calls in [2, 3, 6] {
            let step = StepCounts { rows: 1 + calls, tokens: 4 * (1 + calls), trajectories: 2, norm: 1.0 };
            let share = |aggregation, calls: usize| (4 * calls) as f64 * weight(aggregation, 4, calls, 4 * calls, &step);
            for aggregation in [Aggregation::TokenMean, Aggregation::SeqMeanTokenMean] {
                assert_eq!(share(aggregation, calls) / share(aggregation, 1), calls as f64);
            }
            assert_eq!([1, calls].map(|calls| share(Aggregation::TrajectoryMeanTokenMean, calls)), [0.5, 0.5]);
            // A mean over turns of sums over tokens: 4 / 2 each.
            assert_eq!([1, calls].map(|calls| share(Aggregation::TrajectoryMeanTurnMean, calls)), [2.0, 2.0]);
        }
    }

    /// Trajectories of one and of three turns of one token: 1/2 and 1/6 (EAPO, Eq. 2; SLEA-RL, Eq. 7), where a mean
    /// over tokens has 1/4.
    #[test]
    fn a_trajectory_counts_once() {
        let step = StepCounts { rows: 4, tokens: 4, trajectories: 2, norm: 1.0 };
        for aggregation in [Aggregation::TrajectoryMeanTokenMean, Aggregation::TrajectoryMeanTurnMean] {
            assert_eq!([1, 3].map(|turns| weight(aggregation, 1, turns, turns, &step)), [0.5, 1.0 / 6.0]);
        }
        assert_eq!(weight(Aggregation::TokenMean, 1, 3, 3, &step), 0.25);
    }
}
